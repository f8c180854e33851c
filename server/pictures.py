"""Pictures of samples, made in short-lived child processes: a decoder's crash harms nobody."""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np

from ddlp.core.dataset import DatasetIndex
from ddlp.core.errors import BadSample, InvalidInput, NotFound, Unavailable
from ddlp.core.image import Kind
from ddlp.core.messages import PreviewSample
from ddlp.core.preview import EXPLAINED, PreviewRequest
from ddlp.server.models import Dataset

_AT_ONCE = threading.BoundedSemaphore(2)
_THUMBNAIL_S = 10.0
_PREVIEW_S = 60.0


def thumbnail(row: Dataset, sample: int) -> bytes:
    """A small JPEG of one sample."""
    if not 0 <= sample < row.samples:
        raise NotFound(f"dataset {row.name} has no sample {sample}; it has {row.samples}")
    index = DatasetIndex(Path(row.index_path))
    try:
        data = _encoded(index, sample)
        return _child("ddlp.core.image.thumbnail", data, _THUMBNAIL_S)
    except (OSError, ValueError, BadSample, InvalidInput, Unavailable) as error:
        raise NotFound(f"no picture can be made of {index.name(sample)}: {error}") from error


def explain(request: PreviewRequest) -> list[PreviewSample]:
    """What a pipeline draws for samples."""
    raw = _child("ddlp.core.preview", request.model_dump_json().encode(), _PREVIEW_S)
    return EXPLAINED.validate_json(raw)


def sheet(request: PreviewRequest) -> bytes:
    """What a pipeline makes of samples, as PNG."""
    asked = request.model_copy(update={"draw": True})
    return _child("ddlp.core.preview", asked.model_dump_json().encode(), _PREVIEW_S)


def _encoded(index: DatasetIndex, sample: int) -> bytes:
    """A sample's bytes as an image file; raw pixels get the head of one."""
    data = index.read(sample)
    heads = index.heads(np.asarray([sample], dtype=np.int64))
    if heads.kind[0] != Kind.PIXELS:
        return data
    return b"P6 %d %d 255\n" % (heads.width[0], heads.height[0]) + data


def _child(module: str, data: bytes, timeout_s: float) -> bytes:
    command = [sys.executable, "-m", module]
    with _AT_ONCE:
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
