"""The states of a run and the one table of allowed changes.

What failed, was cancelled or ended early is final. A completed run is over as well, but can be
given more epochs, or be trained again from a checkpoint: it is then paused until a trainer comes.
"""

from ddlp.core.errors import Conflict
from ddlp.core.types import RunState

_OVER = {RunState.COMPLETED, RunState.INCOMPLETE, RunState.FAILED, RunState.CANCELLED}
ALLOWED: dict[RunState, frozenset[RunState]] = {
    RunState.CREATED: frozenset({RunState.RUNNING, RunState.PAUSED} | _OVER),
    RunState.RUNNING: frozenset({RunState.PAUSED} | _OVER),
    RunState.PAUSED: frozenset({RunState.RUNNING} | _OVER),
    RunState.COMPLETED: frozenset({RunState.PAUSED}),
    RunState.INCOMPLETE: frozenset({RunState.PAUSED}),
    RunState.FAILED: frozenset(),
    RunState.CANCELLED: frozenset(),
}
ACTIVE = frozenset(s for s in RunState if s is RunState.RUNNING or RunState.RUNNING in ALLOWED[s])
TERMINAL = frozenset(RunState) - ACTIVE
"""Nothing is under way in these."""


def check_change(name: str, state: RunState, wanted: RunState, left: bool = False) -> None:
    """Refuse a change that the table does not hold.

    A run that is paused because its trainers `left` can be paused by a person as well.
    """
    if left and state is wanted is RunState.PAUSED:
        return
    if wanted not in ALLOWED[state]:
        again = ""
        if wanted in ACTIVE and not ALLOWED[state]:
            again = f"; make another like it with: ddlp run clone {name}"
        raise Conflict(f"run {name} is {state.value}; it cannot become {wanted.value}{again}")
