"""Tells which part of its picture a sample shows, and whether it is mirrored."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ddlp.core.batchfile import Array, TensorSpec
from ddlp.core.errors import InvalidInput
from ddlp.core.pipeline.transforms.base import Extra, Parameters, Seen
from ddlp.core.pipeline.views import Flags, Floats, Ints, Views

if TYPE_CHECKING:
    from ddlp.core.pipeline.stages import Stage

_NAMES = ("left", "top", "width", "height")


class View(Extra):
    """The rectangle of the picture that fills the sample: left, top, width, height, mirrored.

    It reaches over the picture's edge where black was added, so that it always says which place of
    the sample shows which place of the picture. Several stages are put together.
    """

    name: ClassVar[str] = "view"

    @property
    def tensor(self) -> TensorSpec:
        """Five floats a sample."""
        return TensorSpec("view", "<f4", (5,))

    def check(self, stages: "Sequence[Stage]") -> None:
        """Only geometry says where pixels come from: nothing else may change sizes."""
        for stage in stages:
            size = stage.width, stage.height
            for step in stage.pixels:
                if step.output_size(size) != size:
                    raise InvalidInput(
                        f"view cannot tell what is seen after {step.name}, which changes the size "
                        "of images and does not say where their pixels come from; leave one of "
                        "the two out"
                    )

    def make(self, seen: Seen) -> Array:
        """The rectangles in pixels of the upright picture; all 0 where nothing of it is seen."""
        window = _Window.of(seen.views)
        for before, views in pairwise((seen.views, *seen.later)):
            window = window.part(before, _Window.of(views))
        columns = (window.left, window.top, window.width, window.height)
        made = np.stack((*columns, window.mirrored), axis=1)
        made[(window.width == 0) | (window.height == 0), : len(columns)] = 0
        return made.astype("<f4")

    def explain(self, made: Array) -> list[Parameters]:
        """The rectangle, and whether it is mirrored."""
        return [
            {**dict(zip(_NAMES, row, strict=True)), "mirrored": bool(mirrored)}
            for *row, mirrored in made.tolist()
        ]


@dataclass(frozen=True, eq=False)
class _Window:
    """Where whole frames lie on the plane of their source, black around what is shown included."""

    left: Floats
    top: Floats
    width: Floats
    height: Floats
    mirrored: Flags

    @classmethod
    def of(cls, views: Views) -> "_Window":
        """The frames of one stage, on its source."""
        before = np.where(views.mirrored, views.frame_width - views.x - views.width, views.x)
        return cls(
            left=views.left - _length(before, views.box_width, views.width),
            top=views.top - _length(views.y, views.box_height, views.height),
            width=_length(views.frame_width, views.box_width, views.width),
            height=_length(views.frame_height, views.box_height, views.height),
            mirrored=views.mirrored,
        )

    def part(self, views: Views, within: "_Window") -> "_Window":
        """What lies in a window of these frames, which are those of `views`."""
        across, down = views.frame_width, views.frame_height
        before = np.where(self.mirrored, across - within.left - within.width, within.left)
        return _Window(
            left=self.left + _length(before, self.width, across),
            top=self.top + _length(within.top, self.height, down),
            width=_length(within.width, self.width, across),
            height=_length(within.height, self.height, down),
            mirrored=self.mirrored ^ within.mirrored,
        )


def _length(pixels: Ints | Floats, source: Floats, shown: Ints) -> Floats:
    """How long so many pixels are at the source, of which a length is shown by `shown` pixels."""
    lengths: Floats = pixels * source / np.maximum(shown, 1)
    return lengths
