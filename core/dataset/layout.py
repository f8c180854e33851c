"""The layout of an index file, shared by the one who writes it and those who map it.

    magic "DDLPIDX2" · u64 length of the JSON head · head · padding to 64 bytes · sections

All numbers are little-endian. The head holds what is small (version, kind, root, classes, counts)
and says where each section lies, in bytes from the end of the padding; every section begins at a
multiple of 64, and the last one ends where the file ends:

    rows          ROW[samples]     all that is known of a sample, side by side: one page a sample
    names         bytes            the names of the samples, one after the other
    files         FILE[files]      the shards or arrays that hold samples; none where each is a file
    file_names    bytes
    class_starts  i64[classes + 1] where each class begins in `members`
    members       i64[samples]     samples by class, ascending within each
    rejected_ends u64[rejected]
    rejected      bytes            of each file left out: its name, a zero, why; UTF-8

A name ends where its `name_end` says and begins where the one before it ends.
"""

import struct
from typing import NamedTuple

import numpy as np

MAGIC = b"DDLPIDX2"
ALIGN = 64

ROW = np.dtype(
    [
        ("name_end", "<u8"),
        ("size", "<u8"),  # encoded bytes
        ("time_ns", "<i8"),  # when its file was changed last; 0 where it lies in one of `files`
        ("place", "<u8"),  # its first byte in a shard, its number in an array
        ("file", "<u4"),  # which of `files` it lies in
        ("label", "<u4"),
        ("width", "<u4"),
        ("height", "<u4"),
        ("kind", "u1"),  # core.image.Kind
        ("orientation", "u1"),  # EXIF, 1 to 8
        ("origin_size", "<u4"),  # encoded bytes before it was packed; 0 where it was not
        ("reserved", "u1", 2),
    ]
)
RECORD = struct.Struct("<QQqQIIIIBBI2x")
"""The same as ROW: where the name ends, then the fields of a SampleRow."""
FILE = np.dtype([("name_end", "<u8"), ("size", "<u8"), ("time_ns", "<i8")])

SECTIONS = {
    "rows": ROW,
    "names": np.dtype("u1"),
    "files": FILE,
    "file_names": np.dtype("u1"),
    "class_starts": np.dtype("<i8"),
    "members": np.dtype("<i8"),
    "rejected_ends": np.dtype("<u8"),
    "rejected": np.dtype("u1"),
}
IDENTITY = ("rows", "names", "files", "file_names")
"""The sections that make up a dataset's version; others follow from them or are no part of it."""


class SampleRow(NamedTuple):
    """A sample's row while it is collected, but for where its name ends."""

    size: int
    time_ns: int
    place: int = 0
    file: int = 0
    label: int = 0
    width: int = 0
    height: int = 0
    kind: int = 0
    orientation: int = 0
    origin_size: int = 0


def padding(length: int) -> int:
    """How many bytes are missing to the next multiple of 64."""
    return -length % ALIGN
