"""Batches dealt to ranks: in one order for all, again when asked again, from where it was left."""

from itertools import cycle

import pytest

from ddlp.core.errors import Conflict, InvalidInput, Refused
from ddlp.core.schedule import EpochSchedule, Failed, RunSchedule, strategy
from ddlp.core.takeover import Origin
from ddlp.core.types import BatchState, End, EpochState, Prong
from tests.core.schedule.making import claim, finish, key, made, make_all, schedule, take, work_off


def test_ranks_take_turns_in_one_order_of_delivery() -> None:
    run = schedule("cpu", batches=6, epochs=1, world_size=3)
    make_all(run)
    got = {rank: [batch.index for batch in run.fetch(rank, 0, 0, 2)] for rank in (2, 0, 1)}
    assert got == {0: [0, 3], 1: [1, 4], 2: [2, 5]}
    assert [find_position(run, index) for index in range(6)] == list(range(6))


def find_position(run: RunSchedule, index: int) -> int | None:
    batch = run.find(0, index)
    return batch.position if batch else None


def test_a_rank_that_is_quicker_than_the_others_is_given_its_own_steps_only() -> None:
    run = schedule("wrr", batches=12, epochs=1, world_size=2, stored=dict.fromkeys(Prong, 12))
    make_all(run)
    first = [batch.index for batch in run.fetch(0, 0, 0, 6)]
    second = [batch.index for batch in run.fetch(1, 0, 0, 6)]
    assert sorted(first + second) == list(range(12))
    assert len(first) == len(second) == 6


def test_the_order_is_kept_as_two_numbers_whatever_was_dealt() -> None:
    run = schedule("wrr", batches=40, epochs=1)
    taken = take(run, 25)
    epoch = run.epochs[0]
    heads = sum(not batch.from_tail for batch in taken)
    assert (epoch.dealt[End.HEAD], epoch.dealt[End.TAIL]) == (heads, 25 - heads)
    assert sorted(batch.index for batch in taken) == [*range(heads), *range(15 + heads, 40)]


def test_asking_again_gives_the_same_batches_again() -> None:
    run = schedule("cpu")
    make_all(run)
    first = run.fetch(0, 0, 0, 2)
    assert run.fetch(0, 0, 0, 2) == first
    assert run.fetch(0, 0, 1, 1) == first[1:]


def test_nothing_comes_after_a_step_that_is_made_again() -> None:
    run = schedule("cpu")
    make_all(run)
    first, second = run.fetch(0, 0, 0, 2)
    run.damaged(0, first.index, first.token, Failed("a bit flipped"), 0.0)
    assert run.fetch(0, 0, 0, 2) == []
    again = next(grant for grant in run.top_up(1.0) if grant.index == first.index)
    batch = finish(run, again)
    assert run.fetch(0, 0, 0, 2) == [batch, second]
    assert (batch.position, batch.attempt) == (0, 2)


def test_claiming_to_have_received_more_than_was_given_is_refused() -> None:
    run = schedule("cpu")
    run.top_up(0.0)
    with pytest.raises(Conflict, match=r"received 7 .* but was given 0; attach it again"):
        run.fetch(0, 0, 7, 1)


@pytest.mark.parametrize("rank", [-1, 1])
def test_a_rank_outside_the_world_is_refused(rank: int) -> None:
    run = schedule()
    with pytest.raises(InvalidInput, match=f"rank {rank} is not in a world of 1"):
        run.fetch(rank, 0, 0, 1)
    with pytest.raises(InvalidInput, match=f"rank {rank}"):
        run.consume(rank, 0, 1)


def test_an_epoch_past_the_last_is_refused() -> None:
    with pytest.raises(Conflict, match="epoch 2 is past the run's 2 epochs"):
        schedule().fetch(0, 2, 0, 1)


def test_consuming_counts_what_was_handed_and_no_more() -> None:
    run = schedule("cpu")
    make_all(run)
    run.fetch(0, 0, 0, 3)
    assert [batch.index for batch in run.consume(0, 0, 2)] == [0, 1]
    assert run.consume(0, 0, 2) == []
    assert [batch.index for batch in run.consume(0, 0, 9)] == [2]
    assert run.epochs[0].consumed == 3
    assert run.find(0, 2) is None


def test_a_run_is_finished_when_the_last_batch_of_the_last_epoch_is_consumed() -> None:
    run = schedule("wrr", batches=4)
    take(run, 4)
    run.changes()
    take(run, 3, epoch=1)
    assert not run.finished
    take(run, 1, epoch=1, done=3)
    assert run.finished
    assert run.epochs[1].state is EpochState.COMPLETE


def test_the_next_epoch_is_begun_while_the_last_one_is_delivered_but_not_two() -> None:
    run = schedule(batches=2, epochs=9)
    for _ in range(20):
        work_off(run)
    assert sorted(run.epochs) == [0, 1]


def test_skipping_ahead_abandons_the_epoch_that_was_left() -> None:
    run = schedule("cpu", batches=4)
    make_all(run)
    run.fetch(0, 0, 0, 1)
    run.fetch(0, 1, 0, 1)
    closed = {epoch.number: epoch.state for epoch in run.changes().epochs}
    assert closed[0] is EpochState.ABANDONED
    assert all(grant.epoch == 1 for grant in run.top_up(0.0))


def test_an_epoch_stays_open_until_the_last_rank_has_left_it() -> None:
    run = schedule("cpu", batches=4, world_size=2)
    make_all(run)
    run.fetch(0, 1, 0, 1)
    assert run.epochs[0].state is EpochState.OPEN
    run.fetch(1, 1, 0, 1)
    assert run.epochs[0].state is EpochState.ABANDONED


def test_an_epoch_without_batches_is_complete_at_once() -> None:
    run = schedule("cpu", batches=0, epochs=1)
    assert run.fetch(0, 0, 0, 4) == []
    assert run.rank_done(0, 0, 0)
    assert run.finished


def test_only_what_changed_has_to_be_remembered() -> None:
    run = schedule()
    grants = run.top_up(0.0)
    assert len(run.changes().batches) == len(grants)
    assert run.changes().batches == []
    finish(run, grants[0])
    assert [batch.state for batch in run.changes().batches] == [BatchState.READY]
    assert run.changes().epochs == []


# Going back


@pytest.mark.parametrize("name", ["mte", "wrr", "bounded", "cpu", "csd"])
def test_going_back_delivers_the_same_batches_for_the_same_steps(name: str) -> None:
    run = schedule(name, batches=12)
    taken = take(run, 9)
    run.go_back(0, 0, 4, taken[4:])
    assert run.epochs[0].consumed == 4
    again = take(run, 8, now=1.0, done=4)
    assert [batch.index for batch in again[:5]] == [batch.index for batch in taken[4:]]
    assert sorted(batch.index for batch in [*taken[:4], *again]) == list(range(12))


def test_an_epoch_that_was_complete_is_open_again_after_going_back() -> None:
    run = schedule("wrr", batches=5)
    taken = take(run, 5)
    assert run.epochs[0].state is EpochState.COMPLETE
    run.go_back(0, 0, 3, taken[3:])
    assert run.epochs[0].state is EpochState.OPEN
    assert [batch.index for batch in take(run, 2, done=3)] == [b.index for b in taken[3:]]
    assert run.epochs[0].state is EpochState.COMPLETE


def test_one_rank_goes_back_and_the_others_stay_where_they_are() -> None:
    run = schedule("cpu", batches=6, epochs=1, world_size=2)
    make_all(run)
    run.fetch(0, 0, 0, 3)
    run.fetch(1, 0, 0, 3)
    mine = run.consume(0, 0, 3)
    run.consume(1, 0, 3)
    run.go_back(0, 0, 1, mine[1:])
    make_all(run)
    assert run.epochs[0].acknowledged == [1, 3]
    assert [batch.index for batch in run.fetch(0, 0, 1, 3)] == [2, 4]
    assert run.fetch(1, 0, 3, 3) == []


@pytest.mark.parametrize("name", ["mte", "wrr", "bounded"])
@pytest.mark.parametrize(("heads", "tails"), [(0, 0), (3, 2), (0, 4), (9, 0), (6, 3)])
def test_an_epoch_taken_up_at_two_numbers_delivers_just_the_rest(
    name: str, heads: int, tails: int
) -> None:
    run = schedule(name, batches=10, epochs=1)
    done = heads + tails
    epoch = run.take_over(Origin("another", 0, done, heads, (run.plan.whole,)), {})
    assert epoch.segment.position == done
    seen = [place for batch in take(run, 10 - done) for place in places(epoch, batch.index)]
    assert sorted(seen) == list(range(heads, 10 - tails))
    assert epoch.state is EpochState.COMPLETE
    assert run.finished


# Another number of ranks


def places(epoch: EpochSchedule, index: int) -> list[int]:
    """The places of the epoch's order that a batch holds."""
    return [p for start, stop in epoch.segment.places(index) for p in range(start, stop)]


@pytest.mark.parametrize("name", ["mte", "wrr", "bounded"])
@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2), (1, 4), (4, 1)])
def test_the_rest_of_an_epoch_is_cut_anew_for_other_ranks(
    name: str, before: int, after: int
) -> None:
    run = schedule(
        name, batches=24, world_size=before, batch_size=4, stored=dict.fromkeys(Prong, 24)
    )
    make_all(run)
    epoch = run.epochs[0]
    seen: list[int] = []
    for rank in range(before):
        run.fetch(rank, 0, 0, 3)
    done = [batch for rank in range(before) for batch in run.consume(rank, 0, 3)]
    for batch in done:
        seen += places(epoch, batch.index)
    tails = sum(batch.from_tail for batch in done)
    run.cut_anew(epoch, len(done) - tails, tails, after)
    assert (epoch.segment.first, epoch.segment.position) == (24, 3 * before)
    make_all(run)
    for step in range(epoch.segment.rounds):
        for rank in range(after):
            make_all(run)
            [batch] = run.fetch(rank, 0, step, 1)
            seen += places(epoch, batch.index)
            run.consume(rank, 0, step + 1)
    assert sorted(seen) == list(range(96))
    assert epoch.state is EpochState.COMPLETE
    assert run.plan.world_size == after


def test_what_was_leased_or_made_before_a_cut_counts_no_more() -> None:
    run = schedule("cpu", batches=8)
    leased, ready = run.top_up(0.0)[:2]
    claim(run, leased)
    finish(run, ready)
    run.changes()
    run.cut_anew(run.epochs[0], 0, 0, 2)
    assert {void.token for void in run.changes().void} == {leased.token, ready.token}
    with pytest.raises(Refused):
        run.commit(*key(leased), made("cpu"), 1.0)
    assert min(grant.index for grant in run.top_up(1.0)) == 8


def test_indices_and_tokens_are_never_used_twice() -> None:
    run = schedule("wrr", batches=8, epochs=1)
    seen: list[tuple[int, int]] = []
    for world_size in (2, 1, 3):
        seen += [(grant.index, grant.token) for grant in run.top_up(0.0)]
        run.cut_anew(run.epochs[0], 0, 0, world_size)
    assert len({index for index, _ in seen}) == len({token for _, token in seen}) == len(seen)


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 2)])
def test_a_cut_can_be_taken_back_by_going_to_a_place_before_it(before: int, after: int) -> None:
    run = schedule("cpu", batches=24, world_size=before, stored=dict.fromkeys(Prong, 24))
    make_all(run)
    epoch = run.epochs[0]
    for rank in range(before):
        run.fetch(rank, 0, 0, 12 // before)
        run.consume(rank, 0, 12 // before)
    run.cut_anew(epoch, 12, 0, after)
    make_all(run)
    for rank in range(after):
        run.fetch(rank, 0, 0, 2)
        run.consume(rank, 0, 2)
    epoch.uncut(6)
    assert [cut.world_size for cut in epoch.segments] == [before]
    assert epoch.acknowledged == [12 // before] * before
    run.cut_anew(epoch, 6, 0, 4)
    assert (epoch.segment.position, epoch.segment.samples) == (6, 18)
    assert epoch.acknowledged == [0] * 4


# Another strategy


def test_switching_keeps_what_was_dealt_and_delivers_the_rest() -> None:
    run = schedule("wrr", batches=30, epochs=1)
    names = cycle(["mte", "cpu", "bounded", "csd"])
    order: list[int] = []
    while len(order) < 30:
        order += [batch.index for batch in take(run, 3, done=len(order))]
        run.switch(strategy(next(names)))
    assert sorted(order) == list(range(30))
    assert run.finished


def test_a_switch_forgets_what_the_old_strategy_had_fixed() -> None:
    run = schedule("mte", batches=6)
    take(run, 5)
    assert "split" in run.epochs[0].settled
    run.switch(strategy("wrr"))
    assert run.epochs[0].settled == {}
    assert run.changes().epochs[0].number == 0
