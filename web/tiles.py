"""The large figures that several pages show."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tile:
    """One of them, with what it is and, where it matters, how it is known."""

    figure: str
    caption: str
    mark: str | None = None
