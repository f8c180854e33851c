"""Stages: which steps of a pipeline can be done in one go.

The geometry of a stage is one view, rendered once, on which its pixel steps then work. Geometry
that follows a pixel step, or that resizes what was padded, needs the pixels: it begins a new stage,
whose source is what the stage before it made.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ddlp.core.errors import InvalidInput
from ddlp.core.pipeline.transforms.base import Geometric, PixelTransform, Size


@dataclass(frozen=True)
class Stage:
    """One rendering at `width` × `height`, and what is then done to its pixels."""

    geometry: tuple[Geometric, ...]
    pixels: tuple[PixelTransform, ...]
    width: int
    height: int

    @property
    def steps(self) -> tuple[Geometric | PixelTransform, ...]:
        """All of them, in order."""
        return (*self.geometry, *self.pixels)


def split(steps: Sequence[Geometric | PixelTransform]) -> tuple[tuple[Stage, ...], Size]:
    """The stages of a pipeline, and the size of what the last one makes."""
    stages: list[Stage] = []
    size: Size | None = None
    for geometry, pixels in _groups(steps):
        for step in geometry:
            size = step.output_size(size)
        if size is None:
            raise _unknown(pixels)
        stages.append(Stage(tuple(geometry), tuple(pixels), *size))
        for pixel_step in pixels:
            size = pixel_step.output_size(size)
    if size is None:
        raise _unknown([])
    return tuple(stages), size


def _groups(
    steps: Sequence[Geometric | PixelTransform],
) -> list[tuple[list[Geometric], list[PixelTransform]]]:
    groups: list[tuple[list[Geometric], list[PixelTransform]]] = []
    for step in steps:
        if not groups or (isinstance(step, Geometric) and _ends(groups[-1], step)):
            groups.append(([], []))
        geometry, pixels = groups[-1]
        if isinstance(step, Geometric):
            geometry.append(step)
        else:
            pixels.append(step)
    return groups


def _ends(group: tuple[list[Geometric], list[PixelTransform]], step: Geometric) -> bool:
    geometry, pixels = group
    return bool(pixels) or (step.resizes and any(before.pads for before in geometry))


def _unknown(pixels: Sequence[PixelTransform]) -> InvalidInput:
    if pixels:
        return InvalidInput(
            f"{pixels[0].name} needs images of one size; put centre-crop, pad-crop or "
            "random-resized-crop before it"
        )
    return InvalidInput(
        "the pipeline does not say how large its output is; end it with centre-crop, pad-crop or "
        "random-resized-crop"
    )
