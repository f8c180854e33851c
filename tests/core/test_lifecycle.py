"""Every pair of a run's states is allowed or refused as the design says."""

import itertools

import pytest

from ddlp.core.errors import Conflict
from ddlp.core.lifecycle import ACTIVE, ALLOWED, TERMINAL, check_change
from ddlp.core.types import RunState

# Written out by hand: what may follow what.
TABLE = {
    "created": {"running", "paused", "completed", "incomplete", "failed", "cancelled"},
    "running": {"paused", "completed", "incomplete", "failed", "cancelled"},
    "paused": {"running", "completed", "incomplete", "failed", "cancelled"},
    "completed": {"paused"},
    "incomplete": {"paused"},
    "failed": set(),
    "cancelled": set(),
}


@pytest.mark.parametrize(("state", "wanted"), list(itertools.product(RunState, repeat=2)))
def test_a_change_is_allowed_or_refused_by_the_table(state: RunState, wanted: RunState) -> None:
    if wanted.value in TABLE[state.value]:
        check_change("r50", state, wanted)
    else:
        with pytest.raises(Conflict, match=f"run r50 is {state}; it cannot become {wanted}"):
            check_change("r50", state, wanted)


def test_every_state_is_in_the_table() -> None:
    assert set(ALLOWED) == set(RunState)


def test_what_is_over_stays_so_or_waits_for_a_trainer() -> None:
    over = {"completed", "incomplete", "failed", "cancelled"}
    assert {state.value for state in TERMINAL} == over
    assert {state.value for state in TERMINAL if ALLOWED[state]} == {"completed", "incomplete"}
    assert all(ALLOWED[state] <= {RunState.PAUSED} for state in TERMINAL)


def test_a_state_is_either_active_or_terminal() -> None:
    assert set(RunState) == ACTIVE | TERMINAL
    assert not ACTIVE & TERMINAL


def test_every_active_run_can_be_ended() -> None:
    for state in ACTIVE:
        assert {RunState.CANCELLED, RunState.FAILED} <= ALLOWED[state]


def test_nothing_goes_back_to_created() -> None:
    assert all(RunState.CREATED not in following for following in ALLOWED.values())
