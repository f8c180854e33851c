"""Damaged files: each is decoded or refused with a reason, by both engines alike, and nothing else.

Bits of one file that is damaged are the same too: a batch must not depend on who made it.
"""

import gc
import resource
from pathlib import Path

import numpy as np
import pytest

from ddlp.core.errors import BadSample
from ddlp.core.image import Backend, ImageHead, Kind, Pixels, Span
from ddlp.core.image.jpeg import MAX_SCANS, exif_orientation, walk
from tests.core.image.corpus import KINDS, Encoder
from tests.core.image.mutations import mutate

SIZES = [(17, 33), (97, 61)]
SIDE = 16


@pytest.fixture(scope="module")
def files(encoder: Encoder) -> list[bytes]:
    return [encoder.encode(way, *size) for way in KINDS for size in SIZES]


@pytest.fixture(scope="module")
def good(encoder: Encoder) -> bytes:
    return encoder.encode(KINDS[2], 97, 61)


def head_or_reason(engine: Backend, data: bytes) -> ImageHead | str:
    try:
        return engine.walk(data)
    except BadSample as error:
        return str(error)


def some_view(head: ImageHead, seed: int) -> tuple[Span, Span]:
    random = np.random.default_rng(seed)

    def span(length: int) -> Span:
        extent = int(random.integers(1, length + 1))
        start = int(random.integers(0, length - extent + 1))
        return Span(start, extent, start, start + extent, SIDE)

    return span(head.width), span(head.height)


def shown(engine: Backend, data: bytes, head: ImageHead, seed: int) -> Pixels | None:
    """What a view shows; None where the file is refused, for which there must be a reason."""
    slot = np.zeros((SIDE, SIDE, 3), dtype=np.uint8)
    render = engine.render_jpeg if seed % 4 else engine.render_reduced_jpeg
    try:
        render(data, (head.width, head.height), *some_view(head, seed), slot, None)
    except BadSample as error:
        return None if str(error) else slot
    return slot


def compare(fused: Backend, reference: Backend, data: bytes, seed: int) -> str:
    """What became of a file; fails where the engines disagree."""
    head = head_or_reason(reference, data)
    assert head_or_reason(fused, data) == head, seed
    if isinstance(head, str):
        return "refused"
    if head.kind is not Kind.JPEG or head.width * head.height > 1_000_000:
        return "left to Pillow or too large for a test"
    by_kernel, by_reference = (shown(e, data, head, seed) for e in (fused, reference))
    assert (by_kernel is None) == (by_reference is None), seed
    if by_kernel is None:
        return "refused"
    np.testing.assert_array_equal(by_kernel, by_reference, err_msg=f"seed {seed}")
    return "decoded"


def fuzz(fused: Backend, reference: Backend, files: list[bytes], seeds: range) -> None:
    became = [
        compare(fused, reference, mutate(files[seed % len(files)], seed), seed) for seed in seeds
    ]
    # Both outcomes must occur often, or this would test nothing.
    assert became.count("decoded") > len(seeds) / 5
    assert became.count("refused") > len(seeds) / 5


def test_mutated_files(fused: Backend, reference: Backend, files: list[bytes]) -> None:
    fuzz(fused, reference, files, range(4000))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_very_many_mutated_files(fused: Backend, reference: Backend, files: list[bytes]) -> None:
    fuzz(fused, reference, files, range(10_000, 120_000))


def test_what_is_read_does_not_depend_on_what_was_read_before(
    fused: Backend, good: bytes, encoder: Encoder
) -> None:
    """A file that lacks its tables must not be decoded with those of the file before it."""
    start = good.index(b"\xff\xdb")
    length = int.from_bytes(good[start + 2 : start + 4], "big") + 2
    lacking = good[:start] + good[start + length :]
    head = ImageHead(Kind.JPEG, 97, 61)
    assert shown(fused, good, head, 1) is not None
    assert shown(fused, lacking, head, 1) is None


def test_nothing_is_leaked(fused: Backend, files: list[bytes]) -> None:
    """Refused files leave nothing behind: the second half of many costs no more memory."""

    def go(seeds: range) -> int:
        for seed in seeds:
            data = mutate(files[seed % len(files)], seed)
            head = head_or_reason(fused, data)
            if isinstance(head, ImageHead) and head.width * head.height < 1_000_000:
                shown(fused, data, head, seed)
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    before = go(range(3000))
    assert go(range(3000)) - before < 4 << 20


@pytest.mark.parametrize("cut", [0, 1, 2, 3, 20, 300, 700, -1, -2, -3])
def test_a_truncated_file_is_refused_whatever_is_seen_of_it(
    fused: Backend, reference: Backend, good: bytes, cut: int
) -> None:
    for engine in (fused, reference):
        with pytest.raises(BadSample):
            engine.walk(good[:cut])
        top = Span(0, 8, 0, 8, 8)
        with pytest.raises(BadSample):
            engine.render_jpeg(good[:cut], (97, 61), top, top, np.zeros((8, 8, 3), np.uint8), None)


@pytest.mark.parametrize("size", [(96, 61), (97, 62), (200, 200), (61, 97)])
def test_a_picture_of_another_size_than_expected_is_refused(
    fused: Backend, reference: Backend, good: bytes, size: tuple[int, int]
) -> None:
    top, slot = Span(0, 8, 0, 8, 8), np.zeros((8, 8, 3), np.uint8)
    for engine in (fused, reference):
        for render in (engine.render_jpeg, engine.render_reduced_jpeg):
            with pytest.raises(BadSample, match="it is 97 × 61 pixels, not"):
                render(good, size, top, top, slot, None)


def segment(marker: int, body: bytes) -> bytes:
    return bytes([0xFF, marker]) + (len(body) + 2).to_bytes(2, "big") + body


FRAME = bytes([8, 0, 8, 0, 8, 1, 1, 0x11, 0])
SCAN = segment(0xDA, bytes([1, 1, 0, 0, 63, 0])) + b"\x12\x34"
BEGIN, END = b"\xff\xd8", b"\xff\xd9"
WRONG = {
    "does not begin as": b"GIF89a",
    "two frame headers": BEGIN + 2 * segment(0xC0, FRAME) + SCAN + END,
    "wrong length": BEGIN + segment(0xC0, FRAME + b"\0") + SCAN + END,
    "size is 0 × 8": BEGIN + segment(0xC0, FRAME[:3] + b"\0\0" + FRAME[5:]) + SCAN + END,
    "before its size": BEGIN + SCAN + END,
    "holds no pixels": BEGIN + segment(0xC0, FRAME) + END,
    "second image": BEGIN + segment(0xC0, FRAME) + BEGIN + SCAN + END,
    "says that it has 1 bytes": BEGIN + b"\xff\xc4\x00\x01" + END,
    "none of a JPEG's": BEGIN + b"\xff\x01" + segment(0xC0, FRAME) + SCAN + END,
    "middle of the image": BEGIN + segment(0xC0, FRAME) + SCAN,
    f"more than {MAX_SCANS} scans": BEGIN + segment(0xC0, FRAME) + SCAN * (MAX_SCANS + 1) + END,
}


@pytest.mark.parametrize("what", WRONG)
def test_each_mistake_is_named(fused: Backend, reference: Backend, what: str) -> None:
    reasons = {str(head_or_reason(engine, WRONG[what])) for engine in (fused, reference)}
    assert len(reasons) == 1
    assert what in reasons.pop()


def test_stray_bytes_and_fill_bytes_between_segments_are_passed_over(
    fused: Backend, reference: Backend
) -> None:
    data = BEGIN + b"\xff\xff\xff" + segment(0xC0, FRAME)[1:] + b"\x00\x07" + SCAN + END + b"tail"
    for engine in (fused, reference):
        assert engine.walk(data) == ImageHead(Kind.JPEG, 8, 8)


def test_the_head_alone_suffices_up_to_the_first_scan(good: bytes) -> None:
    at = good.index(b"\xff\xda")
    assert walk(good[: at + 20], whole=False) == walk(good)
    assert walk(good[: at - 1], whole=False) is None


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("orientation", range(10))
def test_the_exif_orientation_is_read(
    fused: Backend, reference: Backend, orientation: int, order: str
) -> None:
    def number(value: int, size: int) -> bytes:
        return value.to_bytes(size, order)  # type: ignore[arg-type]

    entry = number(0x0112, 2) + number(3, 2) + number(1, 4) + number(orientation, 2) + b"\0\0"
    other = number(0x0100, 2) + number(4, 2) + number(1, 4) + number(5, 4)
    magic = b"II*\0" if order == "little" else b"MM\0*"
    tiff = magic + number(8, 4) + number(2, 2) + other + entry
    wanted = orientation if 1 <= orientation <= 8 else 1
    for cut in (len(tiff), len(tiff) - 8, 12, 5, 2):
        exif = segment(0xE1, b"Exif\0\0" + tiff[:cut])
        data = BEGIN + exif + segment(0xC0, FRAME) + SCAN + END
        heads = {engine.walk(data) for engine in (fused, reference)}
        assert heads == {ImageHead(Kind.JPEG, 8, 8, wanted if cut == len(tiff) else 1)}
    assert exif_orientation(b"http://ns.adobe.com/xap/1.0/\0") is None
