"""The real torchvision, for comparisons; builds for CUDA are made to import without one."""

import importlib
import warnings
from typing import Any

import pytest

_KEPT: list[Any] = []
"""Libraries of operators, which vanish with the object that defined them."""


def torchvision_module(name: str = "torchvision") -> Any:
    """A module of torchvision; the test or test module is skipped where there is none."""
    try:
        return load_torchvision(name)
    except ModuleNotFoundError as error:
        pytest.skip(f"torchvision is not installed: {error}", allow_module_level=True)


def load_torchvision(name: str = "torchvision") -> Any:
    """A module of torchvision, or ModuleNotFoundError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            importlib.import_module("torchvision")
        except RuntimeError:  # its compiled operators cannot be loaded beside this PyTorch
            _define_operators()
        return importlib.import_module(name)


def _define_operators() -> None:
    """Declare the operators that torchvision describes when imported; nobody here calls them."""
    library: Any = importlib.import_module("torch").library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _KEPT.append(library)
