"""A quick check reads heads and tails, a full one everything; both say why a sample is no good."""

import io
import os
import random
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import numpy as np
import pytest
from PIL import Image

from ddlp.core.dataset import check as check_module
from ddlp.core.dataset.check import inspect
from ddlp.core.dataset.files import open_regular
from ddlp.core.errors import BadSample
from ddlp.core.image import ImageHead, Kind
from tests.core.dataset.making import index_of, picture, put

How = Literal["quick", "full"]
HOWS = pytest.mark.parametrize("how", ["quick", "full"])


def noise(form: str = "JPEG", side: int = 600) -> bytes:
    """An image that does not fit into what is read of its head."""
    drawn = np.random.default_rng(3).integers(0, 256, (side, side, 3)).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(drawn).save(out, form)
    assert len(out.getvalue()) > 100_000
    return out.getvalue()


def judge(folder: Path, data: bytes, how: How) -> ImageHead:
    """Judged as it lies between other bytes."""
    (folder / "x").write_bytes(b"before" + data + b"after")
    with open_regular(str(folder / "x")) as file:
        return inspect(file, 6, len(data), how)


@HOWS
@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "BMP", "TIFF"])
def test_a_good_image_gives_its_head(tmp_path: Path, form: str, how: How) -> None:
    kind = Kind.JPEG if form == "JPEG" else Kind.OTHER
    small, large = picture(form), noise(form, side=600)
    assert judge(tmp_path, small, how) == ImageHead(kind, 5, 4, 1)
    assert judge(tmp_path, large, how) == ImageHead(kind, 600, 600, 1)


@HOWS
def test_the_orientation_is_found(tmp_path: Path, how: How) -> None:
    assert judge(tmp_path, picture(orientation=6), how) == ImageHead(Kind.JPEG, 5, 4, 6)


@HOWS
@pytest.mark.parametrize("data", [b"", b"\xff", b"\xff\xd8", b"text", b"\xff\xd8\xff\xd9"])
def test_what_is_no_image_is_refused(tmp_path: Path, data: bytes, how: How) -> None:
    with pytest.raises(BadSample):
        judge(tmp_path, data, how)


@HOWS
@pytest.mark.parametrize("kept", [100, 1 << 15, 1 << 16, 100_000, -1])
def test_a_jpeg_that_was_cut_short_is_found(tmp_path: Path, kept: int, how: How) -> None:
    with pytest.raises(BadSample):
        judge(tmp_path, noise()[:kept], how)


def test_bytes_after_the_end_of_a_jpeg_do_no_harm(tmp_path: Path) -> None:
    assert judge(tmp_path, noise() + b"\0\0\0", "quick").width == 600


@pytest.mark.parametrize("form", ["PNG", "WEBP", "BMP", "TIFF"])
def test_a_full_check_finds_that_any_image_was_cut_short(tmp_path: Path, form: str) -> None:
    with pytest.raises(BadSample):
        judge(tmp_path, noise(form)[:-1000], "full")


def test_a_quick_check_reads_the_head_and_the_tail_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def counted(file: BinaryIO, start: int, size: int) -> bytes:
        read.append(size)
        return os.pread(file.fileno(), size, start)

    monkeypatch.setattr(check_module, "read_at", counted)
    judge(tmp_path, noise(), "quick")
    assert read == [1 << 16, 2]


@HOWS
def test_too_many_bytes_or_pixels_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: How
) -> None:
    monkeypatch.setattr(check_module, "MAX_PIXELS", 19)
    with pytest.raises(BadSample, match="5 × 4 pixels are more than 19"):
        judge(tmp_path, picture(), how)
    monkeypatch.setattr(check_module, "MAX_BYTES", 100)
    with pytest.raises(BadSample, match="it is too large"):
        judge(tmp_path, picture(), how)


@HOWS
def test_no_damage_is_more_than_a_rejection(tmp_path: Path, how: How) -> None:
    drawn = random.Random(5)
    forms = [picture(form) for form in ("JPEG", "PNG", "WEBP", "BMP", "TIFF")]
    for number in range(150):
        data = bytearray(forms[number % len(forms)])
        for _ in range(drawn.randint(1, 6)):
            data[drawn.randrange(len(data))] = drawn.randrange(256)
        put(tmp_path / "d", f"c/{number}.jpg", data=bytes(data))
    put(tmp_path / "d", "c/good.jpg")
    index = index_of(tmp_path / "d", check=cast(Any, how))
    assert index.samples + index.rejected == 151
    assert index.rejected > 20
