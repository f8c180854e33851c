"""Decides when all ranks of a group have gone back to the same state.

Each rank loads a state by itself. Until the last one has, the others are still in the old place,
perhaps with their last batches of a pass; so the schedule changes once all of them have asked.
"""

from collections import deque

from ddlp.core.errors import Conflict
from ddlp.loader.feed import Going


class Rewinds:
    """What the ranks have asked for and not all of them have."""

    def __init__(self, world_size: int) -> None:
        self._asked: list[deque[Going]] = [deque() for _ in range(world_size)]

    def ask(self, rank: int, going: Going) -> Going | None:
        """A rank goes back; returns the state to change to now, if it was the last one missing."""
        place = len(self._asked[rank])
        for other, asked in enumerate(self._asked):
            if len(asked) > place and asked[place] != going:
                raise Conflict(
                    f"rank {rank} loads the state at {_place(going)}, rank {other} has loaded the "
                    f"one at {_place(asked[place])}; load the same state on all ranks"
                )
        self._asked[rank].append(going)
        if not all(self._asked):
            return None
        return [asked.popleft() for asked in self._asked][rank]

    def pending(self, rank: int) -> Going | None:
        """The last state that a rank has loaded and others have not."""
        return self._asked[rank][-1] if self._asked[rank] else None

    def missing(self) -> list[int]:
        """The ranks that have not loaded what another one has."""
        return [rank for rank, asked in enumerate(self._asked) if not asked]


def _place(going: Going) -> str:
    if going.state is None:
        return f"the beginning of epoch {going.epoch}"
    return f"batch {going.state.position} of epoch {going.state.epoch}"
