"""Views: which rectangle of each image of a batch is seen, at which size, and where it is shown.

Geometric transforms map views to views; the engine then decodes, resizes and mirrors each image
once. A frame is what a sample looks like now: the shown part of the image, and black around it
where padding was added. All arithmetic is float64 addition, multiplication, division and rounding,
so every machine gets the same numbers.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Views:
    """One view a sample, as columns.

    The rectangle (`left`, `top`, `box_width`, `box_height`) of the upright source, in pixels that
    may be fractional, is shown at `width` × `height`, reading no source pixel outside the limits.
    It is then mirrored where `mirrored`, and lies at (`x`, `y`) of a frame of `frame_width` ×
    `frame_height`.
    """

    left: Floats
    top: Floats
    box_width: Floats
    box_height: Floats
    width: Ints
    height: Ints
    limit_left: Ints
    limit_top: Ints
    limit_right: Ints
    limit_bottom: Ints
    x: Ints
    y: Ints
    frame_width: Ints
    frame_height: Ints
    mirrored: Flags

    def __len__(self) -> int:
        return len(self.width)

    @classmethod
    def whole(cls, widths: Ints, heights: Ints) -> "Views":
        """The whole images at their own sizes."""
        widths, heights = np.asarray(widths, np.int64), np.asarray(heights, np.int64)
        zeros = np.zeros_like(widths)
        return cls(
            left=zeros.astype(np.float64),
            top=zeros.astype(np.float64),
            box_width=widths.astype(np.float64),
            box_height=heights.astype(np.float64),
            width=widths,
            height=heights,
            limit_left=zeros,
            limit_top=zeros,
            limit_right=widths,
            limit_bottom=heights,
            x=zeros,
            y=zeros,
            frame_width=widths,
            frame_height=heights,
            mirrored=np.zeros(len(widths), np.bool_),
        )

    def crop(
        self, left: Ints | int, top: Ints | int, width: Ints | int, height: Ints | int
    ) -> "Views":
        """A part of the frames, given in their pixels as they are seen now, mirrored included.

        It may reach beyond a frame: what lies there is black. Where it has nothing in common with
        what is shown, width and height become 0.
        """
        left, top, width, height = (
            np.broadcast_to(np.asarray(value, np.int64), len(self))
            for value in (left, top, width, height)
        )
        across = _Cut.of(left, width, self.x, self.width, self.mirrored)
        down = _Cut.of(top, height, self.y, self.height, np.zeros_like(self.mirrored))
        return replace(
            self,
            left=self.left + across.before * (self.box_width / np.maximum(self.width, 1)),
            top=self.top + down.before * (self.box_height / np.maximum(self.height, 1)),
            box_width=across.share(self.box_width, self.width),
            box_height=down.share(self.box_height, self.height),
            width=across.shown,
            height=down.shown,
            x=across.place,
            y=down.place,
            frame_width=width,
            frame_height=height,
        )

    def scaled(self, width: Ints | int, height: Ints | int) -> "Views":
        """The same parts at other sizes, from the pixels of these parts alone.

        A side that keeps its length is not resampled, and keeps its limits. Frames with black
        borders cannot be scaled: the border would have to be resampled too.
        """
        if (self.width != self.frame_width).any() or (self.height != self.frame_height).any():
            raise ValueError("a padded frame cannot be scaled before it is made")
        width, height = (
            np.broadcast_to(np.asarray(value, np.int64), len(self)) for value in (width, height)
        )
        wider, higher = width != self.width, height != self.height
        first_x, last_x = _pixels(self.left, self.box_width, self.limit_left, self.limit_right)
        first_y, last_y = _pixels(self.top, self.box_height, self.limit_top, self.limit_bottom)
        return replace(
            self,
            width=width,
            height=height,
            limit_left=np.where(wider, first_x, self.limit_left),
            limit_right=np.where(wider, last_x, self.limit_right),
            limit_top=np.where(higher, first_y, self.limit_top),
            limit_bottom=np.where(higher, last_y, self.limit_bottom),
            frame_width=width,
            frame_height=height,
        )

    def padded(self, by: int) -> "Views":
        """A black border of `by` pixels on every side."""
        return replace(
            self,
            x=self.x + by,
            y=self.y + by,
            frame_width=self.frame_width + 2 * by,
            frame_height=self.frame_height + 2 * by,
        )

    def mirror(self, which: Flags) -> "Views":
        """Left and right exchanged in those frames."""
        return replace(
            self,
            x=np.where(which, self.frame_width - self.x - self.width, self.x),
            mirrored=self.mirrored ^ which,
        )


@dataclass(frozen=True)
class _Cut:
    """What a crop leaves of the shown part, along one side."""

    before: Ints
    """Shown pixels that are cut off at the source's beginning of the side."""
    shown: Ints
    place: Ints

    @classmethod
    def of(cls, start: Ints, length: Ints, at: Ints, shown: Ints, backwards: Flags) -> "_Cut":
        """Cut [start, start + length) out of a frame that shows something at [at, at + shown)."""
        first = np.maximum(start, at)
        last = np.minimum(start + length, at + shown)
        left = np.maximum(last - first, 0)
        before = np.where(backwards, at + shown - last, first - at)
        return cls(
            before=np.where(left > 0, before, 0),
            shown=left,
            place=np.where(left > 0, first - start, 0),
        )

    def share(self, box: Floats, shown: Ints) -> Floats:
        """The length of the source that is still seen; exactly the box where nothing is cut."""
        return np.where(self.shown == shown, box, self.shown * (box / np.maximum(shown, 1)))


def _pixels(start: Floats, length: Floats, first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """The whole pixels that [start, start + length) touches, within the limits so far."""
    begin = np.floor(start).astype(np.int64)
    end = np.ceil(start + length).astype(np.int64)
    return np.maximum(begin, first), np.minimum(end, last)
