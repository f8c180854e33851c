"""A checksum that an accelerator can take of bytes that never pass through the host.

The bytes are read as 64-bit words, in pages of 512. A page's sum is Σ word[j] · M[j], the whole
Σ page[i] · P[i], all modulo 2⁶⁴. Every multiplier is odd, so that a change of one word always
changes the sum, whichever bits of it flip. Sums of parts add up: what was read here and what was
read there are folded apart.
"""

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

PAGE_WORDS = 512
_STEP = np.uint64(0x9E3779B97F4A7C15)
"""2⁶⁴ over the golden ratio: its multiples are spread evenly."""


def word_multipliers() -> Words:
    """M: one for each word of a page."""
    return multipliers(1, PAGE_WORDS)


def multipliers(first: int, count: int) -> Words:
    """P, from a page on; page 0 is the one behind the header."""
    with np.errstate(over="ignore"):
        return (np.arange(first, first + count, dtype=np.uint64) * _STEP) | np.uint64(1)


def fold(words: Words, first_page: int = 0) -> int:
    """The sum over whole pages, of which the first is this one of the payload."""
    pages = words.reshape(-1, PAGE_WORDS)
    sums = np.einsum("ij,j->i", pages, word_multipliers())
    return int(np.einsum("i,i->", sums, multipliers(first_page, len(pages))))
