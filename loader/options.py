"""Checks what callers of `DualLoader` give, and finds what they left open."""

from enum import StrEnum
from typing import Any, TypeVar

from ddlp.core.errors import InvalidInput
from ddlp.core.pipeline import Pipeline, PipelineSpec
from ddlp.loader.tensors import TensorOptions

MOST_AHEAD = 256
_AHEAD_BYTES = 256 << 20
_FEWEST, _MOST = 2, 32
"""Batches that are read ahead where nobody says how many."""

_Choice = TypeVar("_Choice", bound=StrEnum)


def check_waiting(prefetch: int | None, wait_timeout_s: float | None) -> None:
    """Refuse numbers that make no sense."""
    if prefetch is not None and not 1 <= prefetch <= MOST_AHEAD:
        raise InvalidInput(f"prefetch={prefetch} is not from 1 to {MOST_AHEAD}")
    if wait_timeout_s is not None and not wait_timeout_s > 0:
        raise InvalidInput(f"wait_timeout_s={wait_timeout_s} is not above 0")


def named(kind: type[_Choice], name: str, given: str) -> _Choice:
    """One of some words."""
    try:
        return kind(given)
    except ValueError as error:
        raise InvalidInput(f"{name}={given!r} is none of {', '.join(kind)}") from error


def pipeline_of(given: str | dict[str, Any]) -> Pipeline:
    """A pipeline by its preset's name, or as it is described."""
    if isinstance(given, str):
        return Pipeline.preset(given)
    return Pipeline.parse(PipelineSpec.model_validate(given))


def fitting(pipeline: Pipeline, samples: int, tensors: TensorOptions) -> int:
    """How many batches fit the memory that may be used ahead."""
    height, width, channels = pipeline.shape
    late = bool(tensors.normalize) and pipeline.normalize is not None
    wide = pipeline.dtype != "uint8" or late
    nbytes = samples * height * width * channels * (4 if wide else 1)
    return min(_MOST, max(_FEWEST, _AHEAD_BYTES // max(1, nbytes)))
