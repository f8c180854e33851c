"""What most people use: PyTorch's DataLoader, torchvision's transforms, Pillow's decoder.

Variant `pil` transforms Pillow's images, `tensors` makes a tensor first and uses transforms.v2.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import PIL
import torch
from PIL import Image

from benchmarks.peers.torchvision_import import torchvision_module
from benchmarks.task import CIFAR_TRAIN, IMAGENET_TRAIN, Loader, Task

Transform = Callable[[Any], Any]


def prepare(task: Task) -> Loader:
    """One core: in the process itself; several: as many worker processes."""
    torch.set_num_threads(1)
    workers = len(task.cores) if len(task.cores) > 1 else 0
    transform = {"pil": _on_pil, "tensors": _on_tensors}[task.variant](task)
    loader = torch.utils.data.DataLoader(
        _dataset(task, transform),
        batch_size=task.batch,
        shuffle=task.job != "imagenet-val",
        num_workers=workers,
        persistent_workers=workers > 0,
    )

    def batches() -> Iterator[Any]:
        for images, _ in loader:
            yield images

    torchvision = torchvision_module("torchvision")
    about = f"torch {torch.__version__}, torchvision {torchvision.__version__}"
    return Loader(f"{about}, Pillow {PIL.__version__}; a worker process a core on several", batches)


def _dataset(task: Task, transform: Transform) -> Any:
    if task.job == CIFAR_TRAIN:
        return _Pictures(task.data, transform)
    return torchvision_module("torchvision.datasets").ImageFolder(task.data, transform)


class _Pictures(torch.utils.data.Dataset[Any]):
    """CIFAR-10 in memory, as torchvision's own class gives it out."""

    def __init__(self, path: str, transform: Transform) -> None:
        with np.load(path) as arrays:
            self._pixels, self._labels = arrays["x"], arrays["y"].tolist()
        self._transform = transform

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, place: int) -> tuple[Any, int]:
        return self._transform(Image.fromarray(self._pixels[place])), self._labels[place]


def _on_pil(task: Task) -> Transform:
    t = torchvision_module("torchvision.transforms")
    steps = [*_geometry(task, t), t.ToTensor(), t.Normalize(*task.normalize)]
    transform: Transform = t.Compose(steps)
    return transform


def _on_tensors(task: Task) -> Transform:
    t = torchvision_module("torchvision.transforms.v2")
    to_float = t.ToDtype(torch.float32, scale=True)
    steps = [t.PILToTensor(), *_geometry(task, t), to_float, t.Normalize(*task.normalize)]
    transform: Transform = t.Compose(steps)
    return transform


def _geometry(task: Task, t: Any) -> list[Any]:
    if task.job == CIFAR_TRAIN:
        return [t.RandomCrop(32, padding=4), t.RandomHorizontalFlip()]
    if task.job == IMAGENET_TRAIN:
        return [t.RandomResizedCrop(224), t.RandomHorizontalFlip()]
    return [t.Resize(256), t.CenterCrop(224)]
