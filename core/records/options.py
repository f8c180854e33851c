"""What packing is asked to do."""

from dataclasses import dataclass
from typing import Any, Literal

from ddlp.core.errors import InvalidInput

MAX_SIDE = 65_535
"""Pixels along a side of a JPEG."""
_QUALITY = 90
"""Where pictures are made smaller and nothing else is asked for."""


@dataclass(frozen=True)
class PackOptions:
    """What becomes of each sample; with a longest side or a quality, pixels are lost."""

    max_side: int | None = None
    """Make pictures smaller whose longest side is longer."""
    quality: int | None = None
    """Encode pictures anew with this JPEG quality."""
    keep_heads: bool = False
    """Keep each JPEG's own head: EXIF data, colour profiles, comments."""
    on_bad: Literal["fail", "skip"] = "fail"
    """What a sample that cannot be read does to the packing."""

    def __post_init__(self) -> None:
        _check_whole("max_side", self.max_side, MAX_SIDE)
        _check_whole("quality", self.quality, 100)
        if not isinstance(self.keep_heads, bool):
            raise InvalidInput(f"keep_heads={self.keep_heads!r} is neither true nor false")
        if self.on_bad not in ("fail", "skip"):
            raise InvalidInput(f"on_bad={self.on_bad!r} is neither fail nor skip")

    @property
    def lossy(self) -> bool:
        """Whether pixels are other ones than the origin's."""
        return self.max_side is not None or self.quality is not None

    @property
    def new_quality(self) -> int:
        """With which a picture is encoded anew."""
        return self.quality or _QUALITY

    def as_stored(self) -> dict[str, Any]:
        """What shards say of them: all that shows in a sample, so not what bad ones do."""
        return {
            "max_side": self.max_side,
            "quality": self.quality,
            "keep_heads": self.keep_heads,
        }


def _check_whole(name: str, value: int | None, most: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InvalidInput(f"{name}={value!r} is not a whole number between 1 and {most}")
