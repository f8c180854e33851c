"""Sizes and times in units that people read."""

_SIZES = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def size(nbytes: float) -> str:
    """Bytes in the largest unit that they fill."""
    for unit, many in _SIZES:
        if round(nbytes / many, 1) >= 1:
            return f"{nbytes / many:,.1f} {unit}"
    return f"{nbytes:.0f} bytes"


def per_second(value: float | None) -> str:
    """A rate in whole numbers, a small one with a fraction; what was not measured is no number."""
    if value is None:
        return "—"
    return f"{value:.1f}" if 0 < value < 10 else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """A time to the second, from an hour on to the minute."""
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def joules(value: float | None) -> str:
    """Joules in a unit that suits them; what is not known is no number."""
    if value is None:
        return "—"
    if 0 < value < 0.01:
        return f"{1e3 * value:.3g} mJ" if value >= 1e-5 else f"{1e6 * value:.3g} µJ"
    return f"{value:,.0f} J" if value >= 100 else f"{value:.3g} J"
