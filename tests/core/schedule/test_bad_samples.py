"""Bad samples in the schedule: shorter batches, what is remembered, and how many are too many."""

import pytest

from ddlp.core.errors import InvalidInput, Refused
from ddlp.core.mishap import Mishap
from ddlp.core.schedule import Batch, Failed, Grant, Holder, Limits, RunSchedule
from ddlp.core.schedule.limits import bad_allowed, usual_bad_share
from ddlp.core.types import Prong
from tests.core.schedule import making
from tests.core.schedule.making import finish, key, made, take


def schedule(share: float = 0.2) -> RunSchedule:
    """Ten batches of four samples; a fifth of them may be bad."""
    devices = {"cpu": (Prong.CPU, 8)}
    return making.schedule("cpu", batch_size=4, devices=devices, bad_share=share)


def mishap(sample: int, substitute: int | None = None) -> Mishap:
    return Mishap(sample, f"/data/{sample}.jpg", "truncated", substitute)


def bad_one(run: RunSchedule, lease: Grant, place: int, substitute: int | None = None) -> Mishap:
    """A sample of a batch as a bad one."""
    return mishap(int(run.plan.batch_samples(lease.epoch, lease.index)[place]), substitute)


def make(run: RunSchedule, lease: Grant, *bad: Mishap) -> Batch:
    return finish(run, lease, 0.0, 1.0, *bad)


def test_a_batch_says_how_many_samples_are_left_of_it() -> None:
    run = schedule()
    first, second, third = run.top_up(0.0)[:3]
    bad = bad_one(run, second, 1), bad_one(run, second, 2, substitute=3)
    other = bad_one(run, third, 0, substitute=5)
    batches = make(run, first), make(run, second, *bad), make(run, third, other)
    assert [batch.samples for batch in batches] == [4, 3, 4]
    assert run.epochs[0].bad == 3
    assert run.changes().mishaps == {(0, 1): bad, (0, 2): (other,)}
    assert run.changes().mishaps == {}


def test_an_attempt_that_is_refused_leaves_nothing() -> None:
    run = schedule()
    lease = run.top_up(0.0)[0]
    run.device_gone("cpu", Prong.CPU)
    with pytest.raises(Refused):
        run.commit(*key(lease), made("cpu", 1.0, bad_one(run, lease, 1)), 0.0)
    assert run.changes().mishaps == {}
    assert run.epochs[0].bad == 0


def test_a_batch_that_is_made_again_replaces_what_was_known_of_it() -> None:
    run = schedule()
    lease = run.top_up(0.0)[0]
    batch = make(run, lease, bad_one(run, lease, 0), bad_one(run, lease, 1))
    run.changes()
    run.fetch(0, 0, 0, 1)
    run.damaged(0, batch.index, batch.token, Failed("a bit flipped"), 0.0)
    assert run.epochs[0].bad == 0
    again = make(run, next(g for g in run.top_up(0.0) if g.index == batch.index))
    assert run.changes().mishaps == {(0, batch.index): ()}
    assert (again.samples, run.epochs[0].bad) == (4, 0)


def test_going_back_takes_bad_samples_back_too() -> None:
    run = schedule()
    lease = run.top_up(0.0)[0]
    make(run, lease, bad_one(run, lease, 1))
    run.fetch(0, 0, 0, 1)
    consumed = run.consume(0, 0, 1)
    assert run.epochs[0].bad == 1
    run.go_back(0, 0, 0, consumed)
    assert run.epochs[0].bad == 0


def test_more_than_the_share_of_a_whole_epoch_ends_the_run() -> None:
    run = schedule(share=0.2)
    batches = run.top_up(0.0)
    for batch in batches[:4]:
        make(run, batch, bad_one(run, batch, 0), bad_one(run, batch, 3))
    assert run.expected_failure is None
    last = bad_one(run, batches[4], 2)
    make(run, batches[4], last)
    assert run.doom is None, "four good batches come before it"
    take(run, 4)
    assert run.doom == run.expected_failure
    assert run.doom == (
        "9 of the 40 samples of epoch 0 are bad, more than max_bad_share=0.2 allows (8); "
        f"the last is {last.name}: truncated"
    )


@pytest.mark.parametrize(
    ("share", "samples", "allowed"),
    [
        (0.01, 30, 1),
        (0.01, 1000, 10),
        (0.29, 100, 29),
        (0.57, 100, 57),
        (0.0, 1000, 0),
        (1.0, 30, 30),
        (1e-9, 10**7, 1),
    ],
)
def test_one_bad_sample_is_always_allowed_unless_none_is(
    share: float, samples: int, allowed: int
) -> None:
    assert Limits(bad_share=share).bad_allowed(samples) == allowed


@pytest.mark.parametrize(
    ("samples", "allowed"),
    [(1, 1), (5, 1), (30, 3), (123, 10), (999, 10), (10_007, 10), (20_000, 20), (1_281_167, 1281)],
)
def test_by_default_few_are_allowed_and_ten_at_least(samples: int, allowed: int) -> None:
    assert bad_allowed(usual_bad_share(samples), samples) == allowed


@pytest.mark.parametrize("count", [4, 5])
def test_a_batch_of_which_nothing_is_left_is_refused(count: int) -> None:
    run = schedule(share=1.0)
    with pytest.raises(InvalidInput, match="nothing is left"):
        make(run, run.top_up(0.0)[0], *(mishap(sample) for sample in range(count)))


def test_bad_samples_that_cannot_be_are_refused() -> None:
    run = schedule(share=1.0)
    first, second = run.top_up(0.0)[:2]
    mine, foreign = bad_one(run, first, 0), bad_one(run, second, 0)
    with pytest.raises(InvalidInput, match="named twice, or is none of its batch"):
        make(run, first, mine, mine)
    with pytest.raises(InvalidInput, match="named twice, or is none of its batch"):
        run.commit(*key(first), made("cpu", 1.0, foreign), 0.0)
    assert run.changes().mishaps == {}


def test_a_report_that_cannot_be_so_saves_no_batch_that_was_given_up() -> None:
    run = schedule()
    lease = run.top_up(0.0)[0]
    run.claim(*key(lease), Holder("cpu", 1), 0.0)
    batch = run.in_hand(*key(lease))
    run.note_doom(batch, "another attempt failed")
    twice = bad_one(run, lease, 0)
    with pytest.raises(InvalidInput, match="named twice"):
        run.commit(*key(lease), made("cpu", 1.0, twice, twice), 0.0)
    assert run.expected_failure == "another attempt failed"
    run.commit(*key(lease), made("cpu", 1.0), 0.0)
    assert run.expected_failure is None
