"""Makes many thumbnails in one process: `python -m ddlp.core.image.thumbnails`.

The arguments are the number of the process that it ends with, an index, and samples' numbers. For
each sample in turn a frame goes to standard output: its number, whether a picture was made, a
length, and so many bytes of JPEG or of a reason. Each is sent at once, so that after a crash it is
known which sample came next.
"""

import resource
import struct
import sys
from pathlib import Path

from PIL import ImageFile

from ddlp.core.dataset import DatasetIndex
from ddlp.core.image import thumbnail
from ddlp.core.process import die_with_parent, own_stdout

FRAME = struct.Struct("<Q?I")
_SECONDS = 20


def parse(answer: bytes) -> dict[int, bytes | str]:
    """The pictures of an answer, or why there is none; a frame that was cut off is left out."""
    found: dict[int, bytes | str] = {}
    at = 0
    while at + FRAME.size <= len(answer):
        sample, made, length = FRAME.unpack_from(answer, at)
        at += FRAME.size + length
        if at > len(answer):
            break
        data = answer[at - length : at]
        found[sample] = data if made else data.decode(errors="replace")
    return found


def main() -> None:
    """Bound this process, and make them."""
    parent, index_path, *samples = sys.argv[1:]
    die_with_parent(int(parent))
    ImageFile.LOAD_TRUNCATED_IMAGES = True  # for the whole process, which is why it has its own
    # Not RLIMIT_AS: the index and the pixels of a large dataset are mapped, and cost nothing.
    memory = thumbnail.MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    with own_stdout() as channel:
        index = DatasetIndex(Path(index_path))
        for sample in map(int, samples):
            made, data = _made(index, sample)
            channel.write(FRAME.pack(sample, made, len(data)) + data)
            channel.flush()


def _made(index: DatasetIndex, sample: int) -> tuple[bool, bytes]:
    try:
        return True, thumbnail.thumbnail(thumbnail.encoded(index, sample))
    except Exception as error:  # the border to the decoder, which raises whatever it likes
        return False, f"{type(error).__name__}: {error}".encode()


if __name__ == "__main__":
    main()
