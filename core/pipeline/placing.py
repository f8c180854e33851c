"""Places one view in one slot: what is shown where, mirrored or not, and black around it."""

from collections.abc import Iterator
from typing import NamedTuple

from ddlp.core.image import Slot, Span
from ddlp.core.pipeline.views import Views


class Placed(NamedTuple):
    """One row of `Views`, as plain numbers."""

    left: float
    top: float
    box_width: float
    box_height: float
    width: int
    height: int
    limit_left: int
    limit_top: int
    limit_right: int
    limit_bottom: int
    x: int
    y: int
    frame_width: int
    frame_height: int
    mirrored: bool

    @property
    def across(self) -> Span:
        """What is seen from left to right."""
        return Span(self.left, self.box_width, self.limit_left, self.limit_right, self.width)

    @property
    def down(self) -> Span:
        """What is seen from top to bottom."""
        return Span(self.top, self.box_height, self.limit_top, self.limit_bottom, self.height)

    @property
    def whole_frame(self) -> bool:
        """Whether the picture fills its frame."""
        return self.width == self.frame_width and self.height == self.frame_height


def rows(views: Views) -> Iterator[Placed]:
    """Views one by one."""
    columns = [getattr(views, name).tolist() for name in Placed._fields]
    return map(Placed._make, zip(*columns, strict=True))


def part_of(slot: Slot, placed: Placed) -> Slot:
    """The part of a slot that shows the picture, seen as the picture runs."""
    part = slot
    if not placed.whole_frame:
        part = slot[placed.y : placed.y + placed.height, placed.x : placed.x + placed.width]
    return part[:, ::-1] if placed.mirrored else part
