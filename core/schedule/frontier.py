"""The two-ended cursor over the batches of an epoch: what has never been given out lies between."""

from dataclasses import dataclass, field


@dataclass
class Frontier:
    """Batches head..tail-1 are untouched; lost ones wait in `returned` to be given out again."""

    head: int
    tail: int
    returned: set[int] = field(default_factory=set)

    @property
    def met(self) -> bool:
        """Whether both ends have met and nothing waits to be given out again."""
        return self.head >= self.tail and not self.returned

    def next(self, end: str) -> int:
        """The batch that would be taken from an end."""
        return self.head if end == "head" else self.tail - 1

    def take_head(self, stop: int) -> int | None:
        """The next batch from the head, below `stop`."""
        if self.head >= min(stop, self.tail):
            return None
        self.head += 1
        return self.head - 1

    def take_tail(self, stop: int) -> int | None:
        """The next batch from the tail, at `stop` or above."""
        if self.tail <= max(stop, self.head):
            return None
        self.tail -= 1
        return self.tail

    def take_returned(self, among: set[int] | None = None) -> int | None:
        """A lost batch, the lowest first; where a set is given, one of that."""
        index = min(self.returned if among is None else self.returned & among, default=None)
        if index is not None:
            self.returned.remove(index)
        return index
