"""Where a loader gets its batches from: a server's run, or a schedule on this machine."""

from dataclasses import dataclass
from typing import Any, Protocol, Self

from ddlp.core.errors import InvalidInput
from ddlp.core.messages import Attached, BadSampleInfo, Damaged, Fed, FeedRequest, Where
from ddlp.core.sessions import Start
from ddlp.core.takeover import Origin

SHARED = ("samples", "batch_size", "seed", "reshuffle", "dataset", "pipeline")
"""What a state must share with a run: it decides which samples come in which order."""


@dataclass(frozen=True)
class LoaderState:
    """Where all ranks stand: a few numbers, whatever the dataset's size."""

    epoch: int
    position: int
    """Batches of the epoch that all ranks together have consumed."""
    run: dict[str, Any]
    """What decides the run's batches, and which run it was."""
    heads: int | None = None
    """How many of them, in the last segment, came from the head; None where that is not known."""
    settled: dict[str, float] | None = None
    """What the strategy has fixed for the epoch."""
    segments: list[dict[str, Any]] | None = None
    """How the epoch is cut into batches."""

    @classmethod
    def given(cls, state: dict[str, Any]) -> Self:
        """As training code hands it back."""
        try:
            found = cls(**{name: state[name] for name in state if name != "world_size"})
        except (TypeError, AttributeError) as error:
            raise InvalidInput(f"this is no state of a DualLoader: {state!r:.200}") from error
        numbers = isinstance(found.epoch, int) and isinstance(found.position, int)
        if not numbers or not isinstance(found.run, dict):
            raise InvalidInput(f"this is no state of a DualLoader: {state!r:.200}")
        return found

    @property
    def origin(self) -> Origin | None:
        """All that another run needs to go on from here; None where it is not known."""
        if self.heads is None or self.segments is None:
            return None
        try:
            return Origin.from_json(
                {
                    "run": str(self.run.get("run") or ""),
                    "epoch": self.epoch,
                    "position": self.position,
                    "heads": self.heads,
                    "segments": self.segments,
                }
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"this is no state of a DualLoader: {error}") from error


@dataclass(frozen=True)
class Going:
    """How a loader goes on, from its next pass on."""

    start: Start
    epoch: int = 0
    state: LoaderState | None = None
    ahead: bool = True
    """Whether the epoch lies ahead of all that was received."""

    @classmethod
    def given(cls, start: int | str | None) -> Self:
        """As training code says it when it opens a loader."""
        if start is None:
            return cls(Start.BEGINNING)
        if start == "continue":
            return cls(Start.CONTINUE)
        if isinstance(start, bool) or not isinstance(start, int) or start < 0:
            raise InvalidInput(f'start={start!r} is neither an epoch, such as 0, nor "continue"')
        return cls(Start.EPOCH, start)


class Feed(Protocol):
    """What a loader needs of whoever schedules its run."""

    attached: Attached
    source: str
    """Who answers, and what to look at where no answer comes."""

    def exchange(self, request: FeedRequest) -> Fed:
        """Say what was consumed and get the next batches."""

    def damaged(self, report: Damaged) -> None:
        """Have a batch that cannot be read made again."""

    def heads(self, epoch: int, step: int) -> int | None:
        """How many batches of an epoch's segment came from the head before a step of all ranks."""

    def bad_samples(self) -> list[BadSampleInfo]:
        """The samples that were skipped or replaced so far, the oldest first."""

    def begin(self, going: Going) -> Where:
        """Go on as the loader says; returns where that is."""

    def took_state(self, epoch: int, position: int) -> None:
        """A state was taken there."""

    def check(self, timeout_s: float) -> None:
        """Raise if the rank is held by another process; wait while that is not known."""

    def renew(self) -> None:
        """Leave the connection to a thread that is stuck with it, and use another one."""

    def close(self) -> None:
        """Let go of everything."""
