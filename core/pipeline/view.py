"""A view: which rectangle of an image is seen, at which size, mirrored or not.

Geometric transforms map a view to a view; the engine then decodes, resizes and mirrors once.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class View:
    """A rectangle of the source (pixels, may be fractional) shown at width × height."""

    left: float
    top: float
    box_width: float
    box_height: float
    width: int
    height: int
    mirrored: bool = False

    @classmethod
    def whole(cls, width: int, height: int) -> "View":
        """The whole image at its own size."""
        return cls(0.0, 0.0, float(width), float(height), width, height)

    def crop(self, left: float, top: float, width: float, height: float) -> "View":
        """A part of what is seen now, given in the coordinates of what is seen now."""
        x, y = self.box_width / self.width, self.box_height / self.height
        return replace(
            self,
            left=self.left + left * x,
            top=self.top + top * y,
            box_width=width * x,
            box_height=height * y,
            width=round(width),
            height=round(height),
        )

    def scaled(self, width: int, height: int) -> "View":
        """The same part at another size."""
        return replace(self, width=width, height=height)
