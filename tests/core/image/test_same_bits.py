"""The kernel gives the reference's bits, whatever the file, the view and the processor."""

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from ddlp.core.errors import BadSample
from ddlp.core.image import Backend, Crops, Kind, Levels, Pixels, Span
from tests.core.image.corpus import KINDS, SIZES, Encoder, picture
from tests.core.image.corpus import Kind as Way

LEVELS = Levels(
    np.asarray([0.017, 0.0175, 0.0174], np.float32), np.asarray([-2.1, -2.0, -1.8], np.float32)
)


def shown(engine: Backend, data: bytes, across: Span, down: Span, reduced: bool = False) -> Pixels:
    slot = np.full((down.size, across.size, 3), 7, dtype=np.uint8)
    render = engine.render_reduced_jpeg if reduced else engine.render_jpeg
    head = engine.walk(data)
    render(data, (head.width, head.height), across, down, slot, None)
    return slot


def crop(left: int, width: int, size: int) -> Span:
    return Span(left, width, left, left + width, size)


def edges(length: int) -> Iterator[tuple[int, int]]:
    """Crops that touch the beginning, the end, both and neither, down to one pixel."""
    yield 0, length
    yield 0, 1
    yield length - 1, 1
    if length > 2:
        yield 0, length // 2
        yield length // 2, length - length // 2
        yield length // 3, max(1, length // 4)


@pytest.mark.parametrize("way", KINDS, ids=str)
def test_every_kind_of_file_at_every_edge(
    fused: Backend, reference: Backend, encoder: Encoder, variant: str, way: Way
) -> None:
    for width, height in SIZES:
        data = encoder.encode(way, width, height)
        assert fused.walk(data) == reference.walk(data)
        for left, wide in edges(width):
            for top, high in edges(height):
                across, down = crop(left, wide, 24), crop(top, high, 20)
                np.testing.assert_array_equal(
                    shown(fused, data, across, down),
                    shown(reference, data, across, down),
                    err_msg=f"{width}×{height}, {wide}×{high} at {left},{top}",
                )


@pytest.mark.parametrize("way", KINDS, ids=str)
def test_the_same_with_a_reduction_by_the_dct(
    fused: Backend, reference: Backend, encoder: Encoder, way: Way
) -> None:
    for width, height in [(97, 61), (160, 121), (333, 250)]:
        data = encoder.encode(way, width, height)
        for size in (3, 11, 30, 70):
            for left, wide in edges(width):
                across, down = crop(left, wide, size), crop(0, height, size)
                np.testing.assert_array_equal(
                    shown(fused, data, across, down, reduced=True),
                    shown(reference, data, across, down, reduced=True),
                )


def test_every_crop_of_a_small_picture(
    fused: Backend, reference: Backend, encoder: Encoder
) -> None:
    """The upsampling of chroma must not notice where the crop begins or ends."""
    width, height = 37, 35
    for way in KINDS[:5]:
        data = encoder.encode(way, width, height)
        whole = shown(reference, data, crop(0, width, width), crop(0, height, height))
        for left in range(width):
            for wide in (1, 2, 5, width - left):
                if left + wide > width:
                    continue
                top, high = left % height, min(4, height - left % height)
                np.testing.assert_array_equal(
                    shown(fused, data, crop(left, wide, wide), crop(top, high, high)),
                    whole[top : top + high, left : left + wide],
                )


@settings(max_examples=150, deadline=None)
@given(draw=st.data())
def test_any_view_of_pixels(fused: Backend, reference: Backend, draw: st.DataObject) -> None:
    width, height = draw.draw(st.integers(1, 90)), draw.draw(st.integers(1, 90))

    def span(length: int) -> Span:
        low = draw.draw(st.integers(0, length - 1))
        high = draw.draw(st.integers(low + 1, length))
        start = draw.draw(st.floats(0, length - 0.02))
        extent = draw.draw(st.floats(0.01, length - start))
        return Span(start, extent, low, high, draw.draw(st.integers(1, 70)))

    pixels = picture(width, height)
    across, down = span(width), span(height)
    for levels, dtype in ((None, np.uint8), (LEVELS, np.float32)):
        slots = np.zeros((2, down.size, across.size, 3), dtype=dtype)
        for engine, slot in zip((fused, reference), slots, strict=True):
            engine.render_pixels(pixels, across, down, slot, levels)
        np.testing.assert_array_equal(slots[0], slots[1])


@pytest.mark.parametrize("levels", [None, LEVELS], ids=["uint8", "float32"])
@pytest.mark.parametrize("turn", range(8))
def test_mirrored_and_turned_slots(
    fused: Backend, reference: Backend, encoder: Encoder, turn: int, levels: Levels | None
) -> None:
    data = encoder.encode(KINDS[2], 97, 61)
    made = []
    for engine in (fused, reference):
        memory = np.zeros((30, 30, 3), np.uint8 if levels is None else np.float32)
        slot = memory[2:28, 3:27]
        slot = slot.transpose(1, 0, 2) if turn & 1 else slot
        slot = slot[::-1] if turn & 2 else slot
        slot = slot[:, ::-1] if turn & 4 else slot
        down, across = (crop(5, 50, size) for size in slot.shape[:2])
        engine.render_jpeg(data, (97, 61), across, down, slot, levels)
        made.append(memory)
    np.testing.assert_array_equal(made[0], made[1])
    assert not made[0][:2].any()


@pytest.mark.parametrize("size", [(11, 9), (224, 224), (40, 700)])
def test_within_one_level_of_pillow(
    fused: Backend, encoder: Encoder, size: tuple[int, int]
) -> None:
    """Up and down, moderately and by a lot, over pictures and noise."""
    for way in (KINDS[0], KINDS[2], KINDS[-5]):
        data = encoder.encode(way, 160, 121, quality=95)
        image = Image.open(io.BytesIO(data)).convert("RGB")
        for box in ((0, 0, 160, 121), (13, 17, 101, 44)):
            wanted = np.asarray(image.crop(box).resize(size, Image.Resampling.BILINEAR))
            across = crop(box[0], box[2] - box[0], size[0])
            got = shown(fused, data, across, crop(box[1], box[3] - box[1], size[1]))
            assert np.abs(got.astype(int) - wanted).max() <= 1


def test_a_large_reduction_is_within_one_level_of_pillow(fused: Backend) -> None:
    noise = np.random.default_rng(5).integers(0, 256, (1500, 2100, 3), dtype=np.uint8)
    for flat in (noise, np.full_like(noise, 8), np.full_like(noise, 255)):
        wanted = np.asarray(Image.fromarray(flat).resize((23, 17), Image.Resampling.BILINEAR))
        slot = np.empty((17, 23, 3), dtype=np.uint8)
        fused.render_pixels(flat, crop(0, 2100, 23), crop(0, 1500, 17), slot, None)
        assert np.abs(slot.astype(int) - wanted).max() <= 1


@settings(max_examples=100, deadline=None)
@given(draw=st.data())
def test_cuts_out_of_arrays(fused: Backend, reference: Backend, draw: st.DataObject) -> None:
    height, width, count = (draw.draw(st.integers(1, 12)) for _ in range(3))
    pixels = np.random.default_rng(1).integers(1, 256, (5, height, width, 3), dtype=np.uint8)
    size = draw.draw(st.tuples(st.integers(1, 20), st.integers(1, 20)))

    def column(low: int, high: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        values = draw.draw(st.lists(st.integers(low, high), min_size=count, max_size=count))
        return np.asarray(values, dtype=np.int64)

    crops = Crops(column(0, 4), column(-25, 25), column(-25, 25), column(0, 1).astype(np.bool_))
    for levels, dtype in ((None, np.uint8), (LEVELS, np.float32)):
        slots = np.full((2, count, *size, 3), 9, dtype=dtype)
        fused.cut(pixels, crops, slots[0], levels)
        reference.cut(pixels, crops, slots[1], levels)
        np.testing.assert_array_equal(slots[0], slots[1])


@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_the_numbers_drawn(fused: Backend, reference: Backend, count: int) -> None:
    samples = np.asarray([0, 1, 2, 77, 2**31, 2**40 + 5, 2**62], dtype=np.int64)
    key = (0xFFFFFFFF, 12345)
    for epoch in (0, 3, 2**32 + 1):
        drawn = fused.uniforms(key, epoch, samples, count)
        np.testing.assert_array_equal(drawn, reference.uniforms(key, epoch, samples, count))


@pytest.mark.parametrize("count", [2, 3, 64, 65, 5000, 10**9, 2**40 + 1])
def test_the_order_of_an_epoch(fused: Backend, reference: Backend, count: int) -> None:
    keys = np.random.default_rng(count).integers(0, 2**64, 10, dtype=np.uint64)
    first = np.arange(min(count, 700), dtype=np.uint64)
    for places in (first, np.uint64(count) - np.uint64(1) - first):
        led = fused.permuted(places, keys, count)
        np.testing.assert_array_equal(led, reference.permuted(places, keys, count))
        assert len(set(led.tolist())) == len(places)
        assert int(led.max()) < count


def test_other_codings_are_left_to_pillow_by_both(
    fused: Backend, reference: Backend, encoder: Encoder
) -> None:
    data = encoder.encode(Way(3, "ycc", "1x1,1x1,1x1", "arithmetic"), 40, 30)
    assert fused.walk(data) == reference.walk(data)
    assert fused.walk(data).kind is Kind.OTHER
    with pytest.raises(BadSample):
        shown(fused, data, crop(0, 40, 8), crop(0, 30, 8))


@pytest.mark.parametrize(
    "shape", [(0, 3), (1, 3), (7, 3), (8, 3), (9, 3), (2, 5, 7, 3), (3, 61, 97, 3)]
)
def test_the_floats_of_a_whole_batch(
    fused: Backend, reference: Backend, variant: str, shape: tuple[int, ...]
) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, shape, dtype=np.uint8)
    made = np.full((2, *shape), 9, np.float32)
    fused.floats(pixels, LEVELS, made[0])
    reference.floats(pixels, LEVELS, made[1])
    assert made[0].tobytes() == made[1].tobytes()


def test_the_floats_of_more_pixels_than_are_taken_at_a_time(
    fused: Backend, reference: Backend
) -> None:
    """Both take a stretch at a time; the seams must not show."""
    pixels = np.random.default_rng(4).integers(0, 256, (9_000_001, 3), dtype=np.uint8)
    made = np.empty(pixels.shape, np.float32)
    expected = np.empty(pixels.shape, np.float32)
    fused.floats(pixels, LEVELS, made)
    reference.floats(pixels, LEVELS, expected)
    assert np.array_equal(made, expected)


@pytest.mark.parametrize("size", [(17, 13), (64, 64)])
def test_late_floats_are_those_that_a_slot_gets_early(
    fused: Backend, reference: Backend, size: tuple[int, int]
) -> None:
    width, height = size
    pixels = picture(40, 50)
    across, down = crop(0, 40, width), crop(0, 50, height)
    levels = np.empty((height, width, 3), np.uint8)
    early, late = np.empty((2, height, width, 3), np.float32)
    fused.render_pixels(pixels, across, down, early, LEVELS)
    fused.render_pixels(pixels, across, down, levels, None)
    for engine in (fused, reference):
        engine.floats(levels, LEVELS, late)
        np.testing.assert_array_equal(late, early)


@pytest.mark.parametrize("engine", ["fused", "reference"])
def test_floats_refuse_what_does_not_fit(engine: str, request: pytest.FixtureRequest) -> None:
    backend: Backend = request.getfixturevalue(engine)
    pixels, out = np.zeros((4, 3), np.uint8), np.zeros((4, 3), np.float32)
    read_only = out.copy()
    read_only.flags.writeable = False
    wrong: list[tuple[Any, Any]] = [
        (pixels, out[:3]),
        (pixels.astype(np.int16), out),
        (pixels, out.astype(np.float64)),
        (np.zeros((3, 4), np.uint8), np.zeros((3, 4), np.float32)),
        (np.zeros((8, 3), np.uint8)[::2], out),
        (pixels, np.zeros((8, 3), np.float32)[::2]),
        (pixels, read_only),
    ]
    for bad_pixels, bad_out in wrong:
        with pytest.raises(TypeError):
            backend.floats(bad_pixels, LEVELS, bad_out)
