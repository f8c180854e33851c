"""Writes the JPEG that a record stands for: the same coefficients, and so the same pixels.

It is a baseline file in one scan, coded with the tables of the JPEG standard's Annex K. They have a
code for everything that a baseline file can hold, so nothing needs to be counted first. Blocks
beyond the picture's edge, which fill the last MCUs, are written as they are.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ddlp.core.errors import BadSample
from ddlp.core.image.record import Colour, Ints, Record

_MAX_AC = 1023
_MAX_DC_DIFFERENCE = 2047
_STRETCH = 1 << 14
"""Blocks that are coded at a time."""

_SOI, _EOI = b"\xff\xd8", b"\xff\xd9"
_SOF0, _SOF1, _DHT, _SOS, _DQT, _COM = 0xC0, 0xC1, 0xC4, 0xDA, 0xDB, 0xFE
_APP0, _APP2, _APP14, _APP15 = 0xE0, 0xE2, 0xEE, 0xEF
_BARE = frozenset({0x00, 0xFF, *range(0xD0, 0xD8)})
"""What follows 0xff and begins no segment: a stray byte, one that fills, a restart."""
_JFIF = b"JFIF\0" + bytes([1, 1, 0, 0, 1, 0, 1, 0, 0])
_ADOBE_RGB = b"Adobe" + bytes([0, 100, 0, 0, 0, 0, 0])

_AC_LUMA = """
    0002010303020403050504040000017d01020300041105122131410613516107227114328191a1082342b1c11552d1f0
    2433627282090a161718191a25262728292a3435363738393a434445464748494a535455565758595a63646566676869
    6a737475767778797a838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5
    c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9fa"""
_AC_CHROMA = """
    00020102040403040705040400010277000102031104052131061241510761711322328108144291a1b1c109233352f0
    156272d10a162434e125f11718191a262728292a35363738393a434445464748494a535455565758595a636465666768
    696a737475767778797a82838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3
    c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae2e3e4e5e6e7e8e9eaf2f3f4f5f6f7f8f9fa"""
_HUFFMAN = {
    0x00: bytes.fromhex("00010501010101010100000000000000 000102030405060708090a0b"),
    0x01: bytes.fromhex("00030101010101010101010000000000 000102030405060708090a0b"),
    0x10: bytes.fromhex(_AC_LUMA),
    0x11: bytes.fromhex(_AC_CHROMA),
}
"""Annex K: class and number; how many codes there are of 1 to 16 bits; their symbols."""
_END_OF_BLOCK, _SIXTEEN_ZEROS = 0x00, 0xF0


def _zigzag() -> Ints:
    """The natural places in the order of a scan: along the diagonals, there and back."""
    places = [divmod(place, 8) for place in range(64)]
    places.sort(key=lambda at: (sum(at), at[0] if sum(at) % 2 else at[1]))
    return np.array([row * 8 + column for row, column in places])


def _codes() -> tuple[Ints, Ints]:
    """Code and length of each symbol of each table: AC × 512 + number × 256 + symbol."""
    codes, lengths = np.zeros((2, 1024), dtype=np.int64)
    for name, table in _HUFFMAN.items():
        code, symbols = 0, iter(table[16:])
        for length, count in enumerate(table[:16], start=1):
            for _ in range(count):
                at = (name >> 4) * 512 + (name & 1) * 256 + next(symbols)
                codes[at], lengths[at] = code, length
                code += 1
            code <<= 1
    return codes, lengths


_ZIGZAG = _zigzag()
_CODES, _LENGTHS = _codes()
_BIT_LENGTH = np.array([value.bit_length() for value in range(_MAX_DC_DIFFERENCE + 1)])


def jpeg_of(record: Record) -> bytes:
    """A JPEG with the coefficients of a record; BadSample where no baseline file can hold them."""
    blocks, tables = _in_scan_order(record)
    if np.abs(blocks[:, 1:]).max() > _MAX_AC or np.abs(blocks[:, 0]).max() > _MAX_DC_DIFFERENCE:
        raise BadSample("it has coefficients that are too large for a baseline JPEG")
    stretches = range(0, len(blocks), _STRETCH)
    bits = [_bits(blocks[at : at + _STRETCH], tables[at : at + _STRETCH]) for at in stretches]
    bits.append(np.ones(-sum(map(len, bits)) % 8, dtype=np.uint8))
    coded = np.packbits(np.concatenate(bits)).tobytes().replace(b"\xff", b"\xff\0")
    return b"".join([_SOI, *_described(record), *_headers(record), coded, _EOI])


def _segment(marker: int, body: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body


def _described(record: Record) -> Iterator[bytes]:
    """What says how the picture is to be taken: the colour, and what the JPEG itself said.

    Decoders ask JFIF's and Adobe's segments for the colour. The record knows it, so of those that
    it kept, none may contradict it.
    """
    if not record.head and record.colour is not Colour.RGB:
        yield _segment(_APP0, _JFIF)
    for marker, body in kept_segments(record.head):
        jfif = marker == _APP0 and body.startswith(b"JFIF\0")
        adobe = marker == _APP14 and body.startswith(b"Adobe")
        more_pictures = marker == _APP2 and body.startswith(b"MPF\0")  # they were not kept
        if not adobe and not more_pictures and not (jfif and record.colour is Colour.RGB):
            yield _segment(marker, body)
    if record.colour is Colour.RGB:
        yield _segment(_APP14, _ADOBE_RGB)


def kept_segments(head: bytes) -> Iterator[tuple[int, bytes]]:
    """The markers and bodies of what applications and people wrote into a JPEG's head.

    They end where the head does, or at a segment that would reach beyond it: a picture is not
    refused for what was said about it.
    """
    at = head.find(b"\xff", len(_SOI))
    while 0 <= at < len(head) - 1:
        marker = head[at + 1]
        if marker in _BARE:
            at = head.find(b"\xff", at + 1)
            continue
        length = int.from_bytes(head[at + 2 : at + 4], "big")
        end = at + 2 + length
        if length < 2 or end > len(head):
            return
        if _APP0 <= marker <= _APP15 or marker == _COM:
            yield marker, head[at + 4 : end]
        at = head.find(b"\xff", end)


def _headers(record: Record) -> Iterator[bytes]:
    """Tables, frame and scan."""
    wide = bool(record.tables.max() > 0xFF)
    kind = ">u2" if wide else "u1"
    for number, table in enumerate(record.tables):
        body = table[_ZIGZAG].astype(kind).tobytes()
        yield _segment(_DQT, bytes([wide << 4 | number]) + body)
    names = b"RGB" if record.colour is Colour.RGB else bytes([1, 2, 3])
    across, down = record.sampling
    frame = struct.pack(">BHHB", 8, record.height, record.width, record.components)
    scan = bytes([record.components])
    for component, (name, table) in enumerate(zip(names, record.uses, strict=False)):
        frame += bytes([name, 0x11 if component else across << 4 | down, table])
        scan += bytes([name, 0x11 * _huffman_table(record, component)])
    yield _segment(_SOF1 if wide else _SOF0, frame)
    for number, codes in _HUFFMAN.items():
        yield _segment(_DHT, bytes([number]) + codes)
    yield _segment(_SOS, scan + bytes([0, 63, 0]))


def _huffman_table(record: Record, component: int) -> int:
    """0 for what is bright or dark, 1 for colour differences."""
    return int(record.colour is Colour.YCBCR and component > 0)


def _in_scan_order(record: Record) -> tuple[npt.NDArray[np.int32], Ints]:
    """All blocks as a scan has them, zigzag, DCs as differences; and each one's Huffman table."""
    parts: list[npt.NDArray[np.int32]] = []
    tables: list[int] = []
    for values, (across, down) in zip(record.coefficients, record.layout(1).factors, strict=True):
        tables += [_huffman_table(record, len(parts))] * (across * down)
        rows, columns = values.shape[0] // down, values.shape[1] // across
        by_mcu = values.reshape(rows, down, columns, across, 64).swapaxes(1, 2)
        part = by_mcu.reshape(-1, 64)[:, _ZIGZAG].astype(np.int32)
        part[:, 0] = np.diff(part[:, 0], prepend=0)
        parts.append(part.reshape(rows * columns, across * down, 64))
    blocks = np.concatenate(parts, axis=1)
    return blocks.reshape(-1, 64), np.tile(np.array(tables), len(blocks))


@dataclass(frozen=True)
class _Codes:
    """Huffman symbols, and the value that follows each in as many bits as the symbol says."""

    order: Ints
    """256 for each block, and 4 for each place within it."""
    symbols: Ints
    values: Ints
    sizes: Ints


def _bits(blocks: npt.NDArray[np.int32], tables: Ints) -> npt.NDArray[np.uint8]:
    """The bits of some blocks, a byte for each."""
    found = [_dc(blocks), *_ac(blocks), _ends(blocks)]
    order = np.concatenate([codes.order for codes in found])
    symbols = np.concatenate([codes.symbols for codes in found]) + 256 * tables[order >> 8]
    values = np.concatenate([codes.values for codes in found])
    sizes = np.concatenate([codes.sizes for codes in found])
    # A negative value is written one less, so that its first bit is not set.
    words = _CODES[symbols] << sizes | (values - (values < 0)) & ((1 << sizes) - 1)
    place = np.argsort(order, kind="stable")
    words, lengths = words[place], (_LENGTHS[symbols] + sizes)[place]
    word = np.repeat(np.arange(len(words)), lengths)
    shift = np.cumsum(lengths)[word] - 1 - np.arange(len(word))
    bits: Ints = words[word] >> shift & 1
    return bits.astype(np.uint8)


def _dc(blocks: npt.NDArray[np.int32]) -> _Codes:
    values = blocks[:, 0].astype(np.int64)
    sizes = _BIT_LENGTH[np.abs(values)]
    return _Codes(np.arange(len(blocks)) * 256, sizes, values, sizes)


def _ac(blocks: npt.NDArray[np.int32]) -> tuple[_Codes, _Codes]:
    """Those of the coefficients that are not zero, and those of sixteen zeros before one."""
    block, place = np.nonzero(blocks[:, 1:])
    place += 1
    values = blocks[block, place].astype(np.int64)
    before = np.append(0, place[:-1])
    before[np.diff(block, prepend=-1) > 0] = 0  # the first of a block follows its DC
    sixteens, zeros = np.divmod(place - before - 1, 16)
    sizes = _BIT_LENGTH[np.abs(values)]
    order = block * 256 + place * 4
    coefficients = _Codes(order, 512 + (zeros << 4 | sizes), values, sizes)
    return coefficients, _without_value(np.repeat(order - 1, sixteens), _SIXTEEN_ZEROS)


def _ends(blocks: npt.NDArray[np.int32]) -> _Codes:
    """Those of the ends of the blocks that end in zeros."""
    return _without_value(np.flatnonzero(blocks[:, 63] == 0) * 256 + 255, _END_OF_BLOCK)


def _without_value(order: Ints, symbol: int) -> _Codes:
    nothing = np.zeros_like(order)
    return _Codes(order, nothing + 512 + symbol, nothing, nothing)
