"""How tensors of a batch may be compressed on their way; off unless somebody asks for it.

It pays where the way from a drive to its readers is slow: photographs as levels shrink little.
"""

import zlib
from enum import StrEnum
from typing import Any

from ddlp.core.errors import DamagedBatch, Unavailable

_ZLIB_LEVEL = 1
_LZ4_MOST_BYTES = 0x7E00_0000
"""What one block of lz4 may hold."""
MOST_RATIO = 1040
"""No codec here shrinks anything further (zlib 1032 times, lz4 255): what claims more is wrong."""


class Codec(StrEnum):
    """A way to compress; its place in the list is its number in a file."""

    OFF = "off"
    ZLIB = "zlib"
    LZ4 = "lz4"

    @property
    def number(self) -> int:
        """As a batch file has it."""
        return list(Codec).index(self)


def numbered(number: int) -> Codec:
    """A codec by its number in a file."""
    if number >= len(Codec):
        raise DamagedBatch(f"codec {number} is not known to this build")
    return list(Codec)[number]


def check(codec: Codec) -> None:
    """Raise where a codec's package is not installed."""
    if codec is Codec.LZ4:
        _lz4()


def compress(codec: Codec, raw: memoryview) -> bytes:
    """Bytes made smaller; as they are where a codec cannot take so many."""
    if codec is Codec.ZLIB:
        return zlib.compress(raw, _ZLIB_LEVEL)
    if codec is Codec.LZ4 and len(raw) <= _LZ4_MOST_BYTES:
        packed: bytes = _lz4().compress(raw, store_size=False)
        return packed
    return bytes(raw)


def decompress(codec: Codec, packed: memoryview, nbytes: int) -> bytes:
    """The bytes as they were: just so many, whatever is in a file."""
    unpack = _unlz4 if codec is Codec.LZ4 else _unzlib
    try:
        raw = unpack(packed, nbytes)
    except ValueError as error:
        raise DamagedBatch(f"a tensor cannot be decompressed ({error})") from error
    if len(raw) != nbytes:
        raise DamagedBatch(f"a tensor has {len(raw)} bytes once decompressed, not {nbytes}")
    return raw


def _unzlib(packed: memoryview, nbytes: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        raw = stream.decompress(packed, nbytes + 1)  # one more shows whether there is more
    except (zlib.error, OverflowError) as error:
        raise ValueError(error) from error
    if not stream.eof and len(raw) <= nbytes:
        raise ValueError("it has no end")
    return raw


def _unlz4(packed: memoryview, nbytes: int) -> bytes:
    block = _lz4()
    try:
        raw: bytes = block.decompress(packed, uncompressed_size=nbytes)
    except (block.LZ4BlockError, OverflowError) as error:
        raise ValueError(error) from error
    return raw


def _lz4() -> Any:
    try:
        import lz4.block
    except ImportError as error:
        raise Unavailable(
            "lz4 is not installed; install it with: pip install 'ddlp[lz4]', or use zlib"
        ) from error
    return lz4.block
