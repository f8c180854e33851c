"""Finds transforms by name: DDLP's own, and those that installed packages add by entry point.

A package adds one by naming its class in the group `ddlp.transforms`. The names are read once a
process; a package's code is loaded only for a pipeline that uses it, so a broken package stops no
other pipeline.
"""

import inspect
import sys
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from ddlp.core.errors import InvalidInput
from ddlp.core.pipeline.transforms import (
    TRANSFORMS,
    Extra,
    Geometric,
    PixelTransform,
    Transform,
)

GROUP = "ddlp.transforms"


def find_transform(name: object) -> type[Transform]:
    """The class that a name in a pipeline stands for."""
    found = _installed(tuple(sys.path)).get(name, ()) if isinstance(name, str) else ()
    own = TRANSFORMS.get(name) if isinstance(name, str) else None
    if own is not None and found:
        raise InvalidInput(
            f"{_packages(found)} adds a transform {name!r}, which is the name of one of DDLP's "
            "own; uninstall it, or have it renamed"
        )
    if len(found) > 1:
        raise InvalidInput(
            f"there is more than one transform {name!r}: {_packages(found)} add it; uninstall all "
            "but one"
        )
    if own is not None:
        return own
    if not found:
        known = ", ".join(known_transforms())
        raise InvalidInput(f"there is no transform {name!r}; known transforms: {known}")
    return _loaded(found[0])


def known_transforms() -> list[str]:
    """All names, DDLP's own and those that packages add."""
    return sorted({*TRANSFORMS, *_installed(tuple(sys.path))})


def origin(name: str) -> list[str]:
    """The name and version of the package that adds a transform; nothing for DDLP's own."""
    if name in TRANSFORMS:
        return []
    return [part for entry in _installed(tuple(sys.path)).get(name, ()) for part in _package(entry)]


@cache
def _installed(path: tuple[str, ...]) -> dict[str, tuple[EntryPoint, ...]]:
    """The entry points that are seen from a search path, by name."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=GROUP):
        found[entry.name] = (*found.get(entry.name, ()), entry)
    return found


def _loaded(entry: EntryPoint) -> type[Transform]:
    who = f"transform {entry.name!r} of {_packages((entry,))}"
    try:
        kind = entry.load()
    except Exception as error:  # the border to a package's code, which raises whatever it likes
        reason = str(error) or type(error).__name__
        raise InvalidInput(f"{who} cannot be loaded from {entry.value}: {reason}") from error
    if not (inspect.isclass(kind) and issubclass(kind, (Geometric, PixelTransform, Extra))):
        raise InvalidInput(
            f"{who} is {entry.value}, which is no Geometric, no PixelTransform and no Extra"
        )
    if inspect.isabstract(kind):
        missing = " and no method ".join(sorted(kind.__abstractmethods__))
        raise InvalidInput(f"{who}: {entry.value} has no method {missing}")
    if getattr(kind, "name", None) != entry.name:
        raise InvalidInput(f"{who}: {entry.value} has another name, which must be {entry.name!r}")
    return kind


def _package(entry: EntryPoint) -> tuple[str, str]:
    return (entry.dist.name, entry.dist.version) if entry.dist else ("an unknown package", "")


def _packages(entries: tuple[EntryPoint, ...]) -> str:
    return ", ".join(" ".join(_package(entry)).strip() for entry in entries)
