"""The kernel and the plain Python agree: the same bytes are written, the same records refused.

What is not refused shows the same pixels, whatever no encoder would write.
"""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from ddlp.core.errors import BadSample
from ddlp.core.image import Backend, Pixels, Span
from ddlp.core.image.backend import FilePart
from ddlp.core.image.pillow import decode
from ddlp.core.image.record import Colour, Record
from ddlp.core.image.reference import Reference
from tests.core.image.coefficients import CoefficientReader
from tests.core.image.corpus import SIZES, Encoder, Kind
from tests.core.image.mutations import (
    greedy_end,
    mutate,
    mutate_record,
    mutate_tiles,
    tiles_of,
)
from tests.core.image.plain_packer import pack
from tests.core.image.test_equivalent import KINDS
from tests.core.image.test_record import FORMS, made

SIDE = 8
MOST_PIXELS = 1 << 16
MUTATIONS = (mutate, mutate_record, mutate_tiles)
LARGE_ENOUGH = [size for size in SIZES if size[0] > 4][::2]
"""Chroma of one or two samples across is stretched in another way: the kernel leaves these."""


@pytest.fixture(scope="module")
def kernel() -> Backend:
    try:
        from ddlp.core.image.fused import Fused
    except ImportError as error:
        pytest.skip(f"the kernel was not built: {error}")
    return Fused()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Encoder, CoefficientReader]:
    folder = tmp_path_factory.mktemp("programs")
    return Encoder(folder), CoefficientReader(folder)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_kernel_packs_the_same_bytes(
    kernel: Backend, kind: Kind, programs: tuple[Encoder, CoefficientReader]
) -> None:
    encoder, reader = programs
    for size in LARGE_ENOUGH:
        original = encoder.encode(kind, *size)
        head = original[: original.index(b"\xff\xda")]
        assert kernel.pack_record(original, True) == pack(reader.read(original, head))
        assert kernel.pack_record(original, False) == pack(reader.read(original))


def some_span(random: np.random.Generator, length: int) -> Span:
    """All of an axis, or a part of it."""
    low, high = 0, length
    if random.random() < 0.7:
        low = int(random.integers(0, length))
        high = int(random.integers(low + 1, length + 1))
    return Span(low, high - low, low, high, int(random.integers(1, 2 * SIDE)))


def shown(engine: Backend, data: bytes, seed: int) -> Pixels | None:
    """What some view shows of a record; None where it is refused, for which there is a reason."""
    random = np.random.default_rng([1, seed])
    width, height = (int(side) for side in np.frombuffer(data, "<u4", 2, 8))
    if not 0 < width * height <= MOST_PIXELS:
        width, height = 97, 61
    across, down = some_span(random, width), some_span(random, height)
    slot = np.zeros((down.size, across.size, 3), dtype=np.uint8)
    render = engine.render_record if random.random() < 0.7 else engine.render_reduced_record
    try:
        render(data, (width, height), across, down, slot, None)
    except BadSample as error:
        return None if str(error) else slot
    return slot


def shown_alike(kernel: Backend, data: bytes, seed: int) -> str:
    """What became of a record; fails where the engines disagree."""
    ours, theirs = shown(kernel, data, seed), shown(Reference(), data, seed)
    assert (ours is None) == (theirs is None), seed
    if ours is None:
        return "refused"
    np.testing.assert_array_equal(ours, theirs, err_msg=f"seed {seed}")
    return "shown"


def made_again_alike(kernel: Backend, data: bytes) -> str:
    """The same of the JPEG that it becomes, which either engine writes in another way."""
    jpegs = []
    for engine in (kernel, Reference()):
        try:
            jpegs.append(engine.record_jpeg(data))
        except BadSample:
            continue
    assert len(jpegs) in (0, 2)
    if not jpegs:
        return "no JPEG"
    np.testing.assert_array_equal(*map(decode, jpegs))
    return "a JPEG"


def fuzz(kernel: Backend, good: list[bytes], seeds: range) -> None:
    from ddlp.core.image import _fused

    became: Counter[str] = Counter()
    names = _fused.variants()
    for seed in seeds:
        data = MUTATIONS[seed % 3](good[seed // 3 % len(good)], seed)
        if len(data) < 24:
            continue
        _fused.variant(names[seed % len(names)])
        became[shown_alike(kernel, data, seed)] += 1
        if seed % 4 == 0:
            became[made_again_alike(kernel, data)] += 1
    _fused.variant(None)
    assert min(became[what] for what in ("shown", "refused")) > len(seeds) / 5
    assert min(became[what] for what in ("a JPEG", "no JPEG")) > len(seeds) / 40


@pytest.fixture(scope="module")
def good(kernel: Backend, programs: tuple[Encoder, CoefficientReader]) -> list[bytes]:
    """Records of files, and of coefficients as wild as they may be."""
    encoder, _ = programs
    files = (encoder.encode(kind, *size) for kind in KINDS for size in [(5, 7), (17, 33), (97, 61)])
    found = [kernel.pack_record(file, True) for file in files]
    wild = [made(form, size, density=0.05) for form in FORMS for size in [(1, 1), (140, 40)]]
    return [record for record in found if record is not None] + [pack(record) for record in wild]


def test_mutated_records_are_shown_alike_or_refused_by_both(
    kernel: Backend, good: list[bytes]
) -> None:
    fuzz(kernel, good, range(600))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_very_many_mutated_records_are_shown_alike(kernel: Backend, good: list[bytes]) -> None:
    fuzz(kernel, good, range(1_000_000, 1_060_000))


def flat(dc: int, quantum: int, row: tuple[int, ...] = ()) -> bytes:
    """A grey record of two blocks: one that is flat but for a first row, and one that is not."""
    values = np.zeros((1, 2, 64), dtype=np.int16)
    values[0, :, 0] = dc
    values[0, 0, 1 : 1 + len(row)] = row
    values[0, 1, 9] = 1
    table = np.full((1, 64), quantum, dtype=np.uint16)
    return pack(Record(16, 8, Colour.GREY, (1, 1), table, (0,), b"", (values,)))


@pytest.mark.parametrize("row", [(), (3,), (0, 0, 0, 0, 1023)], ids=str)
@pytest.mark.parametrize("quantum", [1, 8, 9, 17, 33, 255, 8199, 32767])
@pytest.mark.parametrize("dc", [-1024, -1, 1, 1000, 1023])
def test_what_overflows_is_shown_alike(
    kernel: Backend, dc: int, quantum: int, row: tuple[int, ...]
) -> None:
    """Where a block has nothing below its first row libjpeg-turbo wraps, elsewhere it saturates."""
    from ddlp.core.image import _fused

    for name in _fused.variants():
        _fused.variant(name)
        for seed in range(8):
            assert shown_alike(kernel, flat(dc, quantum, row), seed) == "shown"
    _fused.variant(None)


def test_damage_beside_a_view_is_left_alone_by_both(kernel: Backend) -> None:
    """Lists are looked at as a whole, tiles where they are needed."""
    record = pack(made(FORMS[-1], (200, 100), density=0.05))
    begin, _ = tiles_of(record)
    broken = greedy_end(record)
    size = int.from_bytes(record[begin - 2 : begin], "little")
    wrong_list = record[: begin - 2] + (size - 1).to_bytes(2, "little") + record[begin:]
    corner = Span(0, 20, 0, 20, SIDE)
    other = Span(150, 50, 150, 200, SIDE), Span(60, 40, 60, 100, SIDE)
    for engine in (kernel, Reference()):
        slot = np.zeros((SIDE, SIDE, 3), dtype=np.uint8)
        engine.render_record(broken, (200, 100), corner, corner, slot, None)
        with pytest.raises(BadSample):
            engine.render_record(broken, (200, 100), *other, slot, None)
        with pytest.raises(BadSample, match="tiles of row 6 do not add up"):
            engine.render_record(wrong_list, (200, 100), corner, corner, slot, None)


def test_a_record_in_a_file_that_ends_too_soon_is_refused_by_both(
    kernel: Backend, good: list[bytes], tmp_path: Path
) -> None:
    (tmp_path / "record").write_bytes(good[0][:-20])
    whole, slot = Span(0, 5, 0, 5, SIDE), np.zeros((SIDE, SIDE, 3), dtype=np.uint8)
    with (tmp_path / "record").open("rb") as file:
        part = FilePart(file.fileno(), 0, len(good[0]))
        for engine in (kernel, Reference()):
            with pytest.raises(BadSample, match="it ends too soon"):
                engine.render_record(part, (5, 7), whole, whole, slot, None)
            with pytest.raises(BadSample, match="it ends too soon"):
                engine.record_jpeg(part)
