"""Unpacking gives the files back: the same pixels, the same way up, below the folder asked for."""

import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest

from ddlp.core.dataset import DatasetIndex, scan
from ddlp.core.dataset.shards import open_shard
from ddlp.core.errors import Conflict, InvalidInput
from ddlp.core.image import Kind
from ddlp.core.image.pillow import decode
from ddlp.core.records import PackProgress, unpack
from tests.core.records.making import (
    NEEDS_KERNEL,
    contents,
    dataset,
    encoded,
    everything,
    mixed,
    pack,
    packed,
    spoil,
)

pytestmark = NEEDS_KERNEL


@pytest.mark.parametrize("keep_heads", [False, True])
def test_files_come_back(tmp_path: Path, keep_heads: bool) -> None:
    origin = dataset(tmp_path)
    twin = packed(origin, tmp_path / "p", keep_heads=keep_heads)
    seen: list[PackProgress] = []
    done = unpack(twin, tmp_path / "u", seen.append)
    assert (done.files, done.left_out) == (origin.samples, ())
    assert (seen[-1].samples, seen[-1].shards, seen[-1].bytes) == (origin.samples, 3, done.bytes)
    scan(tmp_path / "u", tmp_path / "u.idx")
    back = DatasetIndex(tmp_path / "u.idx")
    assert back.classes == origin.classes
    ours, theirs = back.heads(everything(back)), origin.heads(everything(origin))
    for field in ("kind", "width", "height", "orientation"):
        assert getattr(ours, field).tolist() == getattr(theirs, field).tolist()
    kinds = twin.heads(everything(twin)).kind
    for sample in range(origin.samples):
        assert back.row(sample)[1] == origin.row(sample)[1]
        if kinds[sample] == Kind.RECORD:
            np.testing.assert_array_equal(
                decode(back.read(sample)), decode(origin.read(sample)), origin.name(sample)
            )
        else:
            assert back.read(sample) == origin.read(sample)
    assert done.bytes == back.total_bytes


def test_what_was_unpacked_can_be_packed_to_the_same_pixels(tmp_path: Path) -> None:
    origin = dataset(tmp_path)
    pack(origin, tmp_path / "p")
    unpack(tmp_path / "p", tmp_path / "u")
    scan(tmp_path / "u", tmp_path / "u.idx")
    pack(DatasetIndex(tmp_path / "u.idx"), tmp_path / "q")
    for first, again in zip(
        sorted((tmp_path / "p").iterdir()), sorted((tmp_path / "q").iterdir()), strict=True
    ):
        assert open_shard(first)[0].checksums.tolist() == open_shard(again)[0].checksums.tolist()


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    pack(dataset(tmp_path), tmp_path / "p")
    (tmp_path / "u").mkdir()
    (tmp_path / "u" / "something").touch()
    with pytest.raises(InvalidInput, match="u is not empty"):
        unpack(tmp_path / "p", tmp_path / "u")


def test_what_is_not_packed_is_refused(tmp_path: Path) -> None:
    origin = dataset(tmp_path)
    with pytest.raises(InvalidInput, match="is a dataset of kind folder: it is not packed"):
        unpack(origin, tmp_path / "u")
    with pytest.raises(InvalidInput, match="holds no shards"):
        unpack(tmp_path / "data", tmp_path / "u")
    with pytest.raises(InvalidInput, match="none cannot be read"):
        unpack(tmp_path / "none", tmp_path / "u")
    pack(origin, tmp_path / "p")
    (tmp_path / "p" / "pack-00001-of-00003.ddlp").unlink()
    with pytest.raises(InvalidInput, match="lacks 1 of 3 shards"):
        unpack(tmp_path / "p", tmp_path / "u")


def test_it_can_be_stopped(tmp_path: Path) -> None:
    pack(dataset(tmp_path), tmp_path / "p")
    with pytest.raises(Conflict, match="was stopped"):
        unpack(tmp_path / "p", tmp_path / "u", stop=lambda: True)


def test_samples_without_sound_bytes_are_left_out_and_named(tmp_path: Path) -> None:
    origin = dataset(tmp_path)
    os.unlink(origin.name(2))
    pack(origin, tmp_path / "p", on_bad="skip")
    path = tmp_path / "p" / "pack-00001-of-00003.ddlp"
    foot, _ = open_shard(path)
    spoil(path, int(foot.rows["place"][0]) + 50)
    done = unpack(tmp_path / "p", tmp_path / "u")
    assert done.files == origin.samples - 2
    assert done.left_out == (
        (origin.row(2)[1].decode(), "it could not be read when it was packed"),
        (origin.row(7)[1].decode(), "its bytes are damaged"),
    )


def test_names_that_lead_elsewhere_lead_nowhere_else(tmp_path: Path) -> None:
    """Names of a manifest: absolute, above its folder, twice the same."""
    (tmp_path / "far").mkdir()
    (tmp_path / "lists").mkdir()
    lines = ["path,label"]
    for number, name in enumerate(["far/1.jpg", "lists/1.jpg", "far/2.jpg", "lists/dog"]):
        (tmp_path / name).write_bytes(encoded(side=20 + number))
    lines += [
        f"{tmp_path}/far/1.jpg,cat",
        "1.jpg,cat",
        "./1.jpg,cat",
        "../far/2.jpg,dog",
        "dog,dog",
    ]
    (tmp_path / "lists" / "all.csv").write_text("\n".join(lines))
    scan(tmp_path / "lists" / "all.csv", tmp_path / "m.idx")
    pack(DatasetIndex(tmp_path / "m.idx"), tmp_path / "p")
    before = sorted(path for path in tmp_path.rglob("*"))
    assert unpack(tmp_path / "p", tmp_path / "u").files == 5
    made = {str(p.relative_to(tmp_path / "u")) for p in (tmp_path / "u").rglob("*") if p.is_file()}
    inside = f"{tmp_path}/far/1.jpg".lstrip("/")
    assert made == {f"cat/{inside}", "cat/1.jpg", "cat/1~2.jpg", "dog/far/2.jpg", "dog/dog"}
    after = {p for p in tmp_path.rglob("*") if not p.is_relative_to(tmp_path / "u")}
    assert sorted(after) == before


def test_samples_of_tar_shards_come_back_by_class(tmp_path: Path) -> None:
    pictures = list(mixed().items())[:4]
    with tarfile.open(tmp_path / "s.tar", "w") as tar:
        for name, data in pictures:
            info = tarfile.TarInfo(f"deep/er/{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    scan(tmp_path / "s.tar", tmp_path / "s.idx")
    pack(DatasetIndex(tmp_path / "s.idx"), tmp_path / "p")
    unpack(tmp_path / "p", tmp_path / "u")
    assert sorted(contents(tmp_path / "u" / "deep" / "er")) == sorted(name for name, _ in pictures)
