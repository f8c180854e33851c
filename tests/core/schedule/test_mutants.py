"""What checks the checks: a scheduler that is broken in any of these ways does not get through."""

import pytest

from ddlp.core.schedule import RunSchedule
from tests.core.schedule.mutants import MUTANTS
from tests.core.schedule.simulation import simulate

SEEDS = [
    *((seed, name) for seed in range(20) for name in ("mte", "wrr", "bounded-0", "cpu")),
    # In which several processes are killed that have the same batch.
    *((43, "mte"), (55, "wrr"), (56, "mte"), (59, "cpu")),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_broken_scheduler_is_caught(mutant: type[RunSchedule]) -> None:
    with pytest.raises(AssertionError, match="replay it with"):
        simulate_all(mutant)


def test_the_sound_scheduler_gets_through_the_same_seeds() -> None:
    simulate_all(RunSchedule)


def simulate_all(schedule: type[RunSchedule]) -> None:
    for seed, name in SEEDS:
        simulate(seed, name, 1.0, schedule)
