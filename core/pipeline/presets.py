"""Pipelines that can be named: the usual recipes."""

from typing import Any

_CIFAR = {
    "name": "normalize",
    "mean": (0.4914, 0.4822, 0.4465),
    "std": (0.2470, 0.2435, 0.2616),
}

PRESETS: dict[str, list[dict[str, Any]]] = {
    "imagenet-train": [
        {"name": "random-resized-crop", "size": 224},
        {"name": "flip"},
        {"name": "normalize"},
    ],
    "imagenet-val": [
        {"name": "resize", "size": 256},
        {"name": "centre-crop", "size": 224},
        {"name": "normalize"},
    ],
    "cifar-train": [{"name": "pad-crop", "size": 32, "padding": 4}, {"name": "flip"}, _CIFAR],
    "cifar-val": [{"name": "centre-crop", "size": 32}, _CIFAR],
}
