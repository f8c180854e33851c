"""The JPEG of a record: libjpeg reads the record's coefficients from it, Pillow the same pixels."""

import io
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from ddlp.core.errors import BadSample
from ddlp.core.image import equivalent, pillow
from ddlp.core.image.equivalent import jpeg_of, kept_segments
from ddlp.core.image.jpeg import walk
from ddlp.core.image.record import Colour, Record, parse
from tests.core.image.coefficients import CoefficientReader
from tests.core.image.corpus import SAMPLINGS, SIZES, Encoder, Kind
from tests.core.image.mutations import mutate
from tests.core.image.plain_packer import pack
from tests.core.image.test_record import FORMS, assert_same, made

TAKEN = ("4:4:4", "4:2:2", "4:2:0", "4:4:0")
KINDS = [
    *(Kind(3, "ycc", SAMPLINGS[sampling]) for sampling in TAKEN),
    *(Kind(3, "ycc", SAMPLINGS[sampling], "progressive") for sampling in TAKEN),
    Kind(3, "ycc", SAMPLINGS["4:2:0"], restart=3),
    Kind(3, "rgb", SAMPLINGS["4:4:4"]),
    Kind(3, "rgb", SAMPLINGS["4:4:4"], "progressive"),
    Kind(1, "grey", "1x1"),
    Kind(1, "grey", "2x2"),
    Kind(1, "grey", "1x1", "progressive"),
]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return Encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> CoefficientReader:
    return CoefficientReader(tmp_path_factory.mktemp("reader"))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_pixels_are_those_of_the_original(
    encoder: Encoder, reader: CoefficientReader, kind: Kind, size: tuple[int, int]
) -> None:
    original = encoder.encode(kind, *size)
    record = parse(pack(reader.read(original)))
    again = jpeg_of(record)
    np.testing.assert_array_equal(pillow.decode(again), pillow.decode(original))
    assert_same(reader.read(again), record)


@given(
    form=st.sampled_from(FORMS),
    size=st.tuples(st.integers(1, 60), st.integers(1, 40)),
    seed=st.integers(0, 2**32),
    density=st.sampled_from([0.0, 0.01, 0.04, 0.2, 1.0]),
    extremes=st.lists(st.integers(-1023, 1023), min_size=1, max_size=6),
)
@settings(deadline=None, max_examples=60)
def test_every_coefficient_of_a_baseline_file_can_be_written(
    reader: CoefficientReader,
    form: tuple[Colour, tuple[int, int]],
    size: tuple[int, int],
    seed: int,
    density: float,
    extremes: list[int],
) -> None:
    record = made(form, size, seed, density, [*extremes, 1023, -1023])
    for part in record.coefficients:
        part[..., 0] //= 2  # so that no two differ by more than 2047
    assert_same(used(reader.read(jpeg_of(replace(record, head=b"")))), used(record))


def used(record: Record) -> Record:
    """Without a head, and with one table for each component."""
    tables = record.tables[list(record.uses)]
    return replace(record, head=b"", tables=tables, uses=tuple(range(record.components)))


def test_every_run_of_zeros_and_every_size_has_a_code(reader: CoefficientReader) -> None:
    """All 63 places alone in a block, with the least and the largest of each size."""
    sizes = [value for bits in range(1, 11) for value in (1 << (bits - 1), (1 << bits) - 1)]
    values = np.zeros((63, 2 * len(sizes), 64), dtype=np.int16)
    for place in range(1, 64):
        values[place - 1, :, place] = sizes + [-size for size in sizes]
    blank = made((Colour.RGB, (1, 1)), (values.shape[1] * 8, values.shape[0] * 8))
    record = replace(blank, head=b"", coefficients=(values, values[::-1], values))
    assert_same(used(reader.read(jpeg_of(record))), used(record))


def steps(*dcs: int) -> Record:
    """A grey record of blocks with these DCs."""
    values = np.zeros((1, len(dcs), 64), dtype=np.int16)
    values[0, :, 0] = dcs
    table = np.ones((1, 64), dtype=np.uint16)
    return Record(8 * len(dcs), 8, Colour.GREY, (1, 1), table, (0,), b"", (values,))


@pytest.mark.parametrize("dcs", [(2047, 0, -2047), (-2047, 0), (-1024, 1023)])
def test_a_dc_may_differ_by_2047(reader: CoefficientReader, dcs: tuple[int, ...]) -> None:
    assert_same(reader.read(jpeg_of(steps(*dcs))), steps(*dcs))


@pytest.mark.parametrize("dcs", [(-2048,), (0, -2048), (1024, -1024)])
def test_a_dc_that_differs_by_more_is_refused(dcs: tuple[int, ...]) -> None:
    with pytest.raises(BadSample, match="too large for a baseline JPEG"):
        jpeg_of(steps(*dcs))


@pytest.mark.parametrize("value", [1024, -1024, 32767, -32768])
def test_a_coefficient_beyond_1023_is_refused(value: int) -> None:
    record = steps(1, 2, 3)
    record.coefficients[0][0, 2, 63] = value
    with pytest.raises(BadSample, match="too large for a baseline JPEG"):
        jpeg_of(record)


def test_tables_of_sixteen_bits_and_three_of_them(reader: CoefficientReader) -> None:
    tables = np.array([np.arange(64) + 1, np.arange(64) * 1000 + 1, np.full(64, 65535)])
    record = made(FORMS[-1], (20, 20), density=0.02, extremes=[1, -1])
    record = replace(record, head=b"", tables=tables.astype(np.uint16), uses=(2, 0, 1))
    for part in record.coefficients:
        part[..., 0] = 0
    assert_same(used(reader.read(jpeg_of(record))), used(record))


def test_the_stretch_of_blocks_coded_at_a_time_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record = replace(made(FORMS[-1], (97, 61), extremes=[1, -5]), head=b"")
    for part in record.coefficients:
        part[..., 0] //= 2
    whole = jpeg_of(record)
    monkeypatch.setattr(equivalent, "_STRETCH", 7)
    assert jpeg_of(record) == whole


def segments(jpeg: bytes) -> list[tuple[int, bytes]]:
    return list(kept_segments(jpeg[: jpeg.index(b"\xff\xda")]))


def segment(marker: int, body: bytes) -> bytes:
    return bytes([0xFF, marker]) + (len(body) + 2).to_bytes(2, "big") + body


JFIF = segment(0xE0, b"JFIF\0\1\2\1\0\x48\0\x48\0\0")
ADOBE = segment(0xEE, b"Adobe\0\x64\0\0\0\0\1")
MORE_PICTURES = segment(0xE2, b"MPF\0 and where they lie")
ICC = segment(0xE2, b"ICC_PROFILE\0\1\1 and a profile")
COMMENT = segment(0xFE, b"by hand")
TABLE = segment(0xDB, bytes(65))
HEAD = b"\xff\xd8" + JFIF + ADOBE + TABLE + MORE_PICTURES + ICC + COMMENT


def test_without_a_head_it_is_a_jfif_file() -> None:
    assert segments(jpeg_of(steps(1))) == [(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0")]


def test_of_a_head_the_segments_of_applications_and_comments_are_copied() -> None:
    copied = segments(jpeg_of(replace(steps(1), head=HEAD)))
    assert b"\xff\xd8" + b"".join(segment(*each) for each in copied) == (
        b"\xff\xd8" + JFIF + ICC + COMMENT
    )


@pytest.mark.parametrize("head", [b"", HEAD, b"\xff\xd8" + JFIF, b"\xff\xd8" + ADOBE + COMMENT])
def test_the_colour_is_the_record_s_whatever_the_head_says(
    reader: CoefficientReader, head: bytes
) -> None:
    for form in FORMS:
        record = made(form, (9, 9), extremes=[1, -1])
        for part in record.coefficients:
            part[..., 0] //= 2
        again = jpeg_of(replace(record, head=head))
        assert reader.read(again).colour is form[0]
        assert pillow.decode(again).shape == (9, 9, 3)


def test_exif_and_its_orientation_are_kept(reader: CoefficientReader) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    file = io.BytesIO()
    picture = Image.new("RGB", (20, 10), "teal")
    picture.save(file, "JPEG", exif=exif, icc_profile=b"a profile", comment=b"a comment")
    original = file.getvalue()
    head = original[: original.index(b"\xff\xda")]
    again = jpeg_of(reader.read(original, head))
    assert walk(again) == walk(original)
    with Image.open(io.BytesIO(again)) as image:
        assert image.getexif()[0x0112] == 6
        assert image.info["icc_profile"] == b"a profile"
        assert image.info["comment"] == b"a comment"


def test_stray_and_filling_bytes_in_a_head_are_passed_over() -> None:
    head = b"\xff\xd8\xff\xff" + COMMENT[1:] + b"\1\xff\0\2\xff\xd3" + b"\xff" + ICC + b"\xff"
    assert [marker for marker, _ in kept_segments(head)] == [0xFE, 0xE2]


@pytest.mark.parametrize(
    "damaged",
    [COMMENT[:-1], b"\xff\xe1\0\1", b"\xff\xe1\0", b"\xff\xe1"],
    ids=["cut", "too short a segment", "half a length", "no length"],
)
def test_what_follows_a_damaged_segment_of_a_head_is_not_copied(damaged: bytes) -> None:
    assert segments(jpeg_of(replace(steps(1), head=HEAD[: -len(COMMENT)] + damaged))) == [
        (JFIF[1], JFIF[4:]),
        (ICC[1], ICC[4:]),
    ]


def test_mutated_records_become_jpegs_or_are_refused(
    encoder: Encoder, reader: CoefficientReader
) -> None:
    """Whatever a record can hold, its JPEG is one that a decoder takes."""
    good = []
    for kind in KINDS[::2]:
        original = encoder.encode(kind, 33, 17, 20)
        good.append(pack(reader.read(original, original[: original.index(b"\xff\xda")])))
    decoded = 0
    for seed in range(3000):
        try:
            record = parse(mutate(good[seed % len(good)], seed))
            again = jpeg_of(record)
        except BadSample:
            continue
        assert pillow.decode(again).shape == (record.height, record.width, 3)
        decoded += 1
    assert decoded > 100
