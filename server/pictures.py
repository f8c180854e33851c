"""Pictures of samples, made in short-lived child processes: a decoder's crash harms nobody.

The children also read the samples, so that their limits hold for all bytes of others. A few work at
a time and a few requests wait for them; whatever comes beyond that is told to come again. A page
that shows many thumbnails has one child make them all beforehand, and they are kept for a while.
"""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from ddlp.core.dataset import DatasetIndex
from ddlp.core.errors import InvalidInput, NotFound, Unavailable
from ddlp.core.image import thumbnails
from ddlp.core.messages import Message, PreviewSample
from ddlp.core.preview import EXPLAINED, PreviewRequest
from ddlp.server.models import Dataset
from ddlp.server.thumbnail_cache import ThumbnailCache
from ddlp.server.versions import cured

_AT_ONCE = threading.BoundedSemaphore(2)
_ROOM = threading.BoundedSemaphore(12)
"""Requests that are answered or wait: far fewer than the threads that all requests share."""
_WAIT_S = 10.0
_THUMBNAIL_S = 10.0
_SHEET_S = 20.0
_PREVIEW_S = 60.0
_CRASHES = 3
"""Samples of a page that may end a child before the rest is left for later."""
_TOO_LONG = "it took longer than is waited for; try again later"

PLACEHOLDER = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64" fill="none" stroke="#7d8794">
<rect x="2" y="2" width="60" height="60" rx="6" stroke-dasharray="4 3"/>
<path d="M18 40V20h28v20zM18 37l9-9 7 7 5-4 7 6M14 44l36-28" stroke-width="1.5"/>
<text x="32" y="55" font-family="sans-serif" font-size="9" text-anchor="middle" fill="#7d8794"
 stroke="none">No preview</text>
</svg>
"""
"""What pages show in the place of a picture that cannot be made."""
_cache = ThumbnailCache()


def thumbnail(row: Dataset, sample: int) -> bytes:
    """A small JPEG of one sample."""
    if not 0 <= sample < row.samples:
        raise NotFound(f"dataset {row.name} has no sample {sample}; it has {row.samples}")
    key = (row.index_path, row.version, sample)
    known = _cache.get(key)
    if known is None:
        known = _one(row, sample)
        if known is not _TOO_LONG:  # which may be due to what else the machine does
            _cache.put(key, known)
    if isinstance(known, str):
        name = DatasetIndex(Path(row.index_path)).name(sample)
        raise NotFound(f"no picture can be made of {name}: {cured(known, row.name)}")
    return known


def _one(row: Dataset, sample: int) -> bytes | str:
    with _turn():
        try:
            return _child("ddlp.core.image.thumbnail", [row.index_path, str(sample)], _THUMBNAIL_S)
        except InvalidInput as error:
            return str(error)
        except Unavailable:
            return _TOO_LONG


def prepare(row: Dataset, samples: Sequence[int]) -> None:
    """Have one child make the thumbnails that a page will ask for.

    One that ends the child is noted as such, and the next child goes on after it. Where there is
    no turn to be had, nothing is lost: what is asked for later is made one by one.
    """
    missing = [s for s in samples if _cache.get((row.index_path, row.version, s)) is None]
    with contextlib.suppress(Unavailable):
        for _ in range(1 + _CRASHES):
            if not missing:
                return
            with _turn():
                made, ended = _many(row, missing)
            missing = [sample for sample in missing if sample not in made]
            if ended is not None and ended is not _TOO_LONG and missing:
                made[missing.pop(0)] = ended
            for sample, picture in made.items():
                _cache.put((row.index_path, row.version, sample), picture)
            if ended is _TOO_LONG:
                return


def _many(row: Dataset, samples: Sequence[int]) -> tuple[dict[int, bytes | str], str | None]:
    """What a child made of samples; and what ended it before it was done, if anything did."""
    arguments = [row.index_path, *map(str, samples)]
    try:
        done = subprocess.run(
            _command("ddlp.core.image.thumbnails", arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SHEET_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return thumbnails.parse(error.output or b""), _TOO_LONG
    return thumbnails.parse(done.stdout), _problem(done)


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
    try:
        done = subprocess.run(
            _command(module, arguments),
            input=data,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"it took longer than {timeout_s:.0f} s") from error
    problem = _problem(done)
    if problem is not None:
        raise InvalidInput(problem)
    return done.stdout


def _command(module: str, arguments: list[str]) -> list[str]:
    return [sys.executable, "-P", "-m", module, str(os.getpid()), *arguments]


def _problem(done: "subprocess.CompletedProcess[bytes]") -> str | None:
    """Why a child has no answer, or not all of it."""
    if done.returncode < 0:
        return f"the decoder was ended by signal {-done.returncode}"
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return said[-1] if said else "it cannot be decoded"
    return None
