"""Who asks: the key behind the request at hand, wherever in the server it is worked on."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from ddlp.core.types import Scope

LOCAL = "local"
"""Who acts where no key was shown: somebody on this machine, or the server by itself."""


@dataclass(frozen=True)
class Identity:
    """A key that was shown and is good."""

    name: str
    scope: Scope


_current: ContextVar[Identity | None] = ContextVar("identity", default=None)


def current() -> Identity | None:
    """The key behind the request at hand, if one was shown."""
    return _current.get()


def actor() -> str:
    """Who acts, by name."""
    found = _current.get()
    return LOCAL if found is None else found.name


@contextmanager
def acting_as(identity: Identity | None) -> Iterator[None]:
    """Do something in the name of a key, in whatever thread."""
    before = _current.set(identity)
    try:
        yield
    finally:
        _current.reset(before)
