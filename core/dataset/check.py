"""Decides whether an encoded sample can be used, from as few of its bytes as that takes."""

import os
from typing import BinaryIO, Literal

from ddlp.core.dataset.files import read_at
from ddlp.core.errors import BadSample
from ddlp.core.image import ImageHead, check, probe, probe_head
from ddlp.core.image.pillow import MAX_PIXELS

MAX_BYTES = 256 << 20
_HEAD_BYTES = 64 << 10
_START_OF_IMAGE, _END_OF_IMAGE = b"\xff\xd8", b"\xff\xd9"


def inspect(file: BinaryIO, start: int, size: int, how: Literal["quick", "full"]) -> ImageHead:
    """The head of the sample in `size` bytes of a file; a BadSample says why it cannot be used."""
    if size == 0:
        raise BadSample("it is empty")
    if size > MAX_BYTES:
        raise BadSample(f"it is too large: {size} bytes are more than {MAX_BYTES}")
    head = check(read_at(file, start, size)) if how == "full" else _glance(file, start, size)
    if head.width * head.height > MAX_PIXELS:
        raise BadSample(f"{head.width} × {head.height} pixels are more than {MAX_PIXELS}")
    return head


def _glance(file: BinaryIO, start: int, size: int) -> ImageHead:
    """Head and tail; all of it only if those leave a doubt."""
    first = read_at(file, start, min(size, _HEAD_BYTES))
    head = probe_head(first)
    ends = not first.startswith(_START_OF_IMAGE) or (
        read_at(file, start + size - 2, 2) == _END_OF_IMAGE if size > 1 else False
    )
    if head is not None and ends:
        return head
    return probe(first if size == len(first) else read_at(file, start, size))


def reason_of(error: Exception) -> str:
    """Why a sample cannot be used, in a sentence."""
    if isinstance(error, OSError) and error.errno:
        return f"it cannot be read ({os.strerror(error.errno)})"
    return str(error) or type(error).__name__
