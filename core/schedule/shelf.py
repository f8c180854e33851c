"""The batches of an epoch that are under way, found by state, prong and place without a search.

Every change of a batch's state goes through here, so that what is counted is always what is there
and no question costs more when more batches lie on a drive.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from ddlp.core.schedule.batch import Batch
from ddlp.core.types import BatchState, Prong


class Shelf:
    """Leased, ready, handed and lost batches; consumed ones are taken off."""

    def __init__(self) -> None:
        self._all: dict[int, Batch] = {}
        self._in: dict[BatchState, dict[int, Batch]] = defaultdict(dict)
        self._counts: Counter[tuple[Prong, BatchState]] = Counter()
        self._dealt: dict[int, Batch] = {}

    def get(self, index: int) -> Batch | None:
        """A batch that is under way."""
        return self._all.get(index)

    def __getitem__(self, index: int) -> Batch:
        return self._all[index]

    def __iter__(self) -> Iterator[Batch]:
        return iter(list(self._all.values()))

    def put(self, batch: Batch) -> None:
        """Add a batch in the state it has."""
        self._all[batch.index] = batch
        if batch.position is not None:
            self._dealt[batch.position] = batch
        self._enter(batch)

    def move(self, batch: Batch, state: BatchState, prong: Prong | None = None) -> None:
        """Change a batch's state, and who makes it."""
        self._leave(batch)
        batch.state = state
        batch.prong = prong or batch.prong
        self._enter(batch)

    def deal(self, batch: Batch, position: int) -> None:
        """Give a batch its place in the order of delivery."""
        batch.position = position
        self._dealt[position] = batch
        self.move(batch, BatchState.HANDED)

    def remove(self, batch: Batch) -> None:
        """Take a batch off."""
        self._leave(batch)
        del self._all[batch.index]
        if batch.position is not None:
            del self._dealt[batch.position]

    def in_state(self, *states: BatchState) -> list[Batch]:
        """The batches in some states."""
        return [batch for state in states for batch in self._in[state].values()]

    def in_flight(self) -> list[Batch]:
        """The batches that somebody is meant to be producing."""
        return self.in_state(BatchState.QUEUED, BatchState.LEASED)

    def count(self, prong: Prong, *states: BatchState) -> int:
        """How many batches of a prong are in some states."""
        return sum(self._counts[prong, state] for state in states)

    def at(self, position: int) -> Batch | None:
        """The batch that was dealt as a place in the order of delivery, and is not consumed."""
        return self._dealt.get(position)

    def _enter(self, batch: Batch) -> None:
        self._in[batch.state][batch.index] = batch
        self._counts[batch.prong, batch.state] += 1

    def _leave(self, batch: Batch) -> None:
        del self._in[batch.state][batch.index]
        self._counts[batch.prong, batch.state] -= 1
