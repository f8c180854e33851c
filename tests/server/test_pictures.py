"""Pictures of samples: few at a time, without keeping the database or many requests waiting."""

import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image
from sqlalchemy import event

from ddlp.core.errors import InvalidInput, NotFound, Unavailable
from ddlp.core.preview import PreviewRequest
from ddlp.server import datasets, pictures
from ddlp.server.models import Dataset
from ddlp.server.routes import datasets as routes
from ddlp.server.thumbnail_cache import ThumbnailCache
from tests.conftest import SMALL_PIPELINE, make_images
from tests.server.conftest import Plane


@pytest.fixture
def row(plane: Plane) -> Dataset:
    """A dataset of which the first sample cannot be decoded any more."""
    place = make_images(plane.scratch / "spoilt", 6)
    plane.add_dataset(place, "fruit")
    first = place / "apple" / "0000.jpg"
    was = first.stat()
    first.write_bytes(b"\0" * was.st_size)
    os.utime(first, ns=(was.st_atime_ns, was.st_mtime_ns))
    with plane.database.session() as session:
        return datasets.find(session, "fruit")


@pytest.fixture
def context(plane: Plane) -> Any:
    return SimpleNamespace(database=plane.database)


def request(row: Dataset) -> PreviewRequest:
    return PreviewRequest(index_path=Path(row.index_path), samples=[1], **SMALL_PIPELINE)


def test_a_child_makes_them(row: Dataset) -> None:
    with Image.open(io.BytesIO(pictures.thumbnail(row, 1))) as picture:
        assert picture.format == "JPEG"
    with Image.open(io.BytesIO(pictures.sheet(request(row)))) as picture:
        assert picture.format == "PNG"
    assert pictures.explain(request(row))[0].sample == 1


def test_what_cannot_be_made_is_said_not_to_be_there(
    row: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotFound, match=r"no picture can be made of .*apple/0000.jpg: "):
        pictures.thumbnail(row, 0)
    with pytest.raises(NotFound, match="has no sample 6; it has 6"):
        pictures.thumbnail(row, 6)
    monkeypatch.setattr(pictures, "_THUMBNAIL_S", 0.001)
    with pytest.raises(NotFound, match="it took longer than"):
        pictures.thumbnail(row, 1)
    monkeypatch.undo()
    assert pictures.thumbnail(row, 1)
    (Path(row.index_path)).unlink()
    with pytest.raises(InvalidInput, match="is not a dataset index"):
        pictures.explain(request(row))


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All children are at work for others."""
    monkeypatch.setattr(pictures, "_WAIT_S", 0.05)
    for _ in range(2):
        pictures._AT_ONCE.acquire()
    yield
    for _ in range(2):
        pictures._AT_ONCE.release()


@pytest.mark.usefixtures("busy")
def test_nobody_waits_for_long(row: Dataset) -> None:
    for _ in range(20):  # each gives its place in the queue back
        with pytest.raises(Unavailable, match="too many pictures are being made"):
            pictures.thumbnail(row, 1)
    with pytest.raises(Unavailable, match="too many pictures are being made"):
        pictures.sheet(request(row))


def test_not_many_wait(row: Dataset) -> None:
    for _ in range(12):
        pictures._ROOM.acquire()
    try:
        with pytest.raises(Unavailable, match="too many pictures are being made"):
            pictures.thumbnail(row, 1)
    finally:
        for _ in range(12):
            pictures._ROOM.release()


def test_the_database_is_not_kept_meanwhile(
    plane: Plane, row: Dataset, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = []
    mine = 0
    me = threading.get_ident()  # other threads of the server use connections of their own

    def out(*_: object) -> None:
        nonlocal mine
        mine += threading.get_ident() == me

    def back(*_: object) -> None:
        nonlocal mine
        mine -= threading.get_ident() == me

    def note(*_: object) -> bytes:
        kept.append(mine)
        return b""

    event.listen(plane.database.engine, "checkout", out)
    event.listen(plane.database.engine, "checkin", back)

    for name in ("thumbnail", "explain", "sheet"):
        monkeypatch.setattr(pictures, name, note)
    routes.thumbnail(1, routes.find_ready("fruit", context))
    asked = routes.find_preview("fruit", context, samples="1,2", pipeline="imagenet-val")
    assert asked.samples == [1, 2]
    routes.preview(asked)
    routes.preview_sheet(asked)
    assert kept == [0, 0, 0]


def test_a_browser_asks_no_sooner_again_for_what_is_not_there(row: Dataset, context: Any) -> None:
    there, missing = (routes.thumbnail(sample, row) for sample in (1, 0))
    assert (there.status_code, missing.status_code) == (200, 404)
    assert missing.headers["Cache-Control"] == there.headers["Cache-Control"]
    with pytest.raises(NotFound, match="not abc"):
        routes.find_version("fruit", context, version="abc")
    assert routes.find_version("fruit", context, version=row.version[:12]).id == row.id


def test_pages_get_a_drawing_where_no_picture_can_be_made(row: Dataset) -> None:
    there, missing = (routes.thumbnail(sample, row, placeholder=True) for sample in (1, 0))
    assert (there.status_code, there.media_type) == (200, "image/jpeg")
    assert (missing.status_code, missing.media_type) == (200, "image/svg+xml")
    drawn = ElementTree.fromstring(bytes(missing.body))
    assert "No preview" in "".join(drawn.itertext())


class Children:
    """Counts the processes that are started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started: list[str] = []
        run = subprocess.run

        def counted(command: list[str], **options: Any) -> Any:
            self.started.append(command[3])
            return run(command, **options)

        monkeypatch.setattr(pictures.subprocess, "run", counted)


def test_one_child_makes_all_of_a_page(row: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    children = Children(monkeypatch)
    pictures.prepare(row, range(6))
    for sample in range(1, 6):
        with Image.open(io.BytesIO(pictures.thumbnail(row, sample))) as picture:
            assert picture.format == "JPEG"
    with pytest.raises(NotFound, match=r"no picture can be made of .*apple/0000.jpg: "):
        pictures.thumbnail(row, 0)
    pictures.prepare(row, range(6))
    assert children.started == ["ddlp.core.image.thumbnails"]


CRASHING = """
import os, sys
from ddlp.core.image import thumbnail, thumbnails
whole = thumbnail.encoded
thumbnail.encoded = lambda index, sample: os.abort() if sample in (1, 4) else whole(index, sample)
thumbnails.main()
"""


def test_a_crash_is_laid_to_one_sample_and_the_rest_is_shown(
    row: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(_: str, arguments: list[str]) -> list[str]:
        return [sys.executable, "-c", CRASHING, str(os.getpid()), *arguments]

    monkeypatch.setattr(pictures, "_command", command)
    pictures.prepare(row, range(6))
    monkeypatch.undo()
    for sample in (1, 4):
        with pytest.raises(NotFound, match="ended by signal 6"):
            pictures.thumbnail(row, sample)
    assert all(pictures.thumbnail(row, sample) for sample in (2, 3, 5))


@pytest.mark.usefixtures("busy")
def test_a_page_does_not_fail_because_others_are_busy(row: Dataset) -> None:
    pictures.prepare(row, range(6))


def test_what_is_kept_is_bounded() -> None:
    cache = ThumbnailCache(most_bytes=1000)
    for sample in range(10):
        cache.put(("index", "version", sample), b"x" * 100)
    held = [sample for sample in range(10) if cache.get(("index", "version", sample))]
    assert held == [7, 8, 9]
    cache.put(("index", "version", 9), "why not")
    assert cache.get(("index", "version", 9)) == "why not"
