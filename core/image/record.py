"""Decides what a record is: the plain reader of one, and the definition that the kernel follows.

A record holds the quantised DCT coefficients of a JPEG, unchanged, in a form that can be read from
the middle: the picture is cut into tiles of a few MCUs, whose sizes are listed ahead of them. The
layout, and which records are refused, is written down in `docs/records.md`; `parse` follows that
text part by part. The kernel reads the tiles that a view needs, and refuses what it has read by the
same rules.
"""

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from itertools import product
from typing import cast

import numpy as np
import numpy.typing as npt

from ddlp.core.errors import BadSample

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Tables = npt.NDArray[np.uint16]
Coefficients = npt.NDArray[np.int16]

FORMAT = 1
FIXED = struct.Struct("<8B2IB3sI")
"""Format, components, colour, sampling, MCUs in a tile, the tables of three components, width,
height, number of tables, zeros, bytes of the head."""
SLACK = 16
"""Bytes after the last part, so that a load of 8 bytes never leaves the record."""
MAX_SIDE = 0xFFFF
MAX_TABLES = 3
MAX_TILE_MCUS = 16
MAX_QUANTUM = 32767
DC_BITS = 12
DC_RANGE = range(-1024, 1024)
MAX_VALUE = 1023
"""What a coefficient of an 8-bit JPEG can be, other than a DC; the least is its negative."""

PLACES: Ints = np.array(
    [[((g >> 1) * 2 + (j >> 2)) * 8 + (g & 1) * 4 + (j & 3) for j in range(8)] for g in range(8)]
)
"""Where the eight coefficients of each of a block's eight patches lie in natural order: a patch is
two rows by four columns of the block."""

_WAYS = """
    11111111 12212211 14323322 23214221 15424432 46547543 14315331 35336433
    13113111 57656554 36435542 68768765 7988a887 67648664 25554444 bbbbbbbb
    11111111 21112111 32111111 64213211 31113111 43224222 33114211 54325322
    42213111 65446444 55435433 22222222 76557555 43334333 87768666 bbbbbbbb
    11111111 22111111 32112211 54324321 33313211 23212111 44434433 65435432
    43333332 44222221 76656655 55544444 66546543 87767766 99879877 bbbbbbbb
    11111111 21122111 21111112 32222222 32111111 43334322 22213211 43223222
    43113111 54344333 54435444 65455444 54233233 65556555 76667666 bbbbbbbb
    11111111 22111111 31112111 32223211 43212111 54325322 44223322 43323221
    53214211 76546544 65445443 65334432 54433333 86657655 98768766 bbbbbbbb
    11111111 31211211 32113111 21121112 22222222 21112111 42233212 43334322
    33223221 54434433 32323323 43343333 54445444 65555545 76666666 bbbbbbbb
    11111111 32211111 22122122 42213222 21111111 33222211 43332222 54324322
    65545444 11222211 33333333 44443333 55434433 76556555 87667666 bbbbbbbb
    11111111 21112111 12221122 22111211 33113221 33322322 31222211 43343333
    22232222 32233332 44334443 43224323 54444444 55555555 77667666 bbbbbbbb
"""
WIDTHS: Ints = np.array([int(digit, 16) for digit in "".join(_WAYS.split())]).reshape(8, 16, 8)
"""How many bits the value at each place of each patch has, in each of sixteen ways: two lines a
patch, a word a way, a digit a place. They were found over photographs of several qualities."""


class Colour(IntEnum):
    """What the components mean."""

    GREY = 0
    YCBCR = 1
    RGB = 2


_PICTURES = {
    (1, Colour.GREY, 0x11),
    (3, Colour.RGB, 0x11),
    *((3, Colour.YCBCR, sampling) for sampling in (0x11, 0x21, 0x12, 0x22)),
}
"""The components, colours and samplings that go together."""


@dataclass(frozen=True)
class Layout:
    """How a picture is cut: into MCUs, and each row of these into tiles."""

    width: int
    height: int
    colour: Colour
    sampling: tuple[int, int]
    """Blocks of the first component in an MCU, across and down; the others have one."""
    tile_mcus: int

    @property
    def factors(self) -> list[tuple[int, int]]:
        """Blocks in an MCU, across and down, of each component."""
        others = 0 if self.colour is Colour.GREY else 2
        return [self.sampling, *[(1, 1)] * others]

    @property
    def mcu_columns(self) -> int:
        """MCUs across."""
        return -(-self.width // (8 * self.sampling[0]))

    @property
    def rows(self) -> int:
        """Rows of MCUs, and so of tiles."""
        return -(-self.height // (8 * self.sampling[1]))

    @property
    def columns(self) -> int:
        """Tiles in a row."""
        return -(-self.mcu_columns // self.tile_mcus)

    def mcus(self, column: int) -> int:
        """MCUs in a tile; the last of a row may have fewer than the others."""
        return min(self.tile_mcus, self.mcu_columns - column * self.tile_mcus)

    def blocks(self, column: int) -> list[int]:
        """Blocks of each component in a tile."""
        return [self.mcus(column) * across * down for across, down in self.factors]


@dataclass(frozen=True)
class Tiles:
    """Which tiles of a picture are read: these columns of these rows."""

    rows: range
    columns: range


def all_tiles(layout: Layout) -> Tiles:
    """Every tile of a picture."""
    return Tiles(range(layout.rows), range(layout.columns))


@dataclass(frozen=True, eq=False)
class Record:
    """A picture as its quantised coefficients."""

    width: int
    height: int
    colour: Colour
    sampling: tuple[int, int]
    """Blocks of the first component in an MCU, across and down; the others have one."""
    tables: Tables
    """Quantisation tables, (tables, 64), natural order."""
    uses: tuple[int, ...]
    """Which table each component uses."""
    head: bytes
    """The JPEG's segments from its first byte up to its first scan; empty where not kept."""
    coefficients: tuple[Coefficients, ...]
    """Of each component (block rows, block columns, 64), natural order, filled to whole MCUs."""

    @property
    def components(self) -> int:
        """One, or three."""
        return len(self.coefficients)

    def layout(self, tile_mcus: int) -> Layout:
        """How it is cut into tiles of so many MCUs."""
        return Layout(self.width, self.height, self.colour, self.sampling, tile_mcus)


def parse(data: bytes | memoryview, wanted: Callable[[Layout], Tiles] = all_tiles) -> Record:
    """A record that is whole, or BadSample with what is wrong about it.

    Only the tiles that are wanted are read; in all others, every coefficient is zero.
    """
    record = np.frombuffer(data, np.uint8)
    layout, uses, tables, head_bytes = _read_fixed(record)
    tiles = wanted(layout)
    at = FIXED.size + 128 * tables
    listed = at + layout.rows * (4 + 2 * layout.columns)
    _require(
        listed + head_bytes + SLACK <= len(record),
        f"it has {len(record)} bytes, but its lists and its head alone have "
        f"{listed + head_bytes + SLACK}",
    )
    ends = record[at : at + 4 * layout.rows].view("<u4").astype(np.int64)
    sizes = record[at + 4 * layout.rows : listed].view("<u2").astype(np.int64)
    sizes = sizes.reshape(layout.rows, layout.columns)
    head = listed + int(ends[-1])
    _require(
        head + head_bytes + SLACK == len(record),
        f"it has {len(record)} bytes, but its parts add up to {head + head_bytes + SLACK}",
    )
    numbers = record[FIXED.size : at].view("<u2").reshape(tables, 64).astype(np.uint16)
    _require(
        bool(numbers.all()) and int(numbers.max()) <= MAX_QUANTUM,
        f"a number of its tables is not one of 1 to {MAX_QUANTUM}",
    )
    _check_lists(layout, ends, sizes)
    return Record(
        layout.width,
        layout.height,
        layout.colour,
        layout.sampling,
        numbers,
        uses,
        record[head : head + head_bytes].tobytes(),
        _read_tiles(layout, tiles, sizes, record[listed:head]),
    )


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise BadSample(otherwise)


def _read_fixed(record: Bytes) -> tuple[Layout, tuple[int, ...], int, int]:
    """The layout, each component's table, the number of tables, and the bytes of the head."""
    shortest = FIXED.size + SLACK
    _require(len(record) >= shortest, f"it has {len(record)} bytes; no record has below {shortest}")
    form, components, colour, sampling, tile_mcus, *rest = FIXED.unpack(
        record[: FIXED.size].tobytes()
    )
    uses, (width, height, tables, zeros, head_bytes) = tuple(rest[:3]), rest[3:]
    _require(form == FORMAT, f"it is a record of format {form}; only {FORMAT} is known")
    _require(
        (components, colour, sampling) in _PICTURES,
        f"it says that it has {components} components of colour {colour} with the sampling "
        f"0x{sampling:02x}, which no record has",
    )
    _require(
        1 <= tile_mcus <= MAX_TILE_MCUS,
        f"its tiles have {tile_mcus} MCUs, which are 1 to {MAX_TILE_MCUS}",
    )
    _require(
        1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE,
        f"its size is {width} × {height} pixels; sides have 1 to {MAX_SIDE}",
    )
    _require(
        1 <= tables <= MAX_TABLES,
        f"it says that it has {tables} quantisation tables, which are 1 to {MAX_TABLES}",
    )
    _require(
        max(uses) < tables and not any(uses[components:]),
        f"its components use the tables {uses} of {tables}",
    )
    _require(zeros == bytes(3), f"its reserved bytes are {zeros.hex()}, not zeros")
    layout = Layout(width, height, Colour(colour), (sampling >> 4, sampling & 15), tile_mcus)
    return layout, uses[:components], tables, head_bytes


def _check_lists(layout: Layout, ends: Ints, sizes: Ints) -> None:
    """That the tiles fill the rows, and are large enough for their blocks.

    The latter would be noticed anyway as a tile is read. It is asked here so that no memory is
    taken for a picture that a few bytes cannot hold.
    """
    lengths = np.diff(ends, prepend=0)
    _require_of_rows(lengths >= 0, "the tiles of row {} end before they begin")
    _require_of_rows(sizes.sum(axis=1) == lengths, "the tiles of row {} do not add up to the row")
    fewest = np.array([2 + sum(layout.blocks(column)) for column in range(layout.columns)])
    _require_of_rows(
        (sizes - fewest).min(axis=1) >= 0, "a tile of row {} has fewer bytes than blocks"
    )


def _require_of_rows(holds: npt.NDArray[np.bool_], otherwise: str) -> None:
    wrong = np.flatnonzero(~holds)
    if wrong.size:
        raise BadSample(otherwise.format(wrong[0]))


def _read_tiles(
    layout: Layout, wanted: Tiles, sizes: Ints, tiles: Bytes
) -> tuple[Coefficients, ...]:
    """The coefficients of each component."""
    shapes = [(layout.rows * v, layout.mcu_columns * h, 64) for h, v in layout.factors]
    components = tuple(np.zeros(shape, dtype=np.int16) for shape in shapes)
    ends = np.cumsum(sizes).reshape(sizes.shape)
    for row, column in product(wanted.rows, wanted.columns):
        end, counts = int(ends[row, column]), layout.blocks(column)
        blocks = read_tile(tiles[end - int(sizes[row, column]) : end], counts)
        parts = np.split(blocks, np.cumsum(counts)[:-1])
        mcu, mcus = column * layout.tile_mcus, layout.mcus(column)
        for component, part, (across, down) in zip(components, parts, layout.factors, strict=True):
            place = component[row * down :, mcu * across :][:down, : mcus * across]
            place[:] = part.reshape(down, mcus * across, 64)
    return components


class _Parts:
    """A tile's parts, taken off one after the other; the first that is not there is an error."""

    def __init__(self, tile: Bytes) -> None:
        self._tile, self._at = tile, 0

    def take(self, count: int) -> Bytes:
        """The next so many bytes."""
        start, self._at = self._at, self._at + count
        _require(
            self._at <= len(self._tile),
            f"a tile of {len(self._tile)} bytes has parts of at least {self._at}",
        )
        return self._tile[start : self._at]

    def numbers(self, widths: Ints) -> Ints:
        """Numbers of so many bits each, from the least significant end on, filled to a byte."""
        ends = np.cumsum(widths)
        bits = int(ends[-1]) if ends.size else 0
        packed = np.append(self.take((bits + 7) // 8), np.zeros(3, np.uint8)).astype(np.int64)
        first = ends - widths
        byte = first >> 3
        word = packed[byte] | packed[byte + 1] << 8 | packed[byte + 2] << 16
        return cast(Ints, word >> (first & 7) & ((1 << widths) - 1))

    def finish(self) -> None:
        """Refuse bytes that no part claims."""
        _require(
            self._at == len(self._tile),
            f"a tile of {len(self._tile)} bytes has parts that add up to {self._at}",
        )


def read_tile(tile: Bytes, counts: list[int]) -> Coefficients:
    """The (blocks, 64) coefficients of a tile that has so many blocks of each component."""
    parts = _Parts(tile)
    low, high = parts.take(2).tolist()
    patches = _flags(parts.take(sum(counts)))
    masks = _flags(parts.take(int(patches.sum())))
    _require(bool(masks.any(axis=1).all()), "a tile names a patch that holds nothing")
    nibbles = parts.take((len(masks) + 1) // 2)
    ways = np.stack([nibbles & 15, nibbles >> 4], axis=1).reshape(-1)
    dc = _read_dc(parts, counts, (low & 15, low >> 4, high & 15))
    block, patch = np.nonzero(patches)
    named, place = np.nonzero(masks)
    folded = parts.numbers(WIDTHS[patch[named], ways[named], place]) + 1
    parts.finish()
    _require(
        not folded.size or int(folded.max()) <= 2 * MAX_VALUE,
        f"a tile has a coefficient beyond ±{MAX_VALUE}",
    )
    blocks = np.zeros((len(patches), 64), dtype=np.int64)
    blocks[block[named], PLACES[patch[named], place]] = _unfold(folded)
    blocks[:, 0] |= dc
    return blocks.astype(np.int16)


def _read_dc(parts: _Parts, counts: list[int], widths: Iterable[int]) -> Ints:
    """The first of each component as it is, the others as the difference to the one before."""
    each = zip(counts, widths, strict=False)
    bits = [np.array([DC_BITS] + [width] * (count - 1)) for count, width in each]
    numbers = np.split(parts.numbers(np.concatenate(bits)), np.cumsum(counts)[:-1])
    for of_component in numbers:
        first = of_component[0]
        of_component[1:] = _unfold(of_component[1:])
        of_component[0] = first - (first >> (DC_BITS - 1) << DC_BITS)
    dcs = np.concatenate([np.cumsum(of_component) for of_component in numbers])
    _require(
        int(dcs.min()) in DC_RANGE and int(dcs.max()) in DC_RANGE,
        f"a tile has a DC outside {DC_RANGE[0]} to {DC_RANGE[-1]}",
    )
    return dcs


def _unfold(folded: Ints) -> Ints:
    """0, 1, 2, 3, 4 become 0, -1, 1, -2, 2."""
    return folded >> 1 ^ -(folded & 1)


def _flags(masks: Bytes) -> npt.NDArray[np.bool_]:
    """The eight bits of each byte, the least significant first."""
    return np.unpackbits(masks[:, None], axis=1, bitorder="little").astype(np.bool_)
