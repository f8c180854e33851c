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
