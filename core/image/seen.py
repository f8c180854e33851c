"""Decides which tiles of a record a view needs: what `c/record_rows.c` reads, and nothing else.

Damage elsewhere is not looked for, so both engines must read the same tiles to agree on what is
damaged.
"""

from dataclasses import dataclass

from ddlp.core.image.record import Layout, Tiles
from ddlp.core.image.resize import Span, reach


@dataclass(frozen=True)
class _Reduced:
    """A picture as the inverse DCT reduces it.

    Chroma that has half the samples along both axes gets larger blocks than luma and is not
    stretched; any other is reduced alike.
    """

    width: int
    chroma_height: int
    side: int
    """Pixels of a block of the first component, along each axis."""
    chroma_side: int
    across: int
    """Pixels that a sample of chroma is stretched to."""
    down: int
    is_smooth: bool
    """By a triangle; otherwise it is repeated."""


def tiles_seen(layout: Layout, across: Span, down: Span, reduction: int) -> Tiles:
    """The tiles that a view of a reduced picture needs."""
    picture = _reduced(layout, reduction)
    return Tiles(_rows(picture, down), _columns(layout, picture, across))


def _reduced(layout: Layout, reduction: int) -> _Reduced:
    across, down = layout.sampling
    side = 8 // reduction
    is_halved = reduction > 1 and (across, down) == (2, 2)
    chroma_side = 2 * side if is_halved else side
    stretched = (1, 1) if is_halved else (across, down)
    chroma_width = -(-layout.width * chroma_side // (8 * across))
    # libjpeg repeats what is too small to interpolate.
    is_smooth = side > 1 and (stretched[0] == 1 or chroma_width > 2)
    return _Reduced(
        -(-layout.width // reduction),
        -(-layout.height * chroma_side // (8 * down)),
        side,
        chroma_side,
        *stretched,
        is_smooth,
    )


def _chroma_rows(picture: _Reduced, row: int) -> tuple[int, int]:
    """The chroma rows that a row of pixels lies between, the upper one first."""
    near = row // picture.down
    far = near
    if picture.down > 1 and picture.is_smooth:
        far = near + 1 if row % 2 else near - 1
    far = min(max(far, 0), picture.chroma_height - 1)
    return min(near, far), max(near, far)


def _rows(picture: _Reduced, down: Span) -> range:
    first, stop = reach(down)
    low, _ = _chroma_rows(picture, int(first[0]))
    _, high = _chroma_rows(picture, int(stop.max()) - 1)
    return range(low // picture.chroma_side, high // picture.chroma_side + 1)


def _columns(layout: Layout, picture: _Reduced, across: Span) -> range:
    """One chroma sample more on each side, where it is stretched."""
    margin = 2 if picture.across > 1 else 0
    wide = picture.side * layout.sampling[0]
    first, stop = reach(across)
    low = max(int(first[0]) - margin, 0) // wide
    high = -(-min(int(stop.max()) + margin, picture.width) // wide)
    return range(low // layout.tile_mcus, -(-high // layout.tile_mcus))
