"""Makes a small JPEG of an image, in a process of its own: `python -m ddlp.core.image.thumbnail`.

The encoded bytes come on standard input, the picture goes to standard output. It is meant for files
that a decoder may choke on, so what is there of a truncated file is shown, and memory and time are
bounded; where nothing can be shown, the status is not 0.
"""

import io
import resource
import sys

from PIL import Image, ImageFile, ImageOps

SIDE = 96
_MEMORY_BYTES = 2 << 30
_SECONDS = 10


def thumbnail(data: bytes) -> bytes:
    """A JPEG of at most 96 pixels a side."""
    with Image.open(io.BytesIO(data)) as image:
        image.draft("RGB", (SIDE * 2, SIDE * 2))
        upright = ImageOps.exif_transpose(image) or image
        small = upright.convert("RGB")
    small.thumbnail((SIDE, SIDE))
    made = io.BytesIO()
    small.save(made, "JPEG", quality=80)
    return made.getvalue()


def main() -> None:
    """Bound this process, and do it."""
    ImageFile.LOAD_TRUNCATED_IMAGES = True  # for the whole process, which is why it has its own
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    try:
        made = thumbnail(sys.stdin.buffer.read())
    except Exception as error:  # the border to the decoder, which raises whatever it likes
        sys.exit(f"{type(error).__name__}: {error}")
    sys.stdout.buffer.write(made)


if __name__ == "__main__":
    main()
