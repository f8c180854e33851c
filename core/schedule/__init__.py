"""The scheduling core: frontier, leases and strategies as a pure state machine.

Events come in as method calls that carry the time; instructions go out as what they return, and
what must be remembered collects in `changes`. There is no clock, no I/O and no randomness in here,
so the service, the embedded loader and the tests drive the same code.

    state     what a schedule has in its head        epoch, shelf, batch, fleet: its parts
    leasing   gives work out, and races slow work    strategies: how it is split, what is dealt
    working   takes the reports of workers
    run       deals batches to ranks                 wait: what a rank waits for, in words
"""

from ddlp.core.schedule.batch import Batch
from ddlp.core.schedule.epoch import EpochSchedule
from ddlp.core.schedule.fleet import Pace
from ddlp.core.schedule.limits import Limits
from ddlp.core.schedule.reports import UNKNOWN, Changes, Death, Failed, Grant, Holder, Made, Void
from ddlp.core.schedule.run import RunSchedule
from ddlp.core.schedule.strategies import CHOICES, STRATEGIES, Replay, strategy
from ddlp.core.schedule.wait import blamed, explain_wait

__all__ = [
    "CHOICES",
    "STRATEGIES",
    "UNKNOWN",
    "Batch",
    "Changes",
    "Death",
    "EpochSchedule",
    "Failed",
    "Grant",
    "Holder",
    "Limits",
    "Made",
    "Pace",
    "Replay",
    "RunSchedule",
    "Void",
    "blamed",
    "explain_wait",
    "strategy",
]
