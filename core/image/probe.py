"""Decides whether a file is an image that can be used, and what is known of it beforehand."""

from ddlp.core.errors import BadSample
from ddlp.core.image import jpeg, pillow
from ddlp.core.image.choice import backend
from ddlp.core.image.head import ImageHead, check_size

_NEEDED_WHOLE = (b"GIF8", b"II*\0", b"MM\0*")
"""GIF and TIFF say only at their end whether they hold more than one picture."""


def probe(data: bytes) -> ImageHead:
    """The head of a whole file; a JPEG is walked to its end, so that a truncated one is found."""
    if not data:
        raise BadSample("it is empty")
    return backend().walk(data) if jpeg.is_jpeg(data) else pillow.pillow_head(data)


def probe_head(data: bytes) -> ImageHead | None:
    """The head from a file's first bytes; None where they do not suffice."""
    if not data:
        raise BadSample("it is empty")
    if jpeg.is_jpeg(data):
        return jpeg.walk(data, whole=False)
    if data.startswith(_NEEDED_WHOLE):
        return None
    try:
        return pillow.pillow_head(data)
    except BadSample:
        return None


def check(data: bytes) -> ImageHead:
    """The head of a file of which every pixel can be decoded."""
    head = probe(data)
    height, width = pillow.decode(data).shape[:2]
    check_size((width, height), (head.width, head.height))
    return head
