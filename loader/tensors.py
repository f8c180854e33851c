"""Turns a batch as it travelled (uint8, channels last in memory) into tensors for training."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from ddlp.core.batchfile import Array
from ddlp.core.pipeline import Pipeline


@dataclass(frozen=True)
class TensorBatch:
    """One batch as training code sees it."""

    index: int
    images: torch.Tensor
    labels: torch.Tensor
    samples: torch.Tensor


class ToTensors:
    """Moves a batch to its device and normalises it there, with the pipeline's values."""

    def __init__(self, pipeline: Pipeline, device: str, normalize: bool) -> None:
        self._device = torch.device(device)
        self._scale: tuple[torch.Tensor, torch.Tensor] | None = None
        scale = pipeline.normalize
        if normalize and scale is not None and not scale.early:
            mean = torch.tensor(scale.mean, device=self._device)
            std = torch.tensor(scale.std, device=self._device)
            # (x / 255 - mean) / std as one multiplication and one addition.
            self._scale = (1 / (255 * std)).view(1, 1, 1, 3), (-mean / std).view(1, 1, 1, 3)

    def __call__(self, index: int, arrays: Mapping[str, Array]) -> TensorBatch:
        """Copies: what is returned does not depend on the batch's file any more."""
        pixels = self._copied(arrays["images"])
        if self._scale is not None:
            multiply, add = self._scale
            pixels = pixels.to(torch.float32).mul_(multiply).add_(add)
        return TensorBatch(
            index=index,
            images=pixels.permute(0, 3, 1, 2),
            labels=self._copied(arrays["labels"]),
            samples=torch.from_numpy(np.array(arrays["samples"])),
        )

    def _copied(self, array: Array) -> torch.Tensor:
        tensor = torch.from_numpy(np.array(array))
        if self._device.type == "cuda":
            tensor = tensor.pin_memory()
        return tensor.to(self._device, non_blocking=True)
