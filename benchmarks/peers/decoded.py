"""Pictures stored as their pixels, as they are or compressed: variants `raw`, `lz4` and `zstd`.

Each different picture is stored once, whole; what a view shows is resampled by DDLP's kernel.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lz4.block
import numpy as np
import pyarrow
from PIL import Image

from benchmarks.task import IMAGENET_TRAIN, Loader, Task
from ddlp.core.image import backend
from ddlp.core.pipeline.pictures import show_pixels
from ddlp.core.pipeline.placing import rows
from ddlp.core.pipeline.transforms import TRANSFORMS, Geometric
from ddlp.core.pipeline.views import Views

_KEY = (1, 2)
_ZSTD = pyarrow.Codec("zstd", compression_level=1)


def _zstd(data: Any, size: int) -> Any:
    return _ZSTD.decompress(pyarrow.py_buffer(data), decompressed_size=size)


_PACK: dict[str, Callable[[bytes], bytes]] = {
    "raw": bytes,
    "lz4": lambda data: lz4.block.compress(data, store_size=False),
    "zstd": lambda data: _ZSTD.compress(data, asbytes=True),
}
_UNPACK: dict[str, Callable[[Any, int], Any]] = {
    "raw": lambda data, _: data,
    "lz4": lambda data, size: lz4.block.decompress(data, uncompressed_size=size),
    "zstd": _zstd,
}


def stored(task: Task) -> Path:
    """The file of all pictures in a form, made where it is not there."""
    path = Path(task.scratch) / f"decoded.{task.variant}"
    if not path.exists():
        places, at = [], 0
        files = sorted(Path(task.data).glob("*/*.jpg"), key=lambda file: file.name)
        with path.open("wb") as out:
            for file in files[: task.different]:
                pixels = np.asarray(Image.open(file).convert("RGB"))
                data = _PACK[task.variant](pixels.tobytes())
                out.write(data)
                places.append([at, len(data), *pixels.shape[:2]])
                at += len(data)
        path.with_suffix(f".{task.variant}.json").write_text(json.dumps(places))
    return path


def prepare(task: Task) -> Loader:
    """The job of training on ImageNet, as uint8."""
    if task.job != IMAGENET_TRAIN:
        raise ValueError(f"it does not do {task.job}")
    path = stored(task)
    mapped = np.memmap(path, np.uint8, mode="r")
    places = json.loads(path.with_suffix(f".{task.variant}.json").read_text())
    steps = [TRANSFORMS["random-resized-crop"].model_validate({"size": task.side})]
    steps.append(TRANSFORMS["flip"].model_validate({}))
    out = np.empty((task.batch, task.side, task.side, 3), np.uint8)
    order = np.random.default_rng(1).permutation(task.images)
    epoch = 0

    def fill(samples: Any) -> None:
        taken = [places[sample % len(places)] for sample in samples.tolist()]
        views = Views.whole(np.array([t[3] for t in taken]), np.array([t[2] for t in taken]))
        for step in steps:
            assert isinstance(step, Geometric)
            views = step.apply(views, backend().uniforms(_KEY, epoch, samples, step.draws))
        for slot, (at, size, height, width), placed in zip(out, taken, rows(views), strict=True):
            data = _UNPACK[task.variant](mapped[at : at + size], height * width * 3)
            pixels = np.frombuffer(data, np.uint8).reshape(height, width, 3)
            show_pixels(pixels, placed, slot, None)

    def batches() -> Iterator[Any]:
        nonlocal epoch
        for start in range(0, task.images, task.batch):
            fill(order[start : start + task.batch])
            yield out
        epoch += 1

    return Loader(f"pixels, {task.variant}", batches)
