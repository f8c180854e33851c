"""The plain writer of a record: what the kernel's packer must give, byte for byte."""

import struct
from itertools import pairwise

import numpy as np

from ddlp.core.image.record import DC_BITS, FIXED, FORMAT, PLACES, SLACK, WIDTHS, Record


class Bits:
    """Numbers of some bits each, from the least significant end on."""

    def __init__(self) -> None:
        self._bits: list[str] = []

    def put(self, number: int, width: int) -> None:
        assert 0 <= number < 1 << width
        if width:
            self._bits.append(f"{number:0{width}b}")

    def filled(self) -> bytes:
        """What was put, filled to a byte with zeros."""
        bits = "".join(reversed(self._bits))
        return int(bits or "0", 2).to_bytes((len(bits) + 7) // 8, "little")


def pack(record: Record, tile_mcus: int | None = None) -> bytes:
    """The bytes of a record; ValueError where a coefficient does not fit."""
    across, down = record.sampling
    tile_mcus = tile_mcus or (8 if (across, down) == (1, 1) else 4)
    layout = record.layout(tile_mcus)
    rows = [
        [pack_tile(_blocks(record, tile_mcus, row, column)) for column in range(layout.columns)]
        for row in range(layout.rows)
    ]
    uses = (*record.uses, 0, 0)[:3]
    ends = np.cumsum([sum(map(len, tiles)) for tiles in rows])
    fixed = FIXED.pack(
        FORMAT,
        record.components,
        record.colour,
        across * 16 + down,
        tile_mcus,
        *uses,
        record.width,
        record.height,
        len(record.tables),
        bytes(3),
        len(record.head),
    )
    return b"".join(
        [
            fixed,
            record.tables.astype("<u2").tobytes(),
            ends.astype("<u4").tobytes(),
            *(struct.pack("<H", len(tile)) for tiles in rows for tile in tiles),
            *(tile for tiles in rows for tile in tiles),
            record.head,
            bytes(SLACK),
        ]
    )


def _blocks(record: Record, tile_mcus: int, row: int, column: int) -> list[list[list[int]]]:
    """The blocks of each component in a tile, each of 64 coefficients in natural order."""
    layout = record.layout(tile_mcus)
    first, mcus = column * tile_mcus, layout.mcus(column)
    return [
        part[row * down : (row + 1) * down, first * across : (first + mcus) * across]
        .reshape(-1, 64)
        .tolist()
        for part, (across, down) in zip(record.coefficients, layout.factors, strict=True)
    ]


def pack_tile(components: list[list[list[int]]]) -> bytes:
    """A tile, every number in it in the fewest bits that serve."""
    widths, dc = _pack_dc([[block[0] for block in blocks] for blocks in components])
    patches, masks, nibbles, ac = bytearray(), bytearray(), Bits(), Bits()
    for block in (block for blocks in components for block in blocks):
        named = 0
        for g in range(8):
            values = [block[PLACES[g, j]] if g or j else 0 for j in range(8)]
            if not any(values):
                continue
            named |= 1 << g
            masks.append(sum(1 << j for j, value in enumerate(values) if value))
            less = {j: folded(value) - 1 for j, value in enumerate(values) if value}
            way = best_way(g, less)
            nibbles.put(way, 4)
            for j, number in less.items():
                ac.put(number, int(WIDTHS[g, way, j]))
        patches.append(named)
    return widths + bytes(patches) + bytes(masks) + nibbles.filled() + dc + ac.filled()


def best_way(patch: int, numbers: dict[int, int]) -> int:
    """The way that takes the fewest bits for the numbers at some places; the first of several."""
    wide_enough = [
        (sum(int(widths[j]) for j in numbers), way)
        for way, widths in enumerate(WIDTHS[patch])
        if all(number.bit_length() <= widths[j] for j, number in numbers.items())
    ]
    if not wide_enough:
        raise ValueError(f"a coefficient of {sorted(numbers.values())} does not fit any way")
    return min(wide_enough)[1]


def _pack_dc(components: list[list[int]]) -> tuple[bytes, bytes]:
    """The two bytes of widths, and the bits."""
    widths, bits = [0, 0, 0], Bits()
    for place, values in enumerate(components):
        for value in values:
            if not -(1 << (DC_BITS - 1)) <= value < 1 << (DC_BITS - 1):
                raise ValueError(f"a DC of {value} does not fit {DC_BITS} bits")
        differences = [folded(b - a) for a, b in pairwise(values)]
        widths[place] = max(differences, default=0).bit_length()
        bits.put(values[0] % (1 << DC_BITS), DC_BITS)
        for difference in differences:
            bits.put(difference, widths[place])
    return bytes([widths[0] | widths[1] << 4, widths[2]]), bits.filled()


def folded(value: int) -> int:
    """0, -1, 1, -2, 2 become 0, 1, 2, 3, 4."""
    return value << 1 ^ value >> 31
