"""The scheduling core: frontier, leases and strategies as a pure state machine.

Events come in as method calls that carry the time; instructions go out as what they return, and
what must be remembered collects in `changes`. There is no clock, no I/O and no randomness in here,
so the service, the embedded loader and the tests drive the same code.
"""

from ddlp.core.schedule.batch import Batch
from ddlp.core.schedule.epoch import EpochSchedule
from ddlp.core.schedule.limits import Limits
from ddlp.core.schedule.reports import Changes, Made, Void
from ddlp.core.schedule.run import RunSchedule
from ddlp.core.schedule.strategies import STRATEGIES, strategy
from ddlp.core.schedule.wait import explain_wait

__all__ = [
    "STRATEGIES",
    "Batch",
    "Changes",
    "EpochSchedule",
    "Limits",
    "Made",
    "RunSchedule",
    "Void",
    "explain_wait",
    "strategy",
]
