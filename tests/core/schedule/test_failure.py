"""A batch that cannot be made ends the run when it is due; what comes before it is delivered."""

import pytest

from ddlp.core.mishap import Mishap
from ddlp.core.schedule import Failed, RunSchedule
from ddlp.core.types import BadPolicy, EpochState, Prong
from tests.core.schedule.making import (
    claim,
    find,
    finish,
    key,
    made,
    make_all,
    paced,
    schedule,
    work_off,
)

WHY = "batch 5 of epoch 0: it is poisoned"


def poisoned(run: RunSchedule, index: int = 5, epoch: int = 0) -> None:
    """Make what is given out, apart from one batch that can never be made."""
    for _ in range(40):
        for grant in run.top_up(0.0):
            if (grant.epoch, grant.index) == (epoch, index):
                run.fail(*key(grant), Failed("it is poisoned", permanent=True), 0.0)
            else:
                finish(run, grant)


def served(run: RunSchedule, rank: int = 0, epoch: int = 0) -> list[int]:
    """All that a rank can have of an epoch, consumed step by step."""
    indices: list[int] = []
    while batches := run.fetch(rank, epoch, len(indices), 1):
        assert run.doom is None, f"failed before {batches[0].index} was delivered"
        indices += [batch.index for batch in batches]
        run.consume(rank, epoch, len(indices))
        poisoned(run)
    return indices


@pytest.mark.parametrize("name", ["cpu", "csd", "mte", "wrr"])
def test_all_that_comes_before_it_is_delivered(name: str) -> None:
    sound = schedule(name, stored=dict.fromkeys(Prong, 20))
    poisoned(sound, epoch=9)
    order = served(sound)
    run = schedule(name, stored=dict.fromkeys(Prong, 20))
    poisoned(run)
    assert run.expected_failure == WHY
    assert run.doom is None
    got = served(run)
    if name == "wrr":  # whatever is ready is taken: all but the one
        assert sorted(got) == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    else:
        assert got == order[: order.index(5)]
    assert run.doom == WHY


def test_a_poisoned_batch_of_the_next_epoch_is_no_matter_yet() -> None:
    run = schedule("cpu", stored=dict.fromkeys(Prong, 40))
    poisoned(run, 0, epoch=1)
    assert run.expected_failure == "batch 0 of epoch 1: it is poisoned"
    run.fetch(0, 0, 0, 10)
    run.consume(0, 0, 10)
    assert run.epochs[0].state is EpochState.COMPLETE
    run.changes()
    assert run.doom is None, "nobody has asked for epoch 1"
    assert run.fetch(0, 1, 0, 1) == []
    assert run.doom == run.expected_failure


def test_the_ranks_that_can_still_train_do_so_first() -> None:
    run = schedule("cpu", world_size=2, stored=dict.fromkeys(Prong, 20))
    poisoned(run)
    for rank, count in ((0, 3), (1, 2)):
        assert len(run.fetch(rank, 0, 0, 9)) == count
    run.consume(0, 0, 3)
    assert run.doom is None, "rank 1 still trains"
    run.consume(1, 0, 2)
    assert run.doom == WHY


def test_a_rank_that_left_the_epoch_is_not_waited_for() -> None:
    run = schedule("cpu", world_size=2, stored=dict.fromkeys(Prong, 20))
    poisoned(run)
    for rank in range(2):
        run.fetch(rank, 0, 0, 9)
    run.consume(0, 0, 3)
    run.fetch(1, 1, 0, 1)
    assert run.doom == WHY, "rank 1 has broken off and will consume no more of it"


def test_it_is_forgotten_with_an_epoch_that_all_have_left() -> None:
    run = schedule("cpu", stored=dict.fromkeys(Prong, 20))
    poisoned(run)
    run.fetch(0, 0, 0, 9)
    run.fetch(0, 1, 0, 1)
    assert run.doom is None
    run.changes()
    assert run.expected_failure is None


def test_a_step_that_cannot_be_made_again_fails_when_its_rank_comes_to_it() -> None:
    run = schedule("cpu", batches=6, epochs=1, failures=1, all_failing_s=0.0)
    make_all(run)
    first, second, third = run.fetch(0, 0, 0, 3)
    run.damaged(0, third.index, third.token, Failed("a bit flipped"), 0.0)
    assert run.doom is None
    run.consume(0, 0, 1)
    assert run.doom is None
    run.consume(0, 0, 2)
    assert run.doom == "batch 2 of epoch 0 failed 1 times in 0 s on cpu: a bit flipped"
    assert (first.index, second.index) == (0, 1)


def test_while_a_second_attempt_is_under_way_nothing_has_failed() -> None:
    devices = {"slow": (Prong.CSD, 1), "quick": (Prong.CPU, 1)}
    run = paced(schedule("wrr", batches=1, epochs=1, devices=devices), slow=100.0, quick=1.0)
    run.set_devices({"slow": devices["slow"]})
    first = run.top_up(0.0)[0]
    claim(run, first, device="slow")
    run.set_devices(devices)
    run.learn("quick", 1.0, 1)
    second = run.top_up(1.0)[0]
    claim(run, second, 1.0, device="quick")
    run.fetch(0, 0, 0, 1)
    run.fail(*key(first), Failed("it is poisoned", permanent=True), 0.0)
    assert run.doom is None
    assert run.commit(*key(second), made("quick"), 2.0)
    assert run.expected_failure is None
    assert [batch.index for batch in run.fetch(0, 0, 0, 1)] == [0]


def test_a_batch_that_was_given_up_is_given_to_nobody_until_all_is_forgotten() -> None:
    run = schedule("cpu", stored=dict.fromkeys(Prong, 20), on_bad=BadPolicy.FAIL)
    poisoned(run)
    assert work_off(run) == 0
    run.change_ranks(2)
    assert run.expected_failure is None
    make_all(run)
    assert len(run.fetch(0, 0, 0, 9)) == 5


def test_what_a_checkpoint_has_as_delivered_is_no_failure_any_more() -> None:
    run = schedule("cpu", batches=6, epochs=1, failures=1, all_failing_s=0.0)
    make_all(run)
    batches = run.fetch(0, 0, 0, 3)
    run.damaged(0, 0, batches[0].token, Failed("a bit flipped"), 0.0)
    assert run.doom is not None
    run.go_back(0, 0, 2, [])
    assert run.expected_failure is None
    assert run.epochs[0].acknowledged == [2]


def test_an_attempt_that_was_given_up_is_fenced_off() -> None:
    run = schedule("cpu", batches=6, epochs=1, bad_share=0.0)
    lease = run.top_up(0.0)[0]
    sample = int(run.plan.batch_samples(0, 0)[0])
    claim(run, lease)
    run.commit(*key(lease), made("cpu", 1.0, Mishap(sample, "a.jpg", "torn", 3)), 0.0)
    assert run.expected_failure is not None
    assert [void.token for void in run.changes().void] == [lease.token]
    assert find(run, lease).state.value == "lost"
    assert run.epochs[0].bad == 0
