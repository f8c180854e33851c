"""A plan cuts an epoch into batches, and the batches into the shares of ranks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddlp.core.plan import RunPlan

PLANS = st.builds(
    RunPlan,
    samples=st.integers(1, 300),
    batch_size=st.integers(8, 400),
    epochs=st.integers(1, 3),
    seed=st.integers(0, 2**63 - 1),
    world_size=st.integers(1, 9),
)


@settings(max_examples=20, deadline=None)
@given(plan=PLANS, epoch=st.integers(0, 100))
def test_the_batches_of_an_epoch_hold_every_sample_once(plan: RunPlan, epoch: int) -> None:
    batches = [plan.batch_samples(epoch, index) for index in range(plan.batches)]
    np.testing.assert_array_equal(np.sort(np.concatenate(batches)), np.arange(plan.samples))


@settings(max_examples=20, deadline=None)
@given(plan=PLANS)
def test_a_batch_is_as_long_as_the_plan_says(plan: RunPlan) -> None:
    lengths = [plan.batch_length(index) for index in range(plan.batches)]
    assert lengths == [len(plan.batch_samples(0, index)) for index in range(plan.batches)]
    assert sum(lengths) == plan.samples
    assert min(lengths) >= 1
    assert set(lengths[:-1]) <= {plan.batch_size}


@settings(max_examples=20, deadline=None)
@given(plan=PLANS)
def test_the_shares_of_the_ranks_are_even_and_make_up_the_epoch(plan: RunPlan) -> None:
    shares = [plan.rank_batches(rank) for rank in range(plan.world_size)]
    assert sum(shares) == plan.batches
    assert max(shares) - min(shares) <= 1


@pytest.mark.parametrize(
    ("samples", "batch_size", "batches", "last"),
    [(1, 1, 1, 1), (10, 3, 4, 1), (9, 3, 3, 3), (3, 10, 1, 3), (0, 4, 0, None)],
)
def test_the_last_batch_may_be_short(
    samples: int, batch_size: int, batches: int, last: int | None
) -> None:
    plan = RunPlan(samples, batch_size, epochs=1, seed=0)
    assert plan.batches == batches
    if last is not None:
        assert len(plan.batch_samples(0, batches - 1)) == last


@pytest.mark.parametrize(
    "wrong", [{"samples": -1}, {"batch_size": 0}, {"epochs": 0}, {"world_size": 0}]
)
def test_a_plan_that_cannot_be_is_refused(wrong: dict[str, int]) -> None:
    (name,) = wrong
    sensible = {"samples": 10, "batch_size": 2, "epochs": 1, "seed": 0}
    with pytest.raises(ValueError, match=f"{name} must be at least"):
        RunPlan(**sensible | wrong)


def test_batches_depend_on_seed_and_epoch_and_not_on_the_world() -> None:
    plan = RunPlan(100, 10, epochs=2, seed=1)
    wide = RunPlan(100, 10, epochs=9, seed=1, world_size=8)
    np.testing.assert_array_equal(plan.batch_samples(1, 4), wide.batch_samples(1, 4))
    others = [plan.batch_samples(0, 4), RunPlan(100, 10, epochs=2, seed=2).batch_samples(1, 4)]
    for other in others:
        assert plan.batch_samples(1, 4).tolist() != other.tolist()
