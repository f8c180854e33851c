"""The registry of transforms: one file each, found by the name that stands in a pipeline's JSON."""

from ddlp.core.pipeline.transforms.base import (
    Extra,
    Geometric,
    LabelTransform,
    PixelTransform,
    Seen,
    Transform,
)
from ddlp.core.pipeline.transforms.centre_crop import CentreCrop
from ddlp.core.pipeline.transforms.colour_jitter import ColourJitter
from ddlp.core.pipeline.transforms.decode import Decode
from ddlp.core.pipeline.transforms.flip import Flip
from ddlp.core.pipeline.transforms.grayscale import Grayscale
from ddlp.core.pipeline.transforms.label_map import LabelMap
from ddlp.core.pipeline.transforms.normalize import Normalize
from ddlp.core.pipeline.transforms.pad_crop import PadCrop
from ddlp.core.pipeline.transforms.random_resized_crop import RandomResizedCrop
from ddlp.core.pipeline.transforms.resize import Resize
from ddlp.core.pipeline.transforms.view import View

TRANSFORMS: dict[str, type[Transform]] = {
    kind.name: kind
    for kind in (
        CentreCrop,
        ColourJitter,
        Decode,
        Flip,
        Grayscale,
        LabelMap,
        Normalize,
        PadCrop,
        RandomResizedCrop,
        Resize,
        View,
    )
}

__all__ = [
    "TRANSFORMS",
    "Decode",
    "Extra",
    "Geometric",
    "LabelMap",
    "LabelTransform",
    "Normalize",
    "PixelTransform",
    "Seen",
    "Transform",
]
