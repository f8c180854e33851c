"""Thumbnails: small, of whatever can be read, in a process of their own."""

import io
import subprocess
import sys

import pytest
from PIL import Image

from ddlp.core.image.thumbnail import SIDE, thumbnail


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


def child(data: bytes) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-m", "ddlp.core.image.thumbnail"],
        input=data,
        capture_output=True,
        check=False,
    )


def test_what_is_there_of_a_truncated_file_is_shown() -> None:
    whole = encoded((400, 400))
    done = child(whole[: len(whole) // 2])
    assert done.returncode == 0
    assert done.stdout[:2] == b"\xff\xd8"


@pytest.mark.parametrize("data", [b"", b"nothing", b"\xff\xd8" + b"\0" * 500 + b"\xff\xd9"])
def test_what_is_no_picture_ends_with_one_line_and_nothing(data: bytes) -> None:
    done = child(data)
    assert done.returncode == 1
    assert done.stdout == b""
    assert done.stderr.count(b"\n") == 1
