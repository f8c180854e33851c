"""Decides which tensors a pipeline may emit beside images and labels, and holds them to it."""

import re
from collections.abc import Sequence

import numpy as np

from ddlp.core.batchfile import DTYPES, MAX_TENSORS, Array, TensorSpec
from ddlp.core.errors import InvalidInput
from ddlp.core.pipeline.stages import Stage
from ddlp.core.pipeline.transforms import Extra, Geometric, Seen, Transform

OWN = ("images", "labels", "samples")
"""The tensors that every batch has."""
_MAX_SIDES = 5
_NAME = re.compile(r"[A-Za-z0-9_-]{1,16}")


def checked(transforms: Sequence[Transform], stages: Sequence[Stage]) -> tuple[Extra, ...]:
    """The extras among the steps of a pipeline, in their order; a mistake is refused."""
    extras: dict[str, Extra] = {}
    for step in transforms:
        if isinstance(step, Geometric) and extras:
            early = next(iter(extras.values()))
            raise InvalidInput(
                f"{early.name} speaks of finished samples; put it after {step.name} and all other "
                "geometry"
            )
        if not isinstance(step, Extra):
            continue
        name = step.tensor.name
        if name in extras:
            raise InvalidInput(
                f"{extras[name].name} and {step.name} both emit a tensor {name!r}; leave one out"
            )
        _check_tensor(step.name, step.tensor)
        step.check(stages)
        extras[name] = step
    if len(OWN) + len(extras) > MAX_TENSORS:
        raise InvalidInput(
            f"a batch has at most {MAX_TENSORS} tensors; leave out some of the {len(extras)} extras"
        )
    return tuple(extras.values())


def made(step: Extra, seen: Seen) -> Array:
    """What an extra makes, of the type and shape that its tensor has."""
    tensor, array = step.tensor, np.asarray(step.make(seen))
    shape = (len(seen.samples), *tensor.shape)
    if array.shape != shape or not np.can_cast(array.dtype, tensor.dtype, "same_kind"):
        raise InvalidInput(
            f"{step.name} made {array.dtype} of shape {array.shape}, and its tensor "
            f"{tensor.name!r} is {np.dtype(tensor.dtype)} of shape {shape}; correct its method make"
        )
    return array.astype(tensor.dtype, copy=False)


def _check_tensor(who: str, tensor: TensorSpec) -> None:
    if tensor.name in OWN:
        raise InvalidInput(f"{who}: every batch has a tensor {tensor.name!r}; name it otherwise")
    if not _NAME.fullmatch(tensor.name):
        raise InvalidInput(
            f"{who}: {tensor.name!r} is no name for a tensor; take 1 to 16 letters, digits, - or _"
        )
    if tensor.dtype not in DTYPES:
        raise InvalidInput(
            f"{who}: a tensor cannot be of {tensor.dtype!r}; take one of {', '.join(DTYPES)}"
        )
    if len(tensor.shape) > _MAX_SIDES or any(side < 1 for side in tensor.shape):
        raise InvalidInput(
            f"{who}: a tensor cannot have the shape {tensor.shape} for a sample; take at most "
            f"{_MAX_SIDES} sides of at least 1"
        )
