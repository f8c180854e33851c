"""The states of a run and the one table of allowed changes; terminal states are never left."""

from ddlp.core.errors import Conflict
from ddlp.core.types import RunState

ALLOWED: dict[RunState, frozenset[RunState]] = {
    RunState.CREATED: frozenset(set(RunState) - {RunState.CREATED}),
    RunState.RUNNING: frozenset(set(RunState) - {RunState.CREATED, RunState.RUNNING}),
    RunState.PAUSED: frozenset(set(RunState) - {RunState.CREATED, RunState.PAUSED}),
    RunState.COMPLETED: frozenset(),
    RunState.FAILED: frozenset(),
    RunState.CANCELLED: frozenset(),
}
TERMINAL = frozenset(state for state, following in ALLOWED.items() if not following)
ACTIVE = frozenset(RunState) - TERMINAL


def check_change(name: str, state: RunState, wanted: RunState) -> None:
    """Refuse a change that the table does not hold."""
    if wanted not in ALLOWED[state]:
        raise Conflict(f"run {name} is {state.value}; it cannot become {wanted.value}")
