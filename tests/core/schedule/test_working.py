"""What workers report: claims, commits, failures, deaths; and what is fenced off."""

import itertools
import re
import signal

import pytest

from ddlp.core.errors import Held, Refused
from ddlp.core.schedule import Death, Failed, Grant, Holder, RunSchedule, explain_wait
from ddlp.core.types import BatchState, Prong
from tests.core.schedule.making import claim, find, finish, key, made, paced, schedule, take

CRASHED = Death(-signal.SIGSEGV)
CRASHES = "a worker process of cpu crashed (SIGSEGV) while making it"
TWO_HOSTS = {"a": (Prong.CPU, 1), "b": (Prong.CPU, 1)}


def again(run: RunSchedule, index: int, now: float = 0.0) -> Grant:
    """The next lease of a batch that was lost."""
    return next(grant for grant in run.top_up(now) if grant.index == index)


# Claims


def test_a_stale_token_is_refused_at_claim_and_at_every_report() -> None:
    run = schedule("cpu", queued_s=1.0, unknown_s=1.0)
    old = run.top_up(0.0)[0]
    run.expire(10.0)
    new = again(run, old.index, 10.0)
    assert new.token > old.token
    with pytest.raises(Refused, match=f"token {old.token} for batch 0 of epoch 0"):
        claim(run, old, 10.0)
    with pytest.raises(Refused):
        run.commit(*key(old), made("cpu"), 10.0)
    with pytest.raises(Refused):
        run.fail(*key(old), Failed("it broke", permanent=True), 0.0)
    with pytest.raises(Refused):
        run.no_room(*key(old), "full", 10.0)
    assert run.doom is None
    claim(run, new, 10.0)
    run.commit(*key(new), made("cpu"), 10.0)


def test_a_process_may_claim_again_and_another_device_may_not() -> None:
    run = schedule("cpu", devices=TWO_HOSTS)
    lease = run.top_up(0.0)[0]
    claim(run, lease, 0.0, "a")
    claim(run, lease, 1.0, "a")
    with pytest.raises(Refused, match="being made by a") as refusal:
        claim(run, lease, 1.0, "b")
    assert not isinstance(refusal.value, Held)


def test_another_process_of_the_device_learns_who_has_the_lease() -> None:
    run = schedule("cpu")
    lease = run.top_up(0.0)[0]
    claim(run, lease, process=11)
    with pytest.raises(Held) as refusal:
        claim(run, lease, process=12)
    assert refusal.value.process == 11


def test_a_lease_of_a_dead_process_can_be_claimed_by_another_of_its_device() -> None:
    run = schedule("cpu")
    lease = run.top_up(0.0)[0]
    claim(run, lease, process=11)
    run.process_died(Holder("cpu", 11))
    claim(run, lease, process=12)
    with pytest.raises(Held):
        claim(run, lease, process=11)
    run.commit(*key(lease), made("cpu"), 1.0)
    assert find(run, lease).state is BatchState.READY


def test_a_lease_lasts_many_times_what_its_device_needs() -> None:
    run = paced(schedule("cpu", devices=TWO_HOSTS), a=5.0, b=50.0)
    first, second = run.top_up(0.0)[:2]
    assert claim(run, first, 100.0, "a") == pytest.approx(150.0)
    assert claim(run, second, 100.0, "b") == pytest.approx(600.0)
    assert find(run, first) not in run.expire(149.0)
    assert find(run, first) in run.expire(150.1)


def test_a_lease_that_waits_for_others_of_its_process_lasts_longer() -> None:
    run = paced(schedule("cpu"), cpu=5.0)
    first, second = run.top_up(0.0)[:2]
    deadlines = [claim(run, first), claim(run, second)]
    assert deadlines == pytest.approx([50.0, 100.0])


def test_a_batch_that_was_lost_gets_time_for_care() -> None:
    run = schedule("cpu", unknown_s=60.0, sample_s=30.0)
    lease = run.top_up(0.0)[0]
    assert claim(run, lease) == 60.0
    run.expire(60.0)
    second = again(run, lease.index, 60.0)
    assert (lease.losses, second.losses) == (0, 1)
    assert claim(run, second, 60.0) == 60.0 + 2 * (60.0 + 30.0)


# Commits


def test_committing_twice_is_harmless_and_no_news() -> None:
    run = schedule("cpu")
    lease = run.top_up(0.0)[0]
    finish(run, lease)
    assert run.commit(*key(lease), made("cpu"), 1.0) is False
    assert run.epochs[0].made_by[Prong.CPU] == 1
    run.fetch(0, 0, 0, 1)
    assert run.commit(*key(lease), made("cpu"), 2.0) is False


def test_a_commit_says_where_the_batch_lies_and_who_made_it() -> None:
    run = schedule("cpu")
    batch = finish(run, run.top_up(0.0)[0], now=3.0, seconds=0.5)
    assert (batch.device, batch.location, batch.nbytes) == ("cpu", "/store/cpu", 4096)
    assert (batch.checksum, batch.seconds, batch.ready_at) == (7, 0.5, 3.0)
    assert batch.samples == 1
    assert run.fleet.device_s("cpu") == pytest.approx(0.5)


def test_a_batch_slower_than_expected_is_made_at_last() -> None:
    run = schedule("cpu", batches=1, epochs=1)
    now = 0.0
    for _ in range(5):
        lease = run.top_up(now)[0]
        claim(run, lease, now)
        now += 150.0
        if not run.expire(now):
            break
        with pytest.raises(Refused):
            run.commit(*key(lease), made("cpu", 150.0), now)
    run.commit(*key(lease), made("cpu", 150.0), now)
    assert run.doom is None


# Failures


def test_a_permanent_failure_ends_the_run_at_once() -> None:
    run = schedule("cpu")
    lease = run.top_up(0.0)[0]
    claim(run, lease)
    run.fail(*key(lease), Failed("not an image", permanent=True), 0.0)
    assert run.doom == "batch 0 of epoch 0: not an image"


def test_messages_that_are_never_picked_up_do_not_count_as_failures() -> None:
    run = schedule("cpu", queued_s=0.0, unknown_s=1.0)
    for turn in range(20):
        run.top_up(turn * 100.0)
        run.expire(turn * 100.0 + 50)
    assert run.doom is None
    assert run.epochs[0].under_way[0].losses == 0


def test_leases_that_run_out_too_often_end_the_run_and_name_the_holder() -> None:
    run = schedule("cpu", batches=1, epochs=1, losses=3)
    now = 0.0
    for _ in range(3):
        lease = run.top_up(now)[0]
        now = claim(run, lease, now)
        run.expire(now)
    assert run.doom == "batch 0 of epoch 0: the lease ran out; it was held by cpu"


def test_a_full_store_makes_the_window_smaller() -> None:
    run = schedule("cpu", batches=20)
    made_one, refused = run.top_up(0.0)[:2]
    finish(run, made_one)
    claim(run, refused)
    run.no_room(*key(refused), "the disk is full", 0.0)
    assert run.room[Prong.CPU] == 1
    assert run.doom is None
    assert run.find(0, refused.index) in run.epochs[0].under_way.in_state(BatchState.LOST)


def test_a_store_that_stays_full_is_asked_less_and_less_and_ends_nothing() -> None:
    run = schedule("cpu", batches=1)
    now, asked_at = 0.0, []
    while len(asked_at) < 8:
        for lease in run.top_up(now):
            claim(run, lease, now)
            run.no_room(*key(lease), "the disk is full", now)
            asked_at.append(now)
        now += 0.25
    pauses = [later - earlier for earlier, later in itertools.pairwise(asked_at)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == 15.0
    assert run.doom is None
    assert explain_wait(run, 0, now) == "room in a store; cpu rests: the disk is full"


def test_a_store_that_has_room_again_is_filled_again() -> None:
    run = schedule("cpu", batches=20, stored={Prong.CPU: 4, Prong.CSD: 4})
    first, second = run.top_up(0.0)
    claim(run, first)
    run.no_room(*key(first), "the disk is full", 0.0)
    assert run.room[Prong.CPU] == 1
    finish(run, second, 1.0)
    taken = take(run, 10, now=1.0)
    assert len(taken) == 10
    assert run.room[Prong.CPU] == 4
    assert not run.resting


@pytest.mark.parametrize(("gone", "ends"), [(True, False), (False, True)])
def test_a_batch_that_is_damaged_again_and_again_ends_the_run_and_a_missing_one_does_not(
    gone: bool, ends: bool
) -> None:
    run = schedule("cpu", batches=1, epochs=1)
    now = 0.0
    while now < 200.0 and run.doom is None:
        for lease in run.top_up(now):
            finish(run, lease, now)
        for batch in run.fetch(0, 0, 0, 1):
            run.damaged(0, batch.index, batch.token, Failed("unreadable", gone=gone), now)
        now += 1.0
    if not ends:
        assert run.doom is None
        return
    assert run.doom is not None
    assert re.fullmatch(
        r"batch 0 of epoch 0 failed \d+ times in 6\d s on cpu: unreadable", run.doom
    )


def test_only_who_was_handed_a_batch_can_call_it_damaged() -> None:
    run = schedule("cpu")
    batch = finish(run, run.top_up(0.0)[0])
    with pytest.raises(Refused, match="was not handed out"):
        run.damaged(0, batch.index, batch.token, Failed("a bit flipped"), 0.0)
    run.fetch(0, 0, 0, 1)
    with pytest.raises(Refused, match="was not handed out"):
        run.damaged(0, batch.index, batch.token + 1, Failed("a bit flipped"), 0.0)


# Deaths


def test_a_dead_device_gives_back_what_it_held_at_once() -> None:
    run = schedule()
    for lease in run.top_up(0.0):
        claim(run, lease)
    assert {batch.index for batch in run.device_gone("csd", Prong.CSD)} == {9, 8}
    assert run.epochs[0].frontier.returned == {9, 8}


def test_what_lies_in_the_queue_of_a_dead_device_is_given_out_again() -> None:
    run = schedule()
    run.top_up(0.0)
    assert {batch.index for batch in run.device_gone("csd", Prong.CSD)} == {9, 8}


@pytest.mark.parametrize("name", ["mte", "wrr", "bounded"])
@pytest.mark.parametrize(("dead", "left"), [("csd", "cpu"), ("cpu", "csd")])
def test_the_living_prong_takes_over_what_the_dead_one_held(
    name: str, dead: str, left: str
) -> None:
    run = schedule(name, batches=6, epochs=1)
    for lease in run.top_up(0.0):
        claim(run, lease)
    run.device_gone(dead, Prong(dead))
    run.set_devices({left: (Prong(left), 1)})
    mine = [b for b in run.epochs[0].under_way.in_flight() if b.device == left]
    for batch in mine:
        run.commit(0, batch.index, batch.token, made(left), 1.0)
    assert sorted(batch.index for batch in take(run, 6, now=1.0)) == list(range(6))


def test_what_an_attempt_left_can_go_when_it_counts_no_more() -> None:
    run = schedule("cpu")
    lease = run.top_up(0.0)[0]
    claim(run, lease)
    run.device_gone("cpu", Prong.CPU)
    [void] = run.changes().void
    assert (void.device, void.index, void.token) == ("cpu", lease.index, lease.token)


def test_of_what_a_dead_process_held_only_the_one_it_was_at_is_counted() -> None:
    run = schedule("cpu")
    first, second = run.top_up(0.0)[:2]
    claim(run, first)
    claim(run, second)
    run.process_died(Holder("cpu", 1), CRASHED)
    assert (find(run, first).kills, find(run, second).kills) == (1, 0)
    assert find(run, first).careful
    run.process_died(Holder("cpu", 1), CRASHED)
    assert find(run, first).kills == 1


def test_of_what_a_dead_device_held_only_what_it_was_at_is_counted() -> None:
    run = schedule("cpu", devices={"cpu": (Prong.CPU, 2)})
    leases = run.top_up(0.0)
    for place, lease in enumerate(leases[:4]):
        claim(run, lease, process=1 + place % 2)
    run.device_gone("cpu", Prong.CPU, death=CRASHED)
    assert [find(run, lease).kills for lease in leases[:4]] == [1, 1, 0, 0]


def test_a_device_that_is_ended_because_of_one_batch_is_not_held_against_the_next() -> None:
    run = schedule("cpu", batches=2, epochs=1, unknown_s=20.0)
    now = 0.0
    for _ in range(4):
        slow, innocent = sorted(run.top_up(now), key=lambda lease: lease.index)
        deadline = claim(run, slow, now)
        claim(run, innocent, now)
        now = deadline
        assert find(run, slow) in run.expire(now)
        run.device_gone("cpu", Prong.CPU)
    assert find(run, innocent).kills == 0
    assert run.doom is None
