"""Sizes, times, joules and epochs as people read them."""

import math
from collections.abc import Iterable

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


def epoch_of(number: int, epochs: int | None) -> str:
    """An epoch as people and programs count it: from 0, which the range makes plain."""
    return f"{number} of 0-{epochs - 1}" if epochs is not None and epochs > 1 else f"{number}"


JOULES = {"J": 1.0, "mJ": 1e-3, "µJ": 1e-6}
"""Units of energy, each with what one of it is in joules."""


def joules(value: float | None) -> str:
    """Joules in a unit that suits them; what is not known is no number."""
    unit = joule_unit([value])
    return "—" if value is None else f"{joules_in(value, unit)} {unit}"


def joule_unit(values: Iterable[float | None]) -> str:
    """The unit in which all of a column is read: the one that suits its largest figure."""
    most = max((value for value in values if value is not None), default=0.0)
    if not 0 < most < 0.1:
        return "J"
    return "mJ" if most >= 1e-5 else "µJ"


def joules_in(value: float | None, unit: str) -> str:
    """Joules as a number of some unit, with three digits that count and no power of ten."""
    if value is None:
        return "—"
    return digits(value / JOULES[unit])


def digits(value: float) -> str:
    """A number with three digits that count, written out: never 1e-05 or 1.2e+03."""
    if abs(value) >= 100 or not value:
        return f"{value:,.0f}"
    places = min(9, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
