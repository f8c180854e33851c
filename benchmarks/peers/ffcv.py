"""FFCV on files of its own: photographs as JPEGs that it encodes anew, small pictures raw.

The quality of its JPEGs is the one at which they are, together, as large as the originals: smaller
ones would be decoded faster and hold less.
"""

import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cv2
import ffcv
import numpy as np
import torch
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.rgb_image import (
    CenterCropRGBImageDecoder,
    RandomResizedCropRGBImageDecoder,
    SimpleRGBImageDecoder,
    encode_jpeg,
)
from ffcv.loader import OrderOption
from ffcv.transforms import (
    NormalizeImage,
    RandomHorizontalFlip,
    RandomTranslate,
    ToTensor,
    ToTorchImage,
)
from ffcv.writer import DatasetWriter
from PIL import Image

from benchmarks.task import CIFAR_TRAIN, IMAGENET_TRAIN, Loader, Task


def prepare(task: Task) -> Loader:
    """As many threads as cores."""
    torch.set_num_threads(len(task.cores))
    cv2.setNumThreads(1)
    small = task.job == CIFAR_TRAIN
    path, note = _small_pictures(task) if small else _photos(task)
    loader = ffcv.Loader(
        str(path),
        batch_size=task.batch,
        num_workers=len(task.cores),
        order=OrderOption.SEQUENTIAL if task.job == "imagenet-val" else OrderOption.RANDOM,
        os_cache=True,
        indices=np.arange(task.images) % (task.images if small else task.different),
        pipelines={"image": _operations(task), "label": None},
    )

    def batches() -> Iterator[Any]:
        for (images,) in loader:
            yield images

    return Loader(f"FFCV {version('ffcv')}, {note}", batches)


def _operations(task: Task) -> list[Any]:
    mean, std = (np.asarray(values) for values in task.levels)
    last = [NormalizeImage(mean, std, np.float32), ToTensor(), ToTorchImage(channels_last=True)]
    if task.job == CIFAR_TRAIN:
        decoder, flip = SimpleRGBImageDecoder(), RandomHorizontalFlip()
        return [decoder, flip, RandomTranslate(padding=4), *last]
    if task.job == IMAGENET_TRAIN:
        return [RandomResizedCropRGBImageDecoder((224, 224)), RandomHorizontalFlip(), *last]
    return [CenterCropRGBImageDecoder((224, 224), ratio=224 / 256), *last]


def _small_pictures(task: Task) -> tuple[Path, str]:
    path = Path(task.scratch) / "small-pictures.beton"
    if not path.exists():
        with np.load(task.data) as arrays:
            _write(path, list(arrays["x"]), RGBImageField(write_mode="raw"))
    return path, "raw pixels"


def _photos(task: Task) -> tuple[Path, str]:
    """The file of all different photographs; made once for all jobs."""
    path, beside = (Path(task.scratch) / f"photos.{end}" for end in ("beton", "json"))
    if not beside.exists():
        files = sorted(Path(task.data).glob("*/*.jpg"), key=lambda file: file.name)
        files = files[: task.different]
        images = [np.array(Image.open(file).convert("RGB")) for file in files]
        quality, share = _quality(images, sum(file.stat().st_size for file in files))
        _write(path, images, RGBImageField(write_mode="jpg", jpeg_quality=quality))
        beside.write_text(json.dumps([quality, share]))
    quality, share = json.loads(beside.read_text())
    return path, f"encoded anew at quality {quality}, 4:2:0: {share:.0%} of the originals' bytes"


def _quality(images: list[Any], wanted_bytes: int) -> tuple[int, float]:
    """The quality that gives the total nearest to the one wanted, and their ratio."""
    low, high = 1, 100
    totals: dict[int, int] = {}

    def total(quality: int) -> int:
        if quality not in totals:
            totals[quality] = sum(encode_jpeg(image, quality).nbytes for image in images)
        return totals[quality]

    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if total(middle) <= wanted_bytes else (low, middle)
    best = min((low, high), key=lambda quality: abs(total(quality) - wanted_bytes))
    return best, total(best) / wanted_bytes


def _write(path: Path, images: list[Any], field: Any) -> None:
    writer = DatasetWriter(str(path), {"image": field, "label": IntField()}, num_workers=1)
    writer.from_indexed_dataset([(image, 0) for image in images])
