"""A seeded bijection over 0..n-1, computed for single places: a Feistel network with cycle walking.

The network permutes the smallest power of two that holds n; places that fall outside n walk on
along their cycle until they are inside.
"""

import numpy as np
import numpy.typing as npt

ROUNDS = 10
_LEAST_BITS = 6
"""A smaller network does not mix evenly; a few places more to walk over cost nothing."""
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))

Words = npt.NDArray[np.uint64]


def bits_for(count: int) -> int:
    """How many bits the network works on."""
    return max(_LEAST_BITS, (count - 1).bit_length())


def permuted(places: Words, keys: Words, count: int) -> Words:
    """Where each place of 0..count-1 leads; one key of 64 bits a round."""
    values, bits = places.copy(), bits_for(count)
    outside = np.ones(len(values), dtype=bool)
    while outside.any():
        values[outside] = _network(values[outside], keys, bits)
        outside = values >= np.uint64(count)
    return values


def _network(values: Words, keys: Words, bits: int) -> Words:
    """Two halves, unequal where the bits are odd, are mixed into each other in turn."""
    low_bits = np.uint64(bits // 2)
    high_mask = np.uint64((1 << (bits - bits // 2)) - 1)
    low_mask = np.uint64((1 << (bits // 2)) - 1)
    high, low = values >> low_bits, values & low_mask
    for place in range(0, ROUNDS, 2):
        high = high ^ (_scramble(low ^ keys[place]) & high_mask)
        low = low ^ (_scramble(high ^ keys[place + 1]) & low_mask)
    return (high << low_bits) | low


def _scramble(values: Words) -> Words:
    """The finaliser of splitmix64: every bit of the input reaches every bit of the output."""
    values = (values ^ (values >> np.uint64(30))) * _MIX[0]
    values = (values ^ (values >> np.uint64(27))) * _MIX[1]
    return values ^ (values >> np.uint64(31))
