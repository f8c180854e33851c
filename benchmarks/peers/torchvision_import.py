"""Imports torchvision beside a PyTorch without CUDA, which its compiled operators want."""

import importlib
import warnings
from typing import Any

_KEPT: list[Any] = []
"""Libraries of operators, which vanish with the object that defined them."""


def torchvision_module(name: str) -> Any:
    """A module of torchvision."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            importlib.import_module("torchvision")
        except RuntimeError:
            _declare_operators()
        return importlib.import_module(name)


def _declare_operators() -> None:
    """Declare what torchvision describes when it is imported; nobody here calls it."""
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _KEPT.append(library)
