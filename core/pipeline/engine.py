"""The engine: encoded samples in, pixels of a batch out, straight into the batch's memory."""

import errno
import hashlib
import io
import os

import numpy as np
import numpy.typing as npt
import PIL
from PIL import Image, UnidentifiedImageError, features

from ddlp.core.dataset import DatasetIndex
from ddlp.core.errors import BadSample, DdlpError
from ddlp.core.pipeline.spec import Pipeline
from ddlp.core.pipeline.view import View
from ddlp.core.randomness import stream_key, uniforms

_REVISION = 1
_VERSIONS = f"{_REVISION} {PIL.__version__} {features.version('libjpeg_turbo')}"
ENGINE = f"pillow-{hashlib.sha256(_VERSIONS.encode()).hexdigest()[:8]}"
"""Names the bytes this engine makes: another decoder may round pixels otherwise."""
MAX_PIXELS = 178_956_970

Pixels = npt.NDArray[np.uint8]


class Engine:
    """Runs one pipeline over one dataset for one seed."""

    def __init__(self, index: DatasetIndex, pipeline: Pipeline, seed: int) -> None:
        self._index = index
        self._pipeline = pipeline
        self._keys = [
            stream_key(seed, f"{place}:{step.name}") for place, step in enumerate(pipeline.steps)
        ]

    def fill(self, epoch: int, samples: npt.NDArray[np.int64], out: Pixels) -> None:
        """Preprocess samples into `out`, an array of (samples, height, width, 3)."""
        drawn = [
            uniforms(key, epoch, samples, step.draws) if step.draws else None
            for key, step in zip(self._keys, self._pipeline.steps, strict=True)
        ]
        for place, sample in enumerate(samples):
            rows = [numbers[place].tolist() if numbers is not None else [] for numbers in drawn]
            out[place] = self._one(int(sample), rows)

    def _one(self, sample: int, drawn: list[list[float]]) -> Pixels:
        path = self._index.path(sample)
        try:
            image = decode(self._index.read(sample))
        except Exception as error:  # the border to the decoder, which raises whatever it likes
            if isinstance(error, OSError) and error.errno not in (None, errno.ENOENT):
                raise DdlpError(f"{path} cannot be read: {_reason(error)}") from error
            raise BadSample(f"{path} cannot be decoded: {_reason(error)}") from error
        view = View.whole(*image.size)
        for step, numbers in zip(self._pipeline.steps, drawn, strict=True):
            view = step.apply(view, numbers)
        return render(image, view)

    def labels(self, samples: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The labels of samples."""
        return np.asarray([self._index.label(int(sample)) for sample in samples], dtype=np.int64)


def decode(data: bytes) -> Image.Image:
    """The RGB image in encoded bytes."""
    image: Image.Image = Image.open(io.BytesIO(data))
    if image.width * image.height > MAX_PIXELS:
        raise ValueError(f"{image.width} × {image.height} pixels are more than {MAX_PIXELS}")
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
    if image.mode in ("I", "F"):
        raise ValueError(f"pixels of mode {image.mode} are not taken; convert it to 8 or 16 bits")
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")


def render(image: Image.Image, view: View) -> Pixels:
    """What a view of an image shows: one antialiased resize, then the mirror."""
    box = (view.left, view.top, view.left + view.box_width, view.top + view.box_height)
    box = (max(0.0, box[0]), max(0.0, box[1]), min(box[2], image.width), min(box[3], image.height))
    shown = image.resize((view.width, view.height), Image.Resampling.BILINEAR, box=box)
    pixels: Pixels = np.asarray(shown)
    return pixels[:, ::-1] if view.mirrored else pixels


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "it is not an image of a known format"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
