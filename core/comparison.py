"""Compares runs: what a group of repeats comes to, how far groups lie apart, and how sure that is.

Runs of one group are repeats of each other; the first group is the base. A mean has an interval
only where it was measured at least twice, a relative change only where both means were. What is
not known is None, never 0.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import NormalDist

from ddlp.core.errors import InvalidInput

_CONFIDENCE = 0.95
_Z = NormalDist().inv_cdf((1 + _CONFIDENCE) / 2)
_MANY_DF = 1000.0
"""From here on two terms of the expansion around the normal quantile are exact to 1e-5."""
_STRIPS = 128
_HALVINGS = 60


@dataclass(frozen=True)
class Measured:
    """One run as it is compared."""

    run: str
    group: str
    """Made of what decides a run: runs of the same group are repeats."""
    figures: Mapping[str, float | None]
    conditions: Mapping[str, str]
    """Under which it was measured, in words: dataset, pipeline, strategy, batch size and so on."""


@dataclass(frozen=True)
class Estimate:
    """A figure of a group: from how many runs, their mean, and half of its 95 % interval."""

    n: int
    mean: float | None
    half: float | None


@dataclass(frozen=True)
class Change:
    """How a figure differs from the base's, relative to it: 0.1 is a tenth more."""

    relative: float | None = None
    low: float | None = None
    """Where its 95 % interval begins, and where it ends."""
    high: float | None = None

    @property
    def clear(self) -> bool | None:
        """Whether the interval excludes 0; None where there is none."""
        if self.low is None or self.high is None:
            return None
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Group:
    """Runs that repeat each other."""

    key: str
    runs: tuple[str, ...]
    figures: dict[str, Estimate]
    changes: dict[str, Change] = field(default_factory=dict)
    """Against the base, which has none itself."""


@dataclass(frozen=True)
class Difference:
    """A condition that was not the same everywhere, as each group had it."""

    condition: str
    values: tuple[str | None, ...]


@dataclass(frozen=True)
class Comparison:
    """Groups in the order of their first appearance; the first is the base."""

    groups: tuple[Group, ...]
    differences: tuple[Difference, ...]

    @property
    def base(self) -> Group:
        """What the others are compared with."""
        return self.groups[0]


def compare(measured: Sequence[Measured]) -> Comparison:
    """What runs come to by group, and how the groups differ from the first one."""
    names = [one.run for one in measured]
    if len(names) < 2:
        raise InvalidInput(f"{len(names)} runs cannot be compared; name at least two")
    if len(set(names)) < len(names):
        raise InvalidInput(f"a run is named twice among {', '.join(names)}; name each once")
    groups: dict[str, list[Measured]] = {}
    for one in measured:
        groups.setdefault(one.group, []).append(one)
    figures = _in_order(name for one in measured for name in one.figures)
    [base, *_] = groups.values()
    return Comparison(
        groups=tuple(
            _group(key, mine, figures, None if mine is base else base)
            for key, mine in groups.items()
        ),
        differences=tuple(_differences(list(groups.values()))),
    )


def _group(
    key: str, mine: list[Measured], figures: list[str], base: list[Measured] | None
) -> Group:
    values = {name: _known(mine, name) for name in figures}
    changes: dict[str, Change] = {}
    if base is not None:
        changes = {name: change(_known(base, name), values[name]) for name in figures}
    return Group(
        key=key,
        runs=tuple(one.run for one in mine),
        figures={name: estimate(values[name]) for name in figures},
        changes=changes,
    )


def _known(measured: list[Measured], figure: str) -> list[float]:
    found = [one.figures.get(figure) for one in measured]
    return [float(value) for value in found if value is not None and math.isfinite(value)]


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of repeats, with half of its 95 % interval by Student's t where there are two."""
    n = len(values)
    if not n:
        return Estimate(0, None, None)
    mean = _mean(values)
    if n < 2:
        return Estimate(n, mean, None)
    deviation = math.hypot(*(value - mean for value in values)) / math.sqrt(n - 1)
    half = t_quantile(n - 1) * deviation / math.sqrt(n)
    return Estimate(n, mean, half if math.isfinite(half) else None)


def change(base: Sequence[float], other: Sequence[float]) -> Change:
    """How the mean of some values lies to that of others.

    The interval is that of the logarithm of the ratio: the variance of each mean relative to its
    square (delta method), with as many degrees of freedom as Welch and Satterthwaite give the sum.
    """
    if not (_has_ratio(base) and _has_ratio(other)):
        return Change()
    below, above = _mean(base), _mean(other)
    relative = above / below - 1
    if not math.isfinite(relative):
        return Change()
    if min(len(base), len(other)) < 2:
        return Change(relative)
    log_ratio = math.log(above) - math.log(below)
    half = _log_half(base, other)
    return Change(relative, math.expm1(log_ratio - half), math.expm1(log_ratio + half))


def _has_ratio(values: Sequence[float]) -> bool:
    return bool(values) and min(values) >= 0 and _mean(values) > 0


def _log_half(base: Sequence[float], other: Sequence[float]) -> float:
    """Half of the 95 % interval of the logarithm of the ratio of two means."""
    ours, theirs = _relative_variance(base), _relative_variance(other)
    total = ours + theirs
    if total == 0:
        return 0.0
    # Shares of the sum instead of the variances: the squares of tiny ones would vanish.
    shares = (ours / total) ** 2 / (len(base) - 1) + (theirs / total) ** 2 / (len(other) - 1)
    return t_quantile(1 / shares) * math.sqrt(total)


def _relative_variance(values: Sequence[float]) -> float:
    """The variance of a mean, relative to its square."""
    mean, n = _mean(values), len(values)
    return math.fsum((value / mean - 1) ** 2 for value in values) / (n - 1) / n


def _mean(values: Sequence[float]) -> float:
    """Their mean, which lies between the least and the greatest however it is rounded."""
    mean = math.fsum(value / len(values) for value in values)
    return min(max(mean, min(values)), max(values))


@lru_cache(maxsize=1024)
def t_quantile(df: float) -> float:
    """The 0.975 quantile of Student's t: 95 % lie between it and its negative.

    With t = √df · tan u the density becomes cos(u)^(df - 1), which is smooth from 0 to any angle:
    the angle that holds 95 % is found by halving.
    """
    if not df >= 1:
        raise InvalidInput(f"{df} degrees of freedom are too few; at least 1 is needed")
    if df > _MANY_DF:
        return _Z + (_Z**3 + _Z) / (4 * df)
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) * 2 / math.sqrt(math.pi)
    low, high = 0.0, math.pi / 2
    for _ in range(_HALVINGS):
        angle = (low + high) / 2
        if scale * _power_of_cosine(angle, df - 1) < _CONFIDENCE:
            low = angle
        else:
            high = angle
    return math.sqrt(df) * math.tan(low)


def _power_of_cosine(angle: float, power: float) -> float:
    """The integral of cos(u)^power from 0 to an angle, by Simpson's rule."""
    width = angle / _STRIPS
    weights = (1, *((4, 2) * (_STRIPS // 2))[:-1], 1)
    return (
        math.fsum(weight * math.cos(at * width) ** power for at, weight in enumerate(weights))
        * width
        / 3
    )


def _differences(groups: list[list[Measured]]) -> list[Difference]:
    """The conditions that are not the same in all groups."""
    names = _in_order(name for group in groups for one in group for name in one.conditions)
    found: list[Difference] = []
    for name in names:
        seen = [{one.conditions.get(name) for one in group} for group in groups]
        if any(values != seen[0] for values in seen):
            found.append(Difference(name, tuple(_in_words(group, name) for group in groups)))
    return found


def _in_words(group: list[Measured], condition: str) -> str | None:
    """What a group had; where its runs had several, all of them."""
    values = _in_order(one.conditions[condition] for one in group if condition in one.conditions)
    return ", ".join(values) or None


def _in_order(names: Iterable[str]) -> list[str]:
    """Each once, in the order of first appearance."""
    return list(dict.fromkeys(names))
