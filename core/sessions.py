"""Sessions: which process of a training job received which part of an epoch.

A *session* is one process that holds one rank of a run, from its first batch until it ends. The
loader cannot know whether a model was restored, so this is what exactly-once is measured by: a line
of sessions is unbroken where each one went on from a checkpoint of the one before it. Where one
ended without that, what it had learned since its last checkpoint is lost, and said to be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any


class Start(StrEnum):
    """How a session came to the part of an epoch that it received."""

    BEGINNING = "beginning"
    """It is the run's first."""
    ONWARD = "onward"
    """It received the epoch before as well."""
    STATE = "state"
    """It loaded a state that was taken there."""
    EPOCH = "epoch"
    """It asked for an epoch from its beginning."""
    AGAIN = "again"
    """It went back to an epoch that it had received before."""
    CONTINUE = "continue"
    """It took what the session before it had left."""


Checkpoint = tuple[int, int]
"""An epoch, and how many of its batches all ranks together had received."""


Joined = tuple[str, Start, Checkpoint | None]
"""A session, how it comes to what it is handed next, and the last state known to be taken then."""


@dataclass(frozen=True)
class SessionPart:
    """The part of an epoch that one session received as one rank.

    Places count the batches of the epoch that all ranks together had received: with W ranks, each
    step of a rank is W of them.
    """

    session: str
    rank: int
    world_size: int
    start: Start
    first: int
    last: int | None = None
    """Where it ended, or where a later session took over; None while it goes on."""
    received: int | None = None
    """How far it had come when it ended; what lies beyond `last` was delivered again."""
    handed: int | None = None
    """How far batches had been handed to it by then: it may have trained with those, too."""
    checkpoint: Checkpoint | None = None
    """The last state that was known to be taken in the run when it began."""

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise ValueError(f"rank {self.rank} is not in a world of {self.world_size}")

    def lost(self, epoch: int) -> str | None:
        """Say which training was lost before this session; None where the line is unbroken."""
        if self.start is Start.AGAIN:
            return f"rank {self.rank}: the session that had epoch {epoch} trained on it once more"
        if self.start not in (Start.EPOCH, Start.CONTINUE):
            return None
        if epoch == 0 and self.first == 0:
            return None  # training began anew, and so did the data
        here = _place((epoch, self.first), self.world_size)
        since = _place(self.checkpoint, self.world_size)
        if self.checkpoint == (epoch, self.first):
            return (
                f"rank {self.rank}: a state was taken at {here}, but the session that went on "
                "there did not load it"
            )
        if self.start is Start.EPOCH:
            return (
                f"rank {self.rank}: epoch {epoch} was begun without a state that was taken "
                f"there; the last one that is known was taken at {since}"
            )
        return (
            f"rank {self.rank}: a session was lost between {since} and {here}: the one that went "
            "on there loaded no state of it"
        )

    @property
    def empty(self) -> bool:
        """Whether all that it received was delivered again to others, or nothing was."""
        return self.last == self.first

    def ended(self, received: int, handed: int) -> SessionPart:
        """Close it: its session has ended, or another one holds its rank."""
        if self.last is not None:
            return self
        return replace(self, last=received, received=received, handed=max(received, handed))

    def cut(self, place: int) -> SessionPart:
        """The same, where everything from a place on is delivered again."""
        if self.last is not None and self.last <= place:
            return self
        return replace(self, last=max(self.first, place))

    def as_json(self) -> dict[str, Any]:
        """As it is kept."""
        return {**vars(self), "start": self.start.value}

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> SessionPart:
        """As it was kept."""
        mark = kept["checkpoint"]
        return cls(
            **{
                **kept,
                "start": Start(kept["start"]),
                "checkpoint": None if mark is None else (mark[0], mark[1]),
            }
        )


def _place(mark: Checkpoint | None, world_size: int) -> str:
    """A place in words, as steps of a rank."""
    epoch, place = mark or (0, 0)
    return f"step {place // world_size} of epoch {epoch}" + ("" if mark else " (no checkpoint)")


def uncovered(parts: list[SessionPart], rank: int, first: int, last: int | None) -> str | None:
    """Say where the parts of a rank do not follow each other from one place to another."""
    mine = [part for part in parts if part.rank == rank and not part.empty]
    at = first
    for part in sorted(mine, key=lambda part: part.first):
        if part.first != at:
            return _gap(rank, at, part.first)
        at = part.last if part.last is not None else at
        if part.last is None:
            return None
    return _gap(rank, at, last) if last is not None and at < last else None


def _gap(rank: int, first: int, last: int) -> str:
    return f"rank {rank}: no session is named for what lies between places {first} and {last}"
