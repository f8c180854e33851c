"""Damages files at random, always in the same way for the same seed."""

import numpy as np


def mutate(data: bytes, seed: int) -> bytes:
    """One to eight changes: bits, bytes, cuts, repeats; half of them in the headers."""
    random = np.random.default_rng(seed)
    changed = bytearray(data)
    for _ in range(int(random.integers(1, 9))):
        if len(changed) < 4:
            break
        reach = min(len(changed), 700) if random.random() < 0.5 else len(changed)
        at = int(random.integers(0, reach))
        _CHANGES[int(random.integers(0, len(_CHANGES)))](changed, at, random)
    return bytes(changed)


def mutate_scans(data: bytes, seed: int) -> bytes:
    """One to four changes to what follows a JPEG's first scan, which leave it a whole file."""
    random = np.random.default_rng(seed)
    changed = bytearray(data)
    start = data.index(b"\xff\xda") + 14
    for _ in range(int(random.integers(1, 5))):
        at = int(random.integers(start, max(start + 1, len(changed) - 2)))
        if at < len(changed) - 2:
            _CHANGES[int(random.integers(0, len(_CHANGES) - 1))](changed, at, random)
    return bytes(changed[:-2]) + b"\xff\xd9"


def mutate_record(data: bytes, seed: int) -> bytes:
    """One to four changes that leave most of a record's outer form, so that its tiles are read."""
    random = np.random.default_rng(seed)
    changed = bytearray(data)
    for _ in range(int(random.integers(1, 5))):
        if not changed:
            break
        if random.random() < 0.1:
            _CHANGES[int(random.integers(0, len(_CHANGES)))](changed, 0, random)
        else:
            start = 0 if random.random() < 0.2 else min(len(changed) // 4, 24 + 128)
            at = int(random.integers(start, max(start + 1, len(changed))))
            (_flip if random.random() < 0.5 else _set)(changed, min(at, len(changed) - 1), random)
    return bytes(changed)


def tiles_of(record: bytes) -> tuple[int, int]:
    """Where a whole record's tiles begin and end."""
    across, down, mcus = record[3] >> 4, record[3] & 15, record[4]
    width, height, head = (int.from_bytes(record[at : at + 4], "little") for at in (8, 12, 20))
    rows, columns = -(-height // (8 * down)), -(-width // (8 * across))
    begin = 24 + 128 * record[16] + rows * (4 + 2 * -(-columns // mcus))
    return begin, len(record) - 16 - head


def greedy_end(record: bytes) -> bytes:
    """The last tile names every value of its patches, each as wide as can be: far too many bits."""
    across, down, mcus = record[3] >> 4, record[3] & 15, record[4]
    columns = -(-int.from_bytes(record[8:12], "little") // (8 * across))
    begin, end = tiles_of(record)
    size = int.from_bytes(record[begin - 2 : begin], "little")
    blocks = ((columns - 1) % mcus + 1) * (across * down + record[1] - 1)
    masks = end - size + 2 + blocks
    named = sum(patches.bit_count() for patches in record[masks - blocks : masks])
    values = masks + named + (named + 1) // 2
    return record[:masks] + b"\xff" * (values - masks) + record[values:]


def mutate_tiles(data: bytes, seed: int) -> bytes:
    """One to three changes to a whole record's tiles, most of them to the last ones."""
    random = np.random.default_rng(seed)
    if random.random() < 0.1:
        return greedy_end(data)
    changed = bytearray(data)
    begin, end = tiles_of(data)
    for _ in range(int(random.integers(1, 4))):
        start = begin if random.random() < 0.3 else begin + (end - begin) * 3 // 4
        at = int(random.integers(start, end))
        if random.random() < 0.3:
            length = min(end - at, int(random.integers(1, 40)))
            changed[at : at + length] = b"\xff" * length
        else:
            (_flip if random.random() < 0.5 else _set)(changed, at, random)
    return bytes(changed)


def _flip(data: bytearray, at: int, random: np.random.Generator) -> None:
    data[at] ^= 1 << int(random.integers(0, 8))


def _set(data: bytearray, at: int, random: np.random.Generator) -> None:
    data[at] = int(random.choice([0, 1, 0x7F, 0x80, 0xFF, int(random.integers(0, 256))]))


def _marker(data: bytearray, at: int, random: np.random.Generator) -> None:
    data[at : at + 2] = bytes([0xFF, int(random.integers(0xC0, 0xFF))])


def _cut(data: bytearray, at: int, random: np.random.Generator) -> None:
    del data[at : at + int(random.integers(1, 64))]


def _repeat(data: bytearray, at: int, random: np.random.Generator) -> None:
    data[at:at] = data[at : at + int(random.integers(1, 64))]


def _truncate(data: bytearray, at: int, random: np.random.Generator) -> None:
    if random.random() < 0.2:
        del data[at:]


_CHANGES = (_flip, _flip, _set, _set, _marker, _cut, _repeat, _truncate)
