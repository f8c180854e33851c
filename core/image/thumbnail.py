"""Makes a small JPEG of a sample, in a process of its own: `python -m ddlp.core.image.thumbnail`.

The arguments are the number of the process that it ends with, an index and a sample's number; the
picture goes to standard output. It is meant for files that a decoder may choke on, so what is there
of a truncated file is shown, and memory and time are bounded; where nothing can be shown, the
status is not 0.
"""

import io
import resource
import sys
from pathlib import Path

from PIL import Image, ImageFile, ImageOps

from ddlp.core.dataset import DatasetIndex
from ddlp.core.dataset.encoded import image_file
from ddlp.core.image.pillow import to_8_bits
from ddlp.core.process import die_with_parent

SIDE = 96
MEMORY_BYTES = 2 << 30
_SECONDS = 10


def thumbnail(data: bytes) -> bytes:
    """A JPEG of at most 96 pixels a side."""
    with Image.open(io.BytesIO(data)) as image:
        image.draft("RGB", (SIDE * 2, SIDE * 2))
        shown = to_8_bits(image)
        upright = ImageOps.exif_transpose(shown) or shown
        small = upright.convert("RGB")
    small.thumbnail((SIDE, SIDE))
    made = io.BytesIO()
    small.save(made, "JPEG", quality=80)
    return made.getvalue()


def encoded(index: DatasetIndex, sample: int) -> bytes:
    """A sample as an image file, however it is stored."""
    row, _ = index.row(sample)
    return image_file(row, index.read(sample))


def main() -> None:
    """Bound this process, and do it."""
    parent, index_path, sample = sys.argv[1:]
    die_with_parent(int(parent))
    ImageFile.LOAD_TRUNCATED_IMAGES = True  # for the whole process, which is why it has its own
    # Not RLIMIT_AS: the index and the pixels of a large dataset are mapped, and cost nothing.
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    try:
        made = thumbnail(encoded(DatasetIndex(Path(index_path)), int(sample)))
    except Exception as error:  # the border to the decoder, which raises whatever it likes
        sys.exit(f"{type(error).__name__}: {error}")
    sys.stdout.buffer.write(made)


if __name__ == "__main__":
    main()
