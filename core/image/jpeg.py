"""Decides what a whole JPEG file is, by a walk over its markers from the first to the end of image.

Both engines take a file only if this walk accepts it, so that they agree on which files are damaged
even where one of them would never read the damaged part: a decoder that cuts out the upper left
corner does not notice that the lower right one is missing. The same walk stands in C in
`c/jpeg_walk.c`; a test compares them.
"""

from ddlp.core.errors import BadSample
from ddlp.core.image.head import ImageHead, Kind

MAX_SCANS = 256
"""More scans than any encoder writes: a file that has them is made to waste time."""

_SOF0, _SOI, _EOI, _SOS, _APP1 = 0xC0, 0xD8, 0xD9, 0xDA, 0xE1
_RESTARTS = range(0xD0, 0xD8)
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_HUFFMAN_FRAMES = frozenset({0xC0, 0xC1, 0xC2})
_COMPONENTS = frozenset({1, 3, 4})
TRUNCATED = "the file ends in the middle of the image"


def is_jpeg(data: bytes) -> bool:
    """Whether bytes begin as a JPEG file does."""
    return data[:3] == b"\xff\xd8\xff"


def walk(data: bytes, whole: bool = True) -> ImageHead | None:
    """The head of a file that is complete; with `whole` unset, up to the first scan only.

    None means that the bytes end before the first scan, which is no fault where more may follow.
    """
    if not is_jpeg(data):
        raise BadSample("it does not begin as a JPEG does")
    try:
        return _walk(data, whole)
    except IndexError as error:
        if not whole:
            return None
        raise BadSample(TRUNCATED) from error


def _walk(data: bytes, whole: bool) -> ImageHead:
    head: ImageHead | None = None
    orientation: int | None = None
    scans, at = 0, 2
    while True:
        marker, at = _next_marker(data, at)
        if marker == _EOI:
            break
        if marker in _RESTARTS:
            continue
        if marker == _SOI:
            raise BadSample("a second image begins inside the first")
        if marker < _SOF0:
            raise BadSample(f"it has a marker 0x{marker:02x}, which is none of a JPEG's")
        segment, at = _segment(data, at)
        if marker in _FRAMES:
            if head is not None:
                raise BadSample("it has two frame headers")
            head = _frame(marker, segment)
        elif marker == _APP1 and orientation is None:
            orientation = exif_orientation(segment)
        elif marker == _SOS:
            scans += 1
            if head is None:
                raise BadSample("its pixels begin before its size is given")
            if scans > MAX_SCANS:
                raise BadSample(f"it has more than {MAX_SCANS} scans")
            if not whole:
                break
            at = _end_of_scan(data, at)
    if head is None or not scans:
        raise BadSample("it holds no pixels")
    return ImageHead(head.kind, head.width, head.height, orientation or 1)


def _next_marker(data: bytes, at: int) -> tuple[int, int]:
    """The next marker's code and the place after it; stray bytes before it are passed over."""
    while True:
        while data[at] != 0xFF:
            at += 1
        while data[at] == 0xFF:
            at += 1
        if data[at] != 0:
            return data[at], at + 1


def _segment(data: bytes, at: int) -> tuple[bytes, int]:
    """A marker's parameters and the place after them."""
    length = data[at] << 8 | data[at + 1]
    if length < 2:
        raise BadSample(f"a segment says that it has {length} bytes")
    data[at + length - 1]  # IndexError where the file ends earlier
    return data[at + 2 : at + length], at + length


def _frame(marker: int, segment: bytes) -> ImageHead:
    if len(segment) < 6 or len(segment) != 6 + 3 * segment[5]:
        raise BadSample("its frame header has the wrong length")
    precision, components = segment[0], segment[5]
    height, width = segment[1] << 8 | segment[2], segment[3] << 8 | segment[4]
    if not width or not height:
        raise BadSample(f"its size is {width} × {height} pixels")
    usual = marker in _HUFFMAN_FRAMES and precision == 8 and components in _COMPONENTS
    return ImageHead(Kind.JPEG if usual else Kind.OTHER, width, height)


def _end_of_scan(data: bytes, at: int) -> int:
    """The place of the first marker after entropy-coded data that is not a restart."""
    while True:
        at = data.find(b"\xff", at)
        if at < 0:
            raise IndexError
        following = data[at + 1]
        if following == 0xFF:
            at += 1
        elif following == 0 or following in _RESTARTS:
            at += 2
        else:
            return at


def exif_orientation(segment: bytes) -> int | None:
    """The orientation in an APP1 segment; None where it is no EXIF, 1 where it says none."""
    if segment[:6] != b"Exif\0\0":
        return None
    tiff = segment[6:]
    if tiff[:4] not in (b"II*\0", b"MM\0*"):
        return 1
    order: str = "little" if tiff[:1] == b"I" else "big"

    def number(at: int, size: int) -> int:
        if at + size > len(tiff):
            raise IndexError
        return int.from_bytes(tiff[at : at + size], order)  # type: ignore[arg-type]

    try:
        directory = number(4, 4)
        for entry in range(number(directory, 2)):
            at = directory + 2 + 12 * entry
            if number(at, 2) == 0x0112:
                value = number(at + 8, 2) if number(at + 2, 2) == 3 else 1
                return value if 1 <= value <= 8 else 1
    except IndexError:
        pass
    return 1
