"""Makes small datasets and runs the engine over them."""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from ddlp.core.dataset import DatasetIndex, scan
from ddlp.core.pipeline import Engine, Pipeline, PipelineSpec
from ddlp.core.types import BadPolicy

Pixels = npt.NDArray[np.uint8]
CROP = {"name": "random-resized-crop", "size": 16}
MIDDLE = {"name": "centre-crop", "size": 16}


def smooth(width: int, height: int) -> Image.Image:
    """Red grows to the right, green downwards, blue in waves: every place has its own colour."""
    x, y = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    blue = 127 + 127 * np.sin(x / 20 + y / 30)
    return Image.fromarray(np.stack([x, y, blue], axis=-1).astype(np.uint8))


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def dataset(root: Path, *samples: bytes, ending: str = "png") -> DatasetIndex:
    for number, data in enumerate(samples):
        path = root / "images" / f"class{number % 2}" / f"{number:03d}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    scan(root / "images", root / "images.idx")
    return DatasetIndex(root / "images.idx")


def engine(
    index: DatasetIndex,
    *transforms: dict[str, Any],
    seed: int = 0,
    on_bad: BadPolicy = BadPolicy.FAIL,
) -> Engine:
    return Engine(index, Pipeline.parse(PipelineSpec(transforms=list(transforms))), seed, on_bad)


def fill(engine: Engine, *samples: int, epoch: int = 0, size: int = 16) -> Pixels:
    out = np.zeros((len(samples), size, size, 3), dtype=np.uint8)
    engine.fill(epoch, np.asarray(samples, dtype=np.int64), out)
    return out


def replace_unseen(path: Path, data: bytes) -> None:
    """Other bytes in a file of the same size and time: damage that only decoding finds."""
    status = path.stat()
    path.write_bytes(data.ljust(status.st_size, b"\0")[: status.st_size])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
