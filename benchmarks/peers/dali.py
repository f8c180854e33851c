"""NVIDIA DALI on the CPU; variant `antialias`, or `plain` which reads two pixels a side only."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import nvidia.dali
from nvidia.dali import fn, pipeline_def, types

from benchmarks.task import CIFAR_TRAIN, IMAGENET_TRAIN, Loader, Task

_AHEAD = 2
_PADDING = 4


def prepare(task: Task) -> Loader:
    """As many threads as cores; what is made ahead while it waits is drained before a round."""
    graph = {CIFAR_TRAIN: _pictures, IMAGENET_TRAIN: _train}.get(task.job, _val)
    pipeline = pipeline_def(
        batch_size=task.batch,
        num_threads=len(task.cores),
        device_id=None,
        seed=1,
        prefetch_queue_depth=_AHEAD,
    )(graph)(task)
    pipeline.build()

    def batches() -> Iterator[Any]:
        for _ in range(task.batches):
            (images,) = pipeline.run()
            yield np.asarray(images.as_tensor())

    def drain() -> None:
        for _ in range(_AHEAD + 1):
            pipeline.run()

    note = ", pictures padded beforehand" if task.job == CIFAR_TRAIN else ""
    return Loader(f"DALI {nvidia.dali.__version__}{note}", batches, drain)


def _train(task: Task) -> Any:
    files, _ = fn.readers.file(file_root=task.data, random_shuffle=True)
    images = fn.decoders.image_random_crop(
        files,
        output_type=types.RGB,
        random_area=[0.08, 1.0],
        random_aspect_ratio=[3 / 4, 4 / 3],
        num_attempts=10,
    )
    images = fn.resize(images, size=[224, 224], **_filter(task))
    return _finish(task, images, mirror=fn.random.coin_flip())


def _val(task: Task) -> Any:
    files, _ = fn.readers.file(file_root=task.data)
    images = fn.decoders.image(files, output_type=types.RGB)
    images = fn.resize(images, resize_shorter=256, **_filter(task))
    return _finish(task, images, crop=[224, 224])


def _pictures(task: Task) -> Any:
    images = fn.external_source(source=_Padded(task), batch=True, layout="HWC", no_copy=True)
    return _finish(
        task,
        images,
        mirror=fn.random.coin_flip(),
        crop=[32, 32],
        crop_pos_x=fn.random.uniform(range=[0.0, 1.0]),
        crop_pos_y=fn.random.uniform(range=[0.0, 1.0]),
    )


class _Padded:
    """Batches of padded pictures by chance; padding them beforehand is what suits DALI best."""

    def __init__(self, task: Task) -> None:
        sides = (_PADDING, _PADDING)
        with np.load(task.data) as arrays:
            self._pixels = np.pad(arrays["x"], ((0, 0), sides, sides, (0, 0)))
        self._batch = task.batch
        self._chance = np.random.default_rng(1)
        self._left: list[Any] = []

    def __call__(self) -> Any:
        if not self._left:
            order = self._chance.permutation(len(self._pixels))
            self._left = list(order.reshape(-1, self._batch))
        return self._pixels[self._left.pop()]


def _filter(task: Task) -> dict[str, Any]:
    return {"interp_type": types.INTERP_LINEAR, "antialias": task.variant == "antialias"}


def _finish(task: Task, images: Any, **how: Any) -> Any:
    mean, std = task.levels
    return fn.crop_mirror_normalize(
        images, dtype=types.FLOAT, output_layout="HWC", mean=mean, std=std, **how
    )
