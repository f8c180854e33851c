"""What goes in and out of a schedule: leases, reports of workers, and what must be remembered."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field

from ddlp.core.mishap import Mishap
from ddlp.core.plan import Places
from ddlp.core.schedule.batch import Batch
from ddlp.core.schedule.epoch import EpochSchedule
from ddlp.core.stages import NO_TIMES, StageTimes
from ddlp.core.types import Prong

_CRASHES = frozenset(
    {
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGILL,
        signal.SIGFPE,
        signal.SIGABRT,
        signal.SIGSYS,
        signal.SIGTRAP,
    }
)
"""What the kernel sends to a process for what it does itself."""


@dataclass(frozen=True)
class Grant:
    """A lease to be sent to a prong's workers."""

    prong: Prong
    epoch: int
    index: int
    token: int
    places: Places
    losses: int
    """Attempts at this batch of which nothing was heard any more."""


@dataclass(frozen=True)
class Holder:
    """Who claims a lease: a process of a device."""

    device: str
    process: int = 0


@dataclass(frozen=True)
class Death:
    """How a process ended, as far as that is known."""

    exit_code: int | None = None
    """Negative: the signal that ended it, as subprocess has it. None: nobody saw it."""
    out_of_memory: bool = False
    """The kernel ended some process for lack of memory at that time."""

    @property
    def crashed(self) -> bool:
        """Whether it was its own doing, as far as status and signal tell."""
        return self.exit_code is not None and (self.exit_code > 0 or -self.exit_code in _CRASHES)

    @property
    def words(self) -> str:
        """How it ended."""
        if self.exit_code is None:
            return "nobody saw how"
        if self.exit_code >= 0:
            return f"status {self.exit_code}"
        try:
            name = signal.Signals(-self.exit_code).name
        except ValueError:
            name = f"signal {-self.exit_code}"
        if self.crashed:
            return name
        if self.out_of_memory and self.exit_code == -signal.SIGKILL:
            return f"{name}, as the kernel ended processes for lack of memory"
        return f"{name} from outside"


UNKNOWN = Death()


@dataclass(frozen=True)
class Made:
    """A worker's report of a finished batch."""

    device: str
    location: str
    nbytes: int
    checksum: int
    seconds: float
    cpu_s: float
    bad: tuple[Mishap, ...] = ()
    """The samples of it that could not be used."""
    times: StageTimes = NO_TIMES

    @property
    def left_out(self) -> int:
        """How many samples it holds less than planned."""
        return sum(mishap.substitute is None for mishap in self.bad)


@dataclass(frozen=True)
class Failed:
    """Why an attempt failed, or why a batch that was made cannot be used."""

    reason: str
    permanent: bool = False
    """Trying again cannot help."""
    bug: bool = False
    """Code raised an error that is none of the system's: time does not heal it."""
    gone: bool = False
    """The batch is not damaged, it is not there: that is nobody's failure."""
    device: str = ""
    """Who says so; without a name it is whoever holds the lease."""


@dataclass(frozen=True)
class Void:
    """An attempt that counts no more: whatever it left in its device's store can go."""

    device: str
    epoch: int
    index: int
    token: int


@dataclass
class Changes:
    """What must be remembered since it was last asked for."""

    batches: list[Batch] = field(default_factory=list)
    epochs: list[EpochSchedule] = field(default_factory=list)
    void: list[Void] = field(default_factory=list)
    mishaps: dict[tuple[int, int], tuple[Mishap, ...]] = field(default_factory=dict)
    """Bad samples by epoch and batch, in place of what was known of these batches before."""
