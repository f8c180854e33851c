"""A story of a training run: a few starts, how each ends, and how the next one goes on.

It keeps the *line* of what the model that comes out at the end has been trained on: what a start
received counts as far as the next one went on from it.
"""

from collections import Counter
from dataclasses import dataclass
from random import Random

from tests.end_to_end.scenarios.job import Received

STRATEGIES = ("wrr", "mte", "bounded", "cpu")
ENDS = ("close", "kill", "kill-one")


@dataclass(frozen=True)
class Chapter:
    """One start of the job."""

    ranks: int
    start: str
    """beginning, state, epoch or continue"""
    elsewhere: bool
    """It is trained in a new run."""
    ends_after: float | None
    """The share of the steps that it could still make; None: it comes to the end."""
    how: str
    server_dies: bool
    saves: tuple[float, ...]
    """When states are saved: shares of the steps until its end."""
    leaves_after: float | None
    """The share of its first epoch after which it leaves that."""


@dataclass(frozen=True)
class Story:
    """What happens, from the first start to the end."""

    seed: int
    local: bool
    strategy: str
    batch_size: int
    epochs: int
    tail: str
    chapters: tuple[Chapter, ...]

    @classmethod
    def draw(cls, seed: int, local: bool) -> "Story":
        """Draw one."""
        dice = Random(seed)
        count = dice.randint(1, 4)
        ranks = dice.choice((1, 1, 2, 3))
        chapters: list[Chapter] = []
        leaves = dice.random() < 0.1
        for number in range(count):
            last = number == count - 1
            ways = ("state", "state", "epoch", "continue")
            start = dice.choice(ways) if number else "beginning"
            if local and start == "continue":
                start = "state"
            if start == "state" and dice.random() < 0.4:
                ranks = dice.choice((1, 2, 3))
            chapters.append(
                Chapter(
                    ranks=ranks,
                    start=start,
                    elsewhere=number > 0 and (local or (start == "state" and dice.random() < 0.4)),
                    ends_after=None if last else dice.random(),
                    how=dice.choice(ENDS),
                    server_dies=not local and dice.random() < 0.15,
                    saves=tuple(sorted(dice.random() for _ in range(dice.randint(1, 3)))),
                    leaves_after=dice.random() if leaves and last else None,
                )
            )
        return cls(
            seed=seed,
            local=local,
            strategy=dice.choice(STRATEGIES),
            batch_size=dice.choice((3, 4, 8)),
            epochs=dice.randint(1, 3),
            tail=dice.choice(("short", "short", "drop", "pad")),
            chapters=tuple(chapters),
        )


@dataclass(frozen=True)
class Line:
    """What the model has been trained on; a state that is not loaded leaves a break in it."""

    received: tuple[Received, ...] = ()
    breaks: tuple[int, ...] = ()
    """After how much of it a start went on without the state of the one before."""

    def until(self, epoch: int) -> "Line":
        """As far as the beginning of an epoch."""
        kept = tuple(got for got in self.received if got.epoch < epoch)
        return Line(kept, tuple(place for place in self.breaks if place < len(kept)))

    def then(self, ranks: list[list[Received]], steps: int | None = None) -> "Line":
        """What all ranks of a start received after that, perhaps of the first steps only."""
        more = (got for rank in ranks for got in rank[:steps])
        return Line((*self.received, *more), self.breaks)

    def broken(self) -> "Line":
        """The same, where the next start loads no state of it."""
        return Line(self.received, (*self.breaks, len(self.received)))

    def counts(self, epoch: int) -> Counter[int]:
        """How often each sample of an epoch was received."""
        return Counter(s for got in self.received if got.epoch == epoch for s in got.samples)
