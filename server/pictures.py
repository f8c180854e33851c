"""Pictures of samples, made in short-lived child processes: a decoder's crash harms nobody.

The children also read the samples, so that their limits hold for all bytes of others. A few work at
a time and a few requests wait for them; whatever comes beyond that is told to come again.
"""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from ddlp.core.dataset import DatasetIndex
from ddlp.core.errors import InvalidInput, NotFound, Unavailable
from ddlp.core.messages import Message, PreviewSample
from ddlp.core.preview import EXPLAINED, PreviewRequest
from ddlp.server.models import Dataset

_AT_ONCE = threading.BoundedSemaphore(2)
_ROOM = threading.BoundedSemaphore(12)
"""Requests that are answered or wait: far fewer than the threads that all requests share."""
_WAIT_S = 10.0
_THUMBNAIL_S = 10.0
_PREVIEW_S = 60.0


def thumbnail(row: Dataset, sample: int) -> bytes:
    """A small JPEG of one sample."""
    if not 0 <= sample < row.samples:
        raise NotFound(f"dataset {row.name} has no sample {sample}; it has {row.samples}")
    with _turn():
        try:
            return _child("ddlp.core.image.thumbnail", [row.index_path, str(sample)], _THUMBNAIL_S)
        except (InvalidInput, Unavailable) as error:
            name = DatasetIndex(Path(row.index_path)).name(sample)
            raise NotFound(f"no picture can be made of {name}: {error}") from error


def explain(request: PreviewRequest) -> list[PreviewSample]:
    """What a pipeline draws for samples."""
    return EXPLAINED.validate_json(_preview(request))


def sheet(request: PreviewRequest) -> bytes:
    """What a pipeline makes of samples, as PNG."""
    return _preview(request.model_copy(update={"draw": True}))


def _preview(request: PreviewRequest) -> bytes:
    return answer("ddlp.core.preview", request, _PREVIEW_S)


def answer(module: str, request: Message, timeout_s: float) -> bytes:
    """What a module says to a request, run as a child of its own when it is its turn."""
    with _turn():
        return _child(module, [], timeout_s, request.model_dump_json().encode())


@contextlib.contextmanager
def _turn() -> Iterator[None]:
    """Wait for one's turn, but neither for long nor with many others."""
    busy = Unavailable("too many pictures are being made; try again in a moment")
    if not _ROOM.acquire(blocking=False):
        raise busy
    try:
        if not _AT_ONCE.acquire(timeout=_WAIT_S):
            raise busy
        try:
            yield
        finally:
            _AT_ONCE.release()
    finally:
        _ROOM.release()


def _child(module: str, arguments: list[str], timeout_s: float, data: bytes = b"") -> bytes:
    command = [sys.executable, "-P", "-m", module, str(os.getpid()), *arguments]
    try:
        done = subprocess.run(
            command, input=data, capture_output=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"it took longer than {timeout_s:.0f} s") from error
    if done.returncode < 0:
        raise InvalidInput(f"the decoder was ended by signal {-done.returncode}")
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise InvalidInput(said[-1] if said else "it cannot be decoded")
    return done.stdout
