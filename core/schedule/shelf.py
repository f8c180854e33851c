"""The batches of an epoch that are under way, found by state, prong and step without a search.

Every change of a batch's state goes through here, so that what is counted is always what is there
and no question costs more when more batches lie on a drive.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from heapq import heappop, heappush

from ddlp.core.schedule.batch import Batch
from ddlp.core.types import BatchState, Prong


class Shelf:
    """Leased, ready, handed and lost batches; consumed ones are taken off."""

    def __init__(self) -> None:
        self._all: dict[int, Batch] = {}
        self._in: dict[BatchState, dict[int, Batch]] = defaultdict(dict)
        self._counts: Counter[tuple[Prong, BatchState]] = Counter()
        self._ready: dict[Prong, list[int]] = {prong: [] for prong in Prong}
        self._steps: dict[tuple[int | None, int | None], Batch] = {}

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
        self._enter(batch)

    def move(self, batch: Batch, state: BatchState, prong: Prong | None = None) -> None:
        """Change a batch's state, and who makes it."""
        self._leave(batch)
        batch.state = state
        batch.prong = prong or batch.prong
        self._enter(batch)

    def remove(self, batch: Batch) -> None:
        """Take a batch off."""
        self._leave(batch)
        del self._all[batch.index]

    def in_state(self, *states: BatchState) -> list[Batch]:
        """The batches in some states."""
        return [batch for state in states for batch in self._in[state].values()]

    def in_flight(self) -> list[Batch]:
        """The batches that somebody is meant to be producing."""
        return self.in_state(BatchState.QUEUED, BatchState.LEASED)

    def count(self, prong: Prong, *states: BatchState) -> int:
        """How many batches of a prong are in some states."""
        return sum(self._counts[prong, state] for state in states)

    def first_ready(self, prong: Prong) -> int | None:
        """The ready batch of a prong that is nearest to its end of the epoch."""
        heap = self._ready[prong]
        return abs(heap[0]) if heap else None

    def at_step(self, rank: int, step: int) -> Batch | None:
        """What a rank was handed as a step and has not consumed."""
        return self._steps.get((rank, step))

    def _enter(self, batch: Batch) -> None:
        self._in[batch.state][batch.index] = batch
        self._counts[batch.prong, batch.state] += 1
        if batch.state is BatchState.READY:
            # The lowest index first for the head, the highest for the tail.
            heappush(
                self._ready[batch.prong],
                batch.index if batch.prong is Prong.CPU else -batch.index,
            )
        elif batch.state is BatchState.HANDED:
            self._steps[batch.rank, batch.step] = batch

    def _leave(self, batch: Batch) -> None:
        del self._in[batch.state][batch.index]
        self._counts[batch.prong, batch.state] -= 1
        if batch.state is BatchState.HANDED:
            del self._steps[batch.rank, batch.step]
        elif batch.state is BatchState.READY:
            self._trim(batch.prong)

    def _trim(self, prong: Prong) -> None:
        """Drop what is ready no more from the top of a heap."""
        heap, ready = self._ready[prong], self._in[BatchState.READY]
        while heap and not ((batch := ready.get(abs(heap[0]))) and batch.prong is prong):
            heappop(heap)
