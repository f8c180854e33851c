"""A record shows the pixels of the JPEG that it was made from, in every variant of the kernel."""

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from ddlp.core.errors import BadSample, InvalidInput
from ddlp.core.image import Backend, Pixels, Span
from tests.core.image.corpus import KINDS, SAMPLINGS, SIZES, Encoder, Kind
from tests.core.image.mutations import mutate, mutate_record
from tests.core.image.test_same_bits import LEVELS, crop, edges

PHOTOS = Path(__file__).parents[4] / "shared/data/photos"
PACKED_SAMPLINGS = {SAMPLINGS[name] for name in ("4:4:4", "4:2:2", "4:2:0", "4:4:0")}


def packed(engine: Backend, data: bytes) -> bytes:
    record = engine.pack_record(data, keep_head=False)
    assert record is not None
    return record


def of_record(
    engine: Backend, record: bytes, size: tuple[int, int], across: Span, down: Span
) -> Pixels:
    slot = np.full((down.size, across.size, 3), 7, dtype=np.uint8)
    engine.render_record(record, size, across, down, slot, None)
    return slot


def of_jpeg(
    engine: Backend, data: bytes, size: tuple[int, int], across: Span, down: Span
) -> Pixels:
    slot = np.full((down.size, across.size, 3), 7, dtype=np.uint8)
    engine.render_jpeg(data, size, across, down, slot, None)
    return slot


def becomes_a_record(way: Kind, width: int) -> bool:
    """Grey, RGB and YCbCr in the usual samplings, but for chroma that is not stretched as usual."""
    if way.components == 1:
        return True
    if way.components != 3 or way.sampling not in PACKED_SAMPLINGS:
        return False
    return not way.sampling.startswith("2") or (width + 1) // 2 > 2


@pytest.mark.parametrize("way", KINDS, ids=str)
def test_every_kind_of_file_at_every_edge(
    fused: Backend, encoder: Encoder, variant: str, way: Kind
) -> None:
    for size in SIZES:
        data = encoder.encode(way, *size)
        record = fused.pack_record(data, keep_head=False)
        assert (record is not None) == becomes_a_record(way, size[0]), size
        if record is None:
            continue
        for left, wide in edges(size[0]):
            for top, high in edges(size[1]):
                view = crop(left, wide, 24), crop(top, high, 20)
                np.testing.assert_array_equal(
                    of_record(fused, record, size, *view),
                    of_jpeg(fused, data, size, *view),
                    err_msg=f"{size}, {wide}×{high} at {left},{top}",
                )


@pytest.mark.parametrize("quality", [1, 30, 100])
def test_every_crop_of_a_small_picture(fused: Backend, encoder: Encoder, quality: int) -> None:
    """Neither the tiles nor the stretching of chroma notices where the crop begins or ends."""
    size = width, height = 149, 83
    for name in ("4:4:4", "4:2:2", "4:2:0", "4:4:0"):
        data = encoder.encode(Kind(3, "ycc", SAMPLINGS[name]), *size, quality)
        record = packed(fused, data)
        whole = of_jpeg(fused, data, size, crop(0, width, width), crop(0, height, height))
        for left in range(width):
            for wide in (1, 2, 40, width - left):
                if left + wide > width:
                    continue
                top, high = left % height, min(5, height - left % height)
                np.testing.assert_array_equal(
                    of_record(fused, record, size, crop(left, wide, wide), crop(top, high, high)),
                    whole[top : top + high, left : left + wide],
                )


@pytest.mark.parametrize("way", KINDS[:12], ids=str)
def test_the_reference_reads_them_too(
    fused: Backend, reference: Backend, encoder: Encoder, way: Kind
) -> None:
    for size in [(17, 33), (97, 61)]:
        record = fused.pack_record(encoder.encode(way, *size), keep_head=False)
        if record is None:
            continue
        view = crop(3, size[0] - 5, 20), crop(2, size[1] - 2, 24)
        np.testing.assert_array_equal(
            of_record(fused, record, size, *view), of_record(reference, record, size, *view)
        )


def reduced_of_record(
    engine: Backend, record: bytes, size: tuple[int, int], across: Span, down: Span
) -> Pixels:
    slot = np.zeros((down.size, across.size, 3), dtype=np.uint8)
    engine.render_reduced_record(record, size, across, down, slot, None)
    return slot


def reduced_of_jpeg(
    engine: Backend, data: bytes, size: tuple[int, int], across: Span, down: Span
) -> Pixels:
    slot = np.full((down.size, across.size, 3), 7, dtype=np.uint8)
    engine.render_reduced_jpeg(data, size, across, down, slot, None)
    return slot


def reduced_edges(length: int, reduction: int) -> Iterator[Span]:
    """Crops at every edge, each as long as the reduction still allows."""
    for left, wide in edges(length):
        wide = min(max(wide, reduction), length)
        yield crop(min(left, length - wide), wide, max(1, wide // reduction))


@pytest.mark.parametrize("way", [way for way in KINDS if becomes_a_record(way, 99)], ids=str)
def test_reduced_by_the_dct(fused: Backend, encoder: Encoder, variant: str, way: Kind) -> None:
    """Also where so little chroma is left that libjpeg repeats it: up to 32 pixels by 8."""
    for size in [*SIZES, (5, 40), (9, 17), (16, 1), (33, 8), (40, 23), (333, 250)]:
        if not becomes_a_record(way, size[0]):
            continue
        data = encoder.encode(way, *size)
        record = packed(fused, data)
        for reduction in (2, 4, 8):
            for across in reduced_edges(size[0], reduction):
                for down in reduced_edges(size[1], reduction):
                    np.testing.assert_array_equal(
                        reduced_of_record(fused, record, size, across, down),
                        reduced_of_jpeg(fused, data, size, across, down),
                        err_msg=f"{size} by {reduction}, {across}, {down}",
                    )


@pytest.mark.parametrize("way", [*KINDS[:4], KINDS[16], KINDS[17]], ids=str)
def test_the_reference_reduces_them_alike(
    fused: Backend, reference: Backend, encoder: Encoder, way: Kind
) -> None:
    for size in [(17, 33), (333, 250)]:
        record = packed(fused, encoder.encode(way, *size))
        for side in (2, 3, 8, 30, 70):
            view = crop(1, size[0] - 4, side), crop(0, size[1], side)
            np.testing.assert_array_equal(
                reduced_of_record(fused, record, size, *view),
                reduced_of_record(reference, record, size, *view),
            )


@pytest.mark.parametrize("reduction", [2, 4, 8])
def test_every_crop_of_a_reduced_picture(
    fused: Backend, encoder: Encoder, variant: str, reduction: int
) -> None:
    """Pixels of the whole reduced picture, wherever the crop begins and ends."""
    wide, high = 43, 21
    size = wide * reduction, high * reduction
    for name in ("4:4:4", "4:2:2", "4:2:0", "4:4:0"):
        data = encoder.encode(Kind(3, "ycc", SAMPLINGS[name]), *size, 30)
        record = packed(fused, data)
        whole = reduced_of_jpeg(fused, data, size, crop(0, size[0], wide), crop(0, size[1], high))
        for left in range(wide):
            for columns in (1, 2, 13, wide - left):
                if left + columns > wide:
                    continue
                top, rows = left % high, min(5, high - left % high)
                across = crop(left * reduction, columns * reduction, columns)
                down = crop(top * reduction, rows * reduction, rows)
                np.testing.assert_array_equal(
                    reduced_of_record(fused, record, size, across, down),
                    whole[top : top + rows, left : left + columns],
                )


def test_reductions_wrap_where_libjpeg_wraps(fused: Backend, variant: str) -> None:
    """A wild quantum of the DC, and blocks of which only the first row counts."""
    y, x = np.mgrid[0:64, 0:64]
    waves = 20 * np.cos((2 * (y % 8) + 1) * np.pi / 4)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        made = io.BytesIO()
        levels = 128 + waves + rng.uniform(-90, 90) + (seed % 2) * 60 * np.sin(x / 5)
        Image.fromarray(levels.clip(0, 255).astype(np.uint8)).save(made, "JPEG", quality=95)
        data = bytearray(made.getvalue())
        data[data.find(b"\xff\xdb") + 5] = 20 + 6 * seed
        record = fused.pack_record(bytes(data), keep_head=False)
        for view in (crop(0, 64, side) for side in (8, 16, 32)):
            if record is None:
                break
            np.testing.assert_array_equal(
                reduced_of_record(fused, record, (64, 64), view, view),
                reduced_of_jpeg(fused, bytes(data), (64, 64), view, view),
            )


@pytest.mark.parametrize("turn", range(8))
def test_mirrored_and_turned_slots(fused: Backend, encoder: Encoder, turn: int) -> None:
    size = (97, 61)
    data = encoder.encode(KINDS[2], *size)
    for levels, dtype in ((None, np.uint8), (LEVELS, np.float32)):
        made = np.zeros((2, 30, 30, 3), dtype)
        for memory, render in zip(made, (fused.render_jpeg, fused.render_record), strict=True):
            slot = memory[2:28, 3:27]
            slot = slot.transpose(1, 0, 2) if turn & 1 else slot
            slot = slot[::-1] if turn & 2 else slot
            slot = slot[:, ::-1] if turn & 4 else slot
            down, across = (crop(5, 50, length) for length in slot.shape[:2])
            encoded = data if render == fused.render_jpeg else packed(fused, data)
            render(encoded, size, across, down, slot, levels)
        np.testing.assert_array_equal(made[0], made[1])
        assert made[0].any()


@settings(max_examples=150, deadline=None)
@given(draw=st.data())
def test_any_view_of_any_picture(fused: Backend, encoder: Encoder, draw: st.DataObject) -> None:
    size = draw.draw(st.tuples(st.integers(5, 300), st.integers(1, 120)))
    name = draw.draw(st.sampled_from(["4:4:4", "4:2:2", "4:2:0", "4:4:0"]))
    coding = draw.draw(st.sampled_from(["baseline", "progressive"]))
    way = Kind(3, "ycc", SAMPLINGS[name], coding, draw.draw(st.integers(0, 3)))
    data = encoder.encode(way, *size, draw.draw(st.integers(1, 100)))

    def span(length: int) -> Span:
        low = draw.draw(st.integers(0, length - 1))
        high = draw.draw(st.integers(low + 1, length))
        start = draw.draw(st.floats(0, length - 0.02))
        extent = draw.draw(st.floats(0.01, length - start))
        return Span(start, extent, low, high, draw.draw(st.integers(1, 70)))

    across, down = span(size[0]), span(size[1])
    record = packed(fused, data)
    np.testing.assert_array_equal(
        of_record(fused, record, size, across, down), of_jpeg(fused, data, size, across, down)
    )
    smaller = draw.draw(st.sampled_from([2, 4, 8, 16]))
    across = replace(across, size=max(1, int(across.extent / smaller)))
    down = replace(down, size=max(1, int(down.extent / smaller)))
    np.testing.assert_array_equal(
        reduced_of_record(fused, record, size, across, down),
        reduced_of_jpeg(fused, data, size, across, down),
    )


def photographs() -> list[Path]:
    return sorted(path for path in PHOTOS.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))


@pytest.mark.skipif(not PHOTOS.is_dir(), reason="the photographs are not at hand")
def test_photographs(fused: Backend, variant: str) -> None:
    """Each at a corner, and a few of them as a whole."""
    for number, path in enumerate(photographs()):
        data = path.read_bytes()
        head = fused.walk(data)
        size = (head.width, head.height)
        record = packed(fused, data)  # compares all pixels in this variant
        side = min(size) // 2
        left, top = number * 7 % (size[0] - side), number * 11 % (size[1] - side)
        view = crop(left, side, 64), crop(top, side, 48)
        np.testing.assert_array_equal(
            of_record(fused, record, size, *view), of_jpeg(fused, data, size, *view)
        )
        view = crop(left, side, side >> 1 + number % 3), crop(top, side, side >> 1 + number % 3)
        np.testing.assert_array_equal(
            reduced_of_record(fused, record, size, *view), reduced_of_jpeg(fused, data, size, *view)
        )


def test_every_variant_packs_the_same_bytes(fused: Backend, encoder: Encoder) -> None:
    from ddlp.core.image import _fused

    data = encoder.encode(KINDS[2], 160, 121)
    made = set()
    for name in _fused.variants():
        _fused.variant(name)
        made.add(packed(fused, data))
    _fused.variant(None)
    assert len(made) == 1


def test_damaged_files_stay_as_they_are(fused: Backend, encoder: Encoder) -> None:
    """What libjpeg warns of or refuses is no record; what it takes shows the same pixels."""
    files = [encoder.encode(way, 97, 61) for way in KINDS]
    became = []
    for seed in range(1500):
        data = mutate(files[seed % len(files)], seed)
        record = fused.pack_record(data, keep_head=True)
        became.append(record is not None)
        if record is None:
            continue
        head = fused.walk(data)
        size = head.width, head.height
        view = crop(0, size[0], 16), crop(0, size[1], 16)
        np.testing.assert_array_equal(
            of_record(fused, record, size, *view), of_jpeg(fused, data, size, *view)
        )
        less = 1 + seed % 3
        view = crop(0, size[0], max(1, size[0] >> less)), crop(0, size[1], max(1, size[1] >> less))
        np.testing.assert_array_equal(
            reduced_of_record(fused, record, size, *view), reduced_of_jpeg(fused, data, size, *view)
        )
    assert 50 < sum(became) < 1400


def test_damaged_records_are_shown_alike_or_refused(fused: Backend, encoder: Encoder) -> None:
    """Wild values too: what wraps and what saturates is the same in every variant."""
    from ddlp.core.image import _fused

    size = (97, 61)
    records = [packed(fused, encoder.encode(way, *size)) for way in KINDS[:4]]
    became = []
    for seed in range(1500):
        record = mutate_record(records[seed % len(records)], seed)
        shown = list(in_every_variant(fused, _fused.variants(), record, size))
        assert all(np.array_equal(other, shown[0]) for other in shown[1:]), seed
        became.append(shown[0].any())
    _fused.variant(None)
    assert 300 < sum(became) < 1400


def in_every_variant(
    fused: Backend, names: list[str], record: bytes, size: tuple[int, int]
) -> Iterator[Pixels]:
    """What each variant shows of a record; black where it refuses it."""
    from ddlp.core.image import _fused

    for name in names:
        _fused.variant(name)
        try:
            shown = of_record(fused, record, size, crop(0, size[0], 40), crop(0, size[1], 30))
            reduced = [
                reduced_of_record(
                    fused, record, size, crop(0, size[0], side), crop(0, size[1], side)
                )
                for side in (7, 15, 30)
            ]
            yield np.concatenate([part.reshape(-1) for part in (shown, *reduced)])
        except BadSample:
            yield np.zeros(1, dtype=np.uint8)


def test_a_record_of_another_size_is_refused(fused: Backend, encoder: Encoder) -> None:
    record = packed(fused, encoder.encode(KINDS[0], 40, 30))
    with pytest.raises(BadSample, match="40 × 30 pixels, not 30 × 40"):
        of_record(fused, record, (30, 40), crop(0, 8, 8), crop(0, 8, 8))


def test_a_view_beyond_the_edge_is_a_mistake(fused: Backend, encoder: Encoder) -> None:
    record = packed(fused, encoder.encode(KINDS[0], 40, 30))
    with pytest.raises(TypeError, match="edge"):
        of_record(fused, record, (40, 30), crop(0, 41, 8), crop(0, 8, 8))


def coefficients_kept(data: bytes) -> tuple[object, Pixels]:
    with Image.open(io.BytesIO(data)) as image:
        return image.quantization, np.asarray(image.convert("RGB"))  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", [*KINDS[:4], KINDS[7], KINDS[16], KINDS[17]], ids=str)
def test_a_record_becomes_an_equivalent_jpeg(fused: Backend, encoder: Encoder, way: Kind) -> None:
    """Packing it again gives the same record: the coefficients are the same."""
    data = encoder.encode(way, 97, 61)
    record = packed(fused, data)
    again = fused.record_jpeg(record)
    assert packed(fused, again) == record
    tables, pixels = coefficients_kept(data)
    assert coefficients_kept(again)[0] == tables
    np.testing.assert_array_equal(coefficients_kept(again)[1], pixels)


def test_a_kept_head_comes_back(fused: Backend) -> None:
    made = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    image = Image.fromarray(np.full((40, 50, 3), 99, np.uint8))
    image.save(made, "JPEG", exif=exif, icc_profile=b"a profile", comment=b"a comment")
    for keep in (True, False):
        record = fused.pack_record(made.getvalue(), keep_head=keep)
        assert record is not None
        with Image.open(io.BytesIO(fused.record_jpeg(record))) as again:
            assert (again.getexif().get(0x0112) == 6) == keep
            assert (again.info.get("icc_profile") == b"a profile") == keep
            assert (again.info.get("comment") == b"a comment") == keep


def test_without_the_kernel_nothing_is_packed(reference: Backend) -> None:
    with pytest.raises(InvalidInput, match="needs the kernel"):
        reference.pack_record(b"", keep_head=False)
