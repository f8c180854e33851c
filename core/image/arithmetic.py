"""The revision of the arithmetic that turns encoded bytes into pixels.

Engines of one revision give the same bits. It is part of every pipeline's hash and of every
engine's name, and grows with any change to decoding or resampling that could alter a single bit.
"""

ARITHMETIC = 2


def same_arithmetic(engine: str, other: str) -> bool:
    """Whether two engines, by their names ("fused-2"), give the same bits."""
    return engine.rpartition("-")[2] == other.rpartition("-")[2]
