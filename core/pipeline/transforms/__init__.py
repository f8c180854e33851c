"""The registry of transforms: one file each, found by the name that stands in a pipeline's JSON."""

from ddlp.core.pipeline.transforms.base import Geometric, Transform
from ddlp.core.pipeline.transforms.centre_crop import CentreCrop
from ddlp.core.pipeline.transforms.flip import Flip
from ddlp.core.pipeline.transforms.normalize import Normalize
from ddlp.core.pipeline.transforms.random_resized_crop import RandomResizedCrop
from ddlp.core.pipeline.transforms.resize import Resize

TRANSFORMS: dict[str, type[Transform]] = {
    kind.name: kind for kind in (CentreCrop, Flip, Normalize, RandomResizedCrop, Resize)
}

__all__ = ["TRANSFORMS", "Geometric", "Normalize", "Transform"]
