"""Names for runs that nobody has named: the next free number behind another name."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from ddlp.server.models import Run

_LONGEST = 64
_MOST_NAMED = 10


def named(names: Sequence[str]) -> str:
    """Names in a sentence; of many, the first."""
    rest = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def is_taken(session: Session, name: str) -> bool:
    """Whether a run has this name."""
    return session.scalar(select(Run.id).where(Run.name == name)) is not None


def numbered(session: Session, base: str, first: int = 2) -> str:
    """A name with the first number, from one on, that no run has behind it."""
    number = first
    while is_taken(session, name := f"{base[: _LONGEST - len(f'-{number}')]}-{number}"):
        number += 1
    return name


def following(session: Session, name: str) -> str:
    """The name after this one: a number is counted on, a name without one gets one."""
    stem, _, last = name.rpartition("-")
    if stem and last.isdecimal():
        return numbered(session, stem, int(last) + 1)
    return numbered(session, name)
