"""Counter-based randomness: a draw depends on (seed, epoch, sample, transform) and on nothing else.

Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), computed for a
whole batch of samples at once. Only integer arithmetic and one exact scaling to float64 are used,
so every machine draws the same numbers.
"""

import hashlib

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

_ROUNDS = 10
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


def philox(counter: tuple[Words, Words, Words, Words], key: tuple[int, int]) -> Words:
    """Four 32-bit words (as uint64, last axis) for each counter, which is given as 32-bit words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        product0 = c0 * _MULTIPLIERS[0]
        product1 = c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            (product1 >> _SHIFT) ^ c1 ^ np.uint64(k0),
            product1 & _LOW,
            (product0 >> _SHIFT) ^ c3 ^ np.uint64(k1),
            product0 & _LOW,
        )
        k0 = (k0 + _WEYL[0]) & 0xFFFFFFFF
        k1 = (k1 + _WEYL[1]) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=-1)


def stream_key(seed: int, purpose: str) -> tuple[int, int]:
    """A key that keeps the draws of one purpose (a transform's name and place) apart."""
    digest = hashlib.sha256(f"{seed}:{purpose}".encode()).digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:8], "little")


def uniforms(
    key: tuple[int, int], epoch: int, samples: npt.NDArray[np.int64], count: int
) -> npt.NDArray[np.float64]:
    """`count` numbers in [0, 1) for each sample, as an array of (samples, count)."""
    ids = samples.astype(np.uint64)
    low, high = ids & _LOW, ids >> _SHIFT
    epochs = np.full_like(ids, epoch & 0xFFFFFFFF)
    blocks = [
        philox((low, high, epochs, np.full_like(ids, block)), key)
        for block in range(-(-count // 2))
    ]
    words = np.concatenate(blocks, axis=-1)
    # 53 bits from two words: 27 of the first, 26 of the second; exact in float64.
    mantissa = ((words[:, 0::2] >> np.uint64(5)) << np.uint64(26)) | (
        words[:, 1::2] >> np.uint64(6)
    )
    return (mantissa.astype(np.float64) * 2.0**-53)[:, :count]
