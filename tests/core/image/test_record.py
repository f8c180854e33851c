"""The plain reader: it reads what the plain writer wrote, and refuses everything else by name."""

import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddlp.core.errors import BadSample
from ddlp.core.image.record import (
    FIXED,
    MAX_VALUE,
    PLACES,
    WIDTHS,
    Coefficients,
    Colour,
    Record,
    parse,
    read_tile,
)
from tests.core.image.mutations import mutate
from tests.core.image.plain_packer import best_way, pack, pack_tile

FORMS = [
    (Colour.GREY, (1, 1)),
    (Colour.RGB, (1, 1)),
    *((Colour.YCBCR, sampling) for sampling in ((1, 1), (2, 1), (1, 2), (2, 2))),
]
EXTREMES = [1, -1, 2, -2, 511, -512, 1023, -1023]


def made(
    form: tuple[Colour, tuple[int, int]],
    size: tuple[int, int],
    seed: int = 0,
    density: float = 0.1,
    extremes: list[int] = EXTREMES,
) -> Record:
    """A record of random coefficients, so many of which are not zero."""
    random = np.random.default_rng(seed)
    colour, sampling = form
    blank = Record(*size, colour, sampling, np.ones((1, 64), np.uint16), (0,), b"", ())
    layout = blank.layout(1)
    parts: list[Coefficients] = []
    for across, down in layout.factors:
        shape = (layout.rows * down, layout.mcu_columns * across, 64)
        values = random.choice(extremes, shape) * (random.random(shape) < density)
        reach = random.choice([0, 1, 100, 1023])
        values[..., 0] = random.integers(-reach - 1, reach + 1, shape[:2])
        parts.append(values.astype(np.int16))
    tables = random.integers(1, 32768, (random.integers(1, 4), 64)).astype(np.uint16)
    uses = tuple(random.integers(0, len(tables), len(parts)).tolist())
    head = random.bytes(int(random.integers(0, 40)))
    return replace(blank, tables=tables, uses=uses, head=head, coefficients=tuple(parts))


def assert_same(found: Record, expected: Record) -> None:
    for name in ("width", "height", "colour", "sampling", "uses", "head", "components"):
        assert getattr(found, name) == getattr(expected, name)
    np.testing.assert_array_equal(found.tables, expected.tables)
    for one, other in zip(found.coefficients, expected.coefficients, strict=True):
        assert one.dtype == np.int16
        np.testing.assert_array_equal(one, other)


@given(
    form=st.sampled_from(FORMS),
    size=st.tuples(st.integers(1, 90), st.integers(1, 40)),
    seed=st.integers(0, 2**32),
    density=st.sampled_from([0.0, 0.01, 0.1, 0.6, 1.0]),
    extremes=st.lists(st.integers(-1023, 1023), min_size=1, max_size=6),
)
@settings(deadline=None)
def test_what_was_written_is_read_again(
    form: tuple[Colour, tuple[int, int]],
    size: tuple[int, int],
    seed: int,
    density: float,
    extremes: list[int],
) -> None:
    record = made(form, size, seed, density, extremes)
    packed = pack(record)
    assert_same(parse(packed), record)
    assert pack(parse(memoryview(packed))) == packed


@pytest.mark.parametrize("tile_mcus", range(1, 17))
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_tiles_of_any_size_are_read(form: tuple[Colour, tuple[int, int]], tile_mcus: int) -> None:
    record = made(form, (211, 19))
    assert_same(parse(pack(record, tile_mcus)), record)


def test_each_coefficient_has_one_place() -> None:
    assert sorted(PLACES.reshape(-1).tolist()) == list(range(64))


@pytest.mark.parametrize("patch", range(8))
def test_each_way_of_a_patch_takes_what_it_has_room_for(patch: int) -> None:
    for way, widths in enumerate(WIDTHS[patch].tolist()):
        most = 2 * MAX_VALUE  # folded, which is less than eleven bits have room for
        folded = {j: min(1 << width, most) for j, width in enumerate(widths) if patch or j}
        assert best_way(patch, {j: number - 1 for j, number in folded.items()}) == way
        block = [0] * 64
        for j, number in folded.items():
            block[PLACES[patch, j]] = number >> 1 ^ -(number & 1)
        tile = pack_tile([[block]])
        assert len(tile) == 2 + 1 + 1 + 1 + 2 + (sum(widths[j] for j in folded) + 7) // 8
        assert read_tile(np.frombuffer(tile, np.uint8), [1]).tolist() == [block]


def test_the_first_way_is_the_narrowest_and_the_last_takes_all() -> None:
    assert (WIDTHS[:, 0] == 1).all()
    assert (WIDTHS[:, 15] == 11).all()
    assert (WIDTHS.min(), WIDTHS.max()) == (1, 11)


@pytest.mark.parametrize("dc", [-2049, 2048])
def test_a_dc_beyond_twelve_bits_cannot_be_written(dc: int) -> None:
    with pytest.raises(ValueError, match=f"a DC of {dc} does not fit 12 bits"):
        pack_tile([[[dc] + [0] * 63]])


@pytest.mark.parametrize("value", [-1025, 1025, 32767, -32768])
def test_a_coefficient_beyond_eleven_bits_cannot_be_written(value: int) -> None:
    with pytest.raises(ValueError, match="does not fit any way"):
        pack_tile([[[0] * 63 + [value]]])


def read(dcs: list[int], value: int = 0) -> list[int]:
    """The DCs of blocks that were written, the last of which has a value at its end."""
    blocks = [[dc] + [0] * 63 for dc in dcs]
    blocks[-1][63] = value
    tile = np.frombuffer(pack_tile([blocks]), np.uint8)
    found = read_tile(tile, [len(dcs)])
    assert found[-1, 63] == value
    dcs_found: list[int] = found[:, 0].tolist()
    return dcs_found


@pytest.mark.parametrize("dcs", [[-1025], [1024], [0, -1025], [1000, 1024, 1000], [-2048], [2047]])
def test_a_dc_that_no_jpeg_has_is_refused(dcs: list[int]) -> None:
    assert read([-1024, 1023, -1024]) == [-1024, 1023, -1024]
    with pytest.raises(BadSample, match="a DC outside -1024 to 1023"):
        read(dcs)


@pytest.mark.parametrize("value", [-1024, 1024])
def test_a_coefficient_that_no_jpeg_has_is_refused(value: int) -> None:
    assert read([0], 1023) == read([0], -1023) == [0]
    with pytest.raises(BadSample, match="a coefficient beyond ±1023"):
        read([0], value)


def example() -> Record:
    """The one in the documentation."""
    values = np.zeros((1, 2, 64), dtype=np.int16)
    values[0, 0, [0, 1, 8, 63]] = -3, 5, -1, 2
    values[0, 1, 0] = 1
    tables = np.ones((1, 64), dtype=np.uint16)
    return Record(16, 8, Colour.GREY, (1, 1), tables, (0,), b"", (values,))


TILE = bytes.fromhex("0400 8100 1280 22 fd8f 8901")
BEFORE = bytes.fromhex("0101001108000000 1000000008000000 0100000000000000") + b"\1\0" * 64
EXAMPLE = BEFORE + bytes.fromhex("0b000000 0b00") + TILE + bytes(16)


def test_the_example_is_written_and_read_as_documented() -> None:
    assert pack(example()) == EXAMPLE
    assert_same(parse(EXAMPLE), example())


def test_the_documentation_has_the_example() -> None:
    text = (Path(__file__).parents[3] / "docs" / "records.md").read_text("utf-8")
    lines = text.split("### An example\n")[1].split("\n#")[0].splitlines()
    columns = [line.strip().split("   ")[0] for line in lines if line.startswith("    ")]
    told = bytes.fromhex("".join(column for column in columns if "…" not in column))
    assert told == EXAMPLE[:24] + EXAMPLE[24 + 128 : -16]


def with_tile(tile: bytes) -> bytes:
    return BEFORE + struct.pack("<IH", len(tile), len(tile)) + tile + bytes(16)


def changed(at: int, to: bytes, data: bytes = EXAMPLE) -> bytes:
    return data[:at] + to + data[at + len(to) :]


def wide(size: tuple[int, int], tile_mcus: int = 16) -> bytes:
    """The fixed part and table of a grey picture of any size."""
    return changed(4, bytes([tile_mcus]), changed(8, struct.pack("<II", *size), BEFORE))


def two_rows(ends: tuple[int, int], sizes: tuple[int, int]) -> bytes:
    lists = struct.pack("<IIHH", *ends, *sizes)
    return changed(12, b"\x10", BEFORE) + lists + TILE * 2 + bytes(16)


WRONG = {
    "it has 0 bytes; no record has below 40": b"",
    "it has 39 bytes; no record has below 40": EXAMPLE[:39],
    "format 2; only 1": changed(0, b"\2"),
    "2 components of colour 0": changed(1, b"\2"),
    "3 components of colour 0": changed(1, b"\3"),
    "1 components of colour 1": changed(2, b"\1"),
    "colour 3": changed(1, b"\3\3"),
    "1 components of colour 0 with the sampling 0x22": changed(3, b"\x22"),
    "3 components of colour 2 with the sampling 0x21": changed(1, b"\3\2\x21"),
    "colour 1 with the sampling 0x41": changed(1, b"\3\1\x41"),
    "tiles have 0 MCUs": changed(4, b"\0"),
    "tiles have 17 MCUs": changed(4, b"\x11"),
    r"use the tables \(1, 0, 0\) of 1": changed(5, b"\1"),
    r"use the tables \(0, 1, 0\) of 2": changed(16, b"\2", changed(6, b"\1")),
    "0 × 8 pixels": changed(8, b"\0"),
    "16 × 0 pixels": changed(12, b"\0"),
    "65536 × 8 pixels": changed(8, struct.pack("<I", 65536)),
    "16 × 4294967295 pixels": changed(12, b"\xff" * 4),
    "0 quantisation tables": changed(16, b"\0"),
    "4 quantisation tables": changed(16, b"\4"),
    "reserved bytes are 000100": changed(18, b"\1"),
    "a number of its tables is not one of 1 to 32767": changed(150, b"\0"),
    "not one of 1 to 32767": changed(25, b"\x80"),
    "it has 185 bytes, but its lists and its head alone have 4294967469": changed(20, b"\xff" * 4),
    "it has 185 bytes, but its parts add up to 186": changed(20, b"\1"),
    "it has 184 bytes, but its parts add up to 185": EXAMPLE[:-1],
    "it has 186 bytes, but its parts add up to 185": EXAMPLE + b"\0",
    "it has 185 bytes, but its parts add up to 184": changed(152, b"\x0a"),
    "row 1 end before they begin": two_rows((23, 22), (11, 11)),
    "tiles of row 0 do not add up": two_rows((11, 22), (12, 10)),
    "tiles of row 1 do not add up": two_rows((11, 22), (11, 12)),
    "a tile of row 0 has fewer bytes than blocks": with_tile(TILE[:3]),
    "a tile of 5 bytes has parts of at least 6": with_tile(TILE[:5]),
    "a tile of 6 bytes has parts of at least 7": with_tile(TILE[:6]),
    "a tile of 8 bytes has parts of at least 9": with_tile(TILE[:8]),
    "a tile of 10 bytes has parts of at least 11": with_tile(TILE[:10]),
    "a tile of 12 bytes has parts that add up to 11": with_tile(TILE + b"\0"),
}


@pytest.mark.parametrize("what", WRONG)
def test_each_damage_is_named(what: str) -> None:
    with pytest.raises(BadSample, match=what):
        parse(WRONG[what])


def test_two_good_rows_are_no_damage() -> None:
    assert parse(two_rows((11, 22), (11, 11))).coefficients[0].shape == (2, 2, 64)


def tile_of(change: Callable[[bytearray], object]) -> list[int]:
    """The first block of the example's tile after a change to its bytes."""
    tile = bytearray(TILE)
    change(tile)
    coefficients: list[int] = parse(with_tile(bytes(tile))).coefficients[0][0, 0].tolist()
    return coefficients


def test_what_is_not_looked_at() -> None:
    same = example().coefficients[0][0, 0].tolist()
    assert tile_of(lambda tile: tile.__setitem__(0, 0xF4)) == same  # bits of a second component
    assert tile_of(lambda tile: tile.__setitem__(1, 0xFF)) == same  # of a third and a fourth
    assert tile_of(lambda tile: tile.__setitem__(10, 0xFF)) == same  # what fills the last byte
    assert_same(parse(EXAMPLE[:-16] + b"\xff" * 16), example())


def test_a_patch_that_names_no_place_is_refused() -> None:
    tile = bytes.fromhex("0400 8300 120080 f2 02 fd8f 8901")  # patch 1 would have 11 bits
    with pytest.raises(BadSample, match="names a patch that holds nothing"):
        parse(with_tile(tile))


def test_a_value_in_the_place_of_the_dc_is_put_onto_its_bits() -> None:
    for folded, dc in ((12, 5 | 6), (15, 5 | -8)):
        tile = bytes.fromhex("0000 01 01 05 0500") + bytes([folded - 1])
        assert read_tile(np.frombuffer(tile, np.uint8), [1]).tolist() == [[dc] + [0] * 63]


def test_a_dc_does_not_come_back_into_its_range_by_wrapping() -> None:
    largest = (1 << 15) - 2  # folded: 16383
    dcs = sum(largest << 12 + 15 * at for at in range(4)).to_bytes(9, "little")
    tile = np.frombuffer(bytes.fromhex("0f00 0000000000") + dcs, np.uint8)
    with pytest.raises(BadSample, match="a DC outside"):
        read_tile(tile, [5])  # the last is 4 · 16383, at 16 bits -4


@pytest.mark.parametrize(
    "data",
    [
        wide((65535, 65535)) + bytes(1 << 12),
        wide((65535, 65535), 1) + bytes(1 << 12),
        # The lists of one row fit; blocks would take 128 bytes each.
        wide((65535, 8)) + bytes(4 + 2 * 512) + bytes(16),
        wide((8, 65535)) + bytes(6 * 8192) + bytes(16),
    ],
    ids=["large", "small tiles", "one row", "one column"],
)
def test_a_header_that_lies_takes_no_memory(data: bytes) -> None:
    tracemalloc.start()
    with pytest.raises(BadSample):
        parse(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def outcome(data: bytes) -> str:
    try:
        record = parse(data)
    except BadSample as error:
        return "refused" if str(error) else "refused without a reason"
    assert sum(part.nbytes for part in record.coefficients) <= 128 * len(data)
    return "read"


def fuzz(seeds: range) -> None:
    sizes = [(1, 1), (17, 33), (40, 16)]
    good = [pack(made(form, size, density=0.05)) for form in FORMS for size in sizes]
    became = [outcome(mutate(good[seed % len(good)], seed)) for seed in seeds]
    assert set(became) == {"read", "refused"}
    assert became.count("read") > len(seeds) / 20
    assert became.count("refused") > len(seeds) / 2


def test_mutated_records() -> None:
    fuzz(range(5000))


@pytest.mark.long
def test_very_many_mutated_records() -> None:
    fuzz(range(10_000, 110_000))


def test_a_record_that_is_cut_anywhere_is_refused() -> None:
    data = pack(made(FORMS[-1], (33, 17)))
    assert {outcome(data[:end]) for end in range(len(data))} == {"refused"}
    assert outcome(data) == "read"


def test_the_fixed_part_has_24_bytes() -> None:
    assert FIXED.size == 24
