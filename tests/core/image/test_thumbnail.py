"""Thumbnails: small, of whatever can be read, in a process of their own."""

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ddlp.core.dataset import scan
from ddlp.core.image.thumbnail import SIDE, thumbnail
from tests.core.records.making import NEEDS_KERNEL, dataset, packed, turned
from tests.core.records.making import encoded as record_source


def encoded(size: tuple[int, int], kind: str = "JPEG", mode: str = "RGB") -> bytes:
    made = io.BytesIO()
    Image.linear_gradient("L").resize(size).convert(mode).save(made, kind)
    return made.getvalue()


@pytest.mark.parametrize(
    ("size", "kind", "mode"),
    [
        ((640, 480), "JPEG", "RGB"),
        ((20, 700), "JPEG", "L"),
        ((300, 300), "JPEG", "CMYK"),
        ((300, 200), "PNG", "RGBA"),
        ((5, 4), "PNG", "P"),
        ((40, 30), "PPM", "RGB"),
    ],
)
def test_a_picture_is_small_and_keeps_its_shape(
    size: tuple[int, int], kind: str, mode: str
) -> None:
    with Image.open(io.BytesIO(thumbnail(encoded(size, kind, mode)))) as small:
        assert small.format == "JPEG"
        assert max(small.size) <= SIDE
        assert (small.width > small.height) == (size[0] > size[1])


def child(index: Path, parent: int | None = None) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "ddlp.core.image.thumbnail"]
    return subprocess.run(
        [*command, str(parent or os.getpid()), str(index), "0"], capture_output=True, check=False
    )


def spoilt(folder: Path, data: bytes) -> Path:
    """The index of an image whose bytes became others, which only decoding tells."""
    path = folder / "data" / "a" / "0.jpg"
    path.parent.mkdir(parents=True)
    path.write_bytes(encoded((400, 400)))
    scan(folder / "data", folder / "index")
    was = path.stat()
    path.write_bytes(data.ljust(was.st_size, b"\0"))
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    return folder / "index"


def test_what_is_there_of_a_damaged_file_is_shown(tmp_path: Path) -> None:
    whole = encoded((400, 400))
    done = child(spoilt(tmp_path, whole[: len(whole) // 2]))
    assert done.returncode == 0
    assert done.stdout[:2] == b"\xff\xd8"


def test_raw_pixels_are_shown(tmp_path: Path) -> None:
    pixels = np.full((2, 30, 40, 3), 200, np.uint8)
    np.savez(tmp_path / "data.npz", images=pixels, labels=np.zeros(2, np.int64))
    scan(tmp_path / "data.npz", tmp_path / "index")
    with Image.open(io.BytesIO(child(tmp_path / "index").stdout)) as small:
        assert small.size == (40, 30)
        assert abs(np.asarray(small).astype(int) - 200).max() <= 2


@NEEDS_KERNEL
@pytest.mark.parametrize("keep_heads", [False, True])
def test_records_are_shown_upright(tmp_path: Path, keep_heads: bool) -> None:
    index = dataset(tmp_path, {"a.jpg": record_source(side=200, exif=turned(6))})
    packed(index, tmp_path / "p", keep_heads=keep_heads)
    shown = [child(path).stdout for path in (tmp_path / "data.idx", tmp_path / "p.idx")]
    with Image.open(io.BytesIO(shown[1])) as small:
        assert small.width < small.height
    assert shown[0] == shown[1]


@pytest.mark.parametrize("data", [b"", b"nothing", b"\xff\xd8" + b"\0" * 500 + b"\xff\xd9"])
def test_what_is_no_picture_ends_with_one_line_and_nothing(tmp_path: Path, data: bytes) -> None:
    done = child(spoilt(tmp_path, data))
    assert done.returncode == 1
    assert done.stdout == b""
    assert done.stderr.count(b"\n") == 1


def test_a_file_that_changed_is_not_shown(tmp_path: Path) -> None:
    index = spoilt(tmp_path, b"")
    (tmp_path / "data" / "a" / "0.jpg").write_bytes(b"longer or shorter")
    assert b"changed after it was indexed" in child(index).stderr


SMALL = "from ddlp.core.image import thumbnail as t; t.MEMORY_BYTES = 160 << 20; t.main()"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds a process so")
def test_a_sample_that_takes_too_much_memory_is_not_shown(tmp_path: Path) -> None:
    shape = (1, 8000, 8000, 3)
    np.lib.format.open_memmap(tmp_path / "images.npy", "w+", np.uint8, shape)  # a sparse file
    np.save(tmp_path / "images-labels.npy", np.zeros(1, np.int64))
    scan(tmp_path / "images.npy", tmp_path / "index")
    command = [sys.executable, "-c", SMALL, str(os.getpid()), str(tmp_path / "index"), "0"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"MemoryError")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can tie two processes")
def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    somebody_else = 1 if os.getpid() != 1 else 2
    assert child(tmp_path / "index", somebody_else).returncode == -9
