"""Who received what: sessions join, end, are followed by others, and go back."""

import pytest

from ddlp.core.errors import Conflict, InvalidInput
from ddlp.core.schedule import EpochSchedule, RunSchedule
from ddlp.core.sessions import SessionPart, Start
from ddlp.core.takeover import Origin
from ddlp.core.types import EpochState, Prong
from tests.core.schedule.making import make_all, schedule, take


def run_of(**fields: int) -> RunSchedule:
    return schedule("cpu", **{"batches": 12, "stored": dict.fromkeys(Prong, 99), **fields})


def train(run: RunSchedule, steps: int, rank: int = 0, epoch: int = 0) -> None:
    """A rank receives and consumes its first steps of an epoch."""
    known = run.epochs.get(epoch)
    for step in range(known.acknowledged[rank] if known else 0, steps):
        make_all(run)
        run.fetch(rank, epoch, step, 1)
        run.consume(rank, epoch, step + 1)


def stretches(run: RunSchedule, epoch: int = 0, rank: int = 0) -> list[tuple[str, int, int | None]]:
    mine = [part for part in run.epochs[epoch].parts if part.rank == rank]
    return [(part.session, part.first, part.last) for part in mine]


def part(run: RunSchedule, session: str, epoch: int = 0) -> SessionPart:
    [found] = [part for part in run.epochs[epoch].parts if part.session == session]
    return found


def test_a_session_has_received_nothing_before_its_first_batch() -> None:
    run = run_of()
    run.join(0, "one", Start.BEGINNING)
    assert run.epochs == {} or run.epochs[0].parts == []
    train(run, 3)
    assert stretches(run) == [("one", 0, None)]


def test_a_session_that_ends_has_received_what_it_consumed() -> None:
    run = run_of()
    run.join(0, "one", Start.BEGINNING)
    train(run, 3)
    run.fetch(0, 0, 3, 4)
    run.leave(0)
    one = part(run, "one")
    assert (one.last, one.received, one.handed) == (3, 3, 7)


def test_the_next_session_goes_on_where_the_one_before_it_ended() -> None:
    run = run_of(world_size=2)
    for rank in range(2):
        run.join(rank, f"one-{rank}", Start.BEGINNING)
        train(run, 2, rank)
    run.note_checkpoint((0, 2))
    run.join(0, "two-0", Start.CONTINUE)
    train(run, 3, 0)
    assert stretches(run) == [("one-0", 0, 4), ("two-0", 4, None)]
    assert stretches(run, rank=1) == [("one-1", 0, None)]
    two = part(run, "two-0")
    assert (two.start, two.checkpoint) == (Start.CONTINUE, (0, 2))
    assert two.lost(0) is not None


def test_in_the_next_epoch_it_goes_onward() -> None:
    run = run_of(batches=2)
    run.join(0, "one", Start.CONTINUE)
    train(run, 2)
    train(run, 1, epoch=1)
    assert part(run, "one", 0).start is Start.CONTINUE
    assert part(run, "one", 1).start is Start.ONWARD


def test_asking_again_does_not_make_another_part() -> None:
    run = run_of()
    run.join(0, "one", Start.BEGINNING)
    for _ in range(3):
        train(run, 2)
    assert stretches(run) == [("one", 0, None)]


def test_what_a_session_says_after_it_was_taken_to_have_ended_is_still_its_own() -> None:
    run = run_of()
    run.join(0, "one", Start.BEGINNING)
    train(run, 3)
    run.fetch(0, 0, 3, 2)
    run.leave(0)
    run.consume(0, 0, 5)
    assert stretches(run) == [("one", 0, 5)]
    train(run, 6)
    assert stretches(run) == [("one", 0, 5), ("one", 5, None)]


def test_without_sessions_nobody_is_named() -> None:
    run = run_of()
    train(run, 3)
    run.leave(0)
    assert run.epochs[0].parts == []


# Going back


def test_what_is_delivered_again_belongs_to_who_receives_it_then() -> None:
    run = run_of()
    run.join(0, "one", Start.BEGINNING)
    taken = take(run, 6)
    run.leave(0)
    run.go_back(0, 0, 4, taken[4:])
    run.join(0, "two", Start.STATE)
    train(run, 7)
    assert stretches(run) == [("one", 0, 4), ("two", 4, None)]
    assert part(run, "one").received == 6


def test_a_session_of_which_all_is_delivered_again_is_named_no_more() -> None:
    run = run_of()
    run.join(0, "one", Start.BEGINNING)
    taken = take(run, 4)
    run.join(0, "two", Start.CONTINUE)
    taken += take(run, 3, done=4)
    run.go_back(0, 0, 2, taken[2:])
    run.join(0, "three", Start.STATE)
    train(run, 3)
    assert stretches(run) == [("one", 0, 2), ("three", 2, None)]
    assert [part.lost(0) for part in run.epochs[0].parts] == [None, None]


def test_who_goes_to_a_place_beyond_its_last_word_received_all_before_it() -> None:
    run = run_of()
    run.join(0, "one", Start.BEGINNING)
    train(run, 2)
    run.fetch(0, 0, 2, 4)
    run.leave(0)
    run.go_back(0, 0, 5, [])
    run.join(0, "two", Start.STATE)
    train(run, 6)
    assert stretches(run) == [("one", 0, 5), ("two", 5, None)]


@pytest.mark.parametrize("ranks", [1, 3])
def test_where_ranks_change_each_segment_has_its_own_parts(ranks: int) -> None:
    run = run_of(world_size=2)
    for rank in range(2):
        run.join(rank, f"one-{rank}", Start.BEGINNING)
        train(run, 3, rank)
    run.cut_anew(run.epochs[0], 4, 0, ranks)
    assert run.sessions == {}
    for rank in range(ranks):
        run.join(rank, f"two-{rank}", Start.STATE)
        train(run, 1, rank)
    for rank in range(2):
        first = stretches(run, rank=rank)[0]
        assert first == (f"one-{rank}", 0, 4)
    assert {part.first for part in run.epochs[0].parts if part.start is Start.STATE} == {4}
    run.epochs[0].uncut(2)
    assert {part.session[:3] for part in run.epochs[0].parts} == {"one"}


# Where a rank stands


def test_a_rank_stands_at_its_first_step_that_is_not_consumed() -> None:
    run = run_of(batches=3)
    assert run.stands(0) == (0, 0)
    train(run, 2)
    assert run.stands(0) == (0, 2)
    train(run, 3)
    run.changes()
    assert run.stands(0) == (1, 0)
    train(run, 3, epoch=1)
    run.changes()
    assert run.stands(0) == (2, 0), "there is no such epoch"


def test_a_checkpoint_at_the_end_of_an_epoch_is_one_at_the_beginning_of_the_next() -> None:
    run = run_of(batches=4, world_size=2)
    train(run, 1)
    run.note_checkpoint((0, 2))
    assert run.checkpoint == (0, 2)
    run.note_checkpoint((0, 4))
    assert run.checkpoint == (1, 0)


# Epochs that are left


def test_an_epoch_that_is_left_ends_for_its_sessions_where_they_left_it() -> None:
    run = run_of()
    run.join(0, "one", Start.BEGINNING)
    train(run, 3)
    left = run.epochs[0]
    train(run, 1, epoch=1)
    assert left.state is EpochState.ABANDONED
    assert (left.consumed, part(run, "one", 1).start) == (3, Start.ONWARD)


def test_an_open_ended_run_goes_on_and_never_finishes() -> None:
    run = RunSchedule(run_of().plan, run_of().strategy)
    run.plan = type(run.plan)(4, 1, None, 0)
    run.set_devices({"cpu": (Prong.CPU, 4)})
    for epoch in range(5):
        train(run, 4, epoch=epoch)
        run.changes()
        assert not run.finished


# Another number of ranks before anything was delivered, and another run


def test_the_first_trainers_say_how_many_ranks_share_a_run() -> None:
    run = run_of()
    before = run.top_up(0.0)
    run.change_ranks(3)
    assert {void.token for void in run.changes().void} == set()
    assert run.plan.world_size == 3
    make_all(run)
    assert [batch.index for batch in run.fetch(2, 0, 0, 9)] == [2, 5, 8, 11]
    assert min(grant.token for grant in before) < run.next_token


STATE = Origin("another", 0, 5, 5, (run_of().plan.whole,))


def test_what_a_run_made_before_it_took_over_counts_no_more() -> None:
    run = run_of()
    run.join(0, "early", Start.BEGINNING)
    train(run, 2)
    run.changes()
    voided = {batch.token for epoch in run.epochs.values() for batch in epoch.under_way}
    epoch = run.take_over(STATE, {})
    assert {void.token for void in run.changes().void} == voided
    assert (epoch.parts, run.sessions) == ([], {})
    assert (epoch.origin, epoch.consumed, run.next_epoch) == (STATE, 5, 1)


def test_a_whole_epoch_that_was_delivered_is_followed_by_the_next() -> None:
    done = Origin("another", 0, 12, 12, (run_of().plan.whole,))
    epoch = run_of().take_over(done, {})
    assert (epoch.number, epoch.segment.position, epoch.origin) == (1, 0, done)


@pytest.mark.parametrize(("epoch", "position"), [(2, 3), (1, 12)])
def test_a_state_past_the_last_epoch_is_refused_and_changes_nothing(
    epoch: int, position: int
) -> None:
    run = run_of()
    make_all(run)
    before = dict(run.epochs)
    with pytest.raises(Conflict, match=r"goes on with epoch 2, which is past the run's 2 epochs"):
        run.take_over(Origin("another", epoch, position, position, (run.plan.whole,)), {})
    assert run.epochs == before


def test_a_state_over_other_samples_is_refused() -> None:
    with pytest.raises(InvalidInput, match="the state cannot be of a run over 12 samples"):
        run_of().take_over(Origin("another", 0, 0, 0, (run_of(batches=13).plan.whole,)), {})


@pytest.mark.parametrize("name", ["mte", "bounded", "cpu", "csd"])
@pytest.mark.parametrize("done", [2, 4, 8, 14])
def test_a_run_that_takes_over_goes_on_in_the_same_order(name: str, done: int) -> None:
    """What the strategy had fixed goes along with the state."""

    def places(epoch: EpochSchedule, indices: list[int]) -> list[object]:
        return [epoch.segment.places(index) for index in indices]

    def fresh() -> RunSchedule:
        return schedule(
            name, 18, 1, batch_size=3, calibration_batches=2, stored=dict.fromkeys(Prong, 2)
        )

    whole = fresh()
    epoch = whole.epochs.setdefault(0, EpochSchedule.fresh(0, whole.plan.whole))
    whole.next_epoch = 1
    taken = take(whole, done)
    heads = whole.round_heads(0, done)
    assert heads == sum(not batch.from_tail for batch in taken)
    state = Origin("whole", 0, done, heads, tuple(epoch.segments))
    settled = whole.settled(0)
    if name in ("mte", "bounded") and done > 4:
        assert settled, "both prongs were calibrated by then"
    wanted = places(epoch, [batch.index for batch in take(whole, 18 - done, done=done)])
    other = fresh()
    rest = other.take_over(state, settled)
    assert places(rest, [batch.index for batch in take(other, 18 - done)]) == wanted


def test_heads_of_steps_that_were_not_dealt_are_not_known() -> None:
    run = run_of(world_size=2)
    train(run, 3)
    assert [run.round_heads(0, step) for step in range(5)] == [0, 2, 4, None, None]
    run.cut_anew(run.epochs[0], 4, 0, 2)
    assert [run.round_heads(0, step) for step in range(4)] == [0, None, None, None]
    assert run.round_heads(7, 0) is None
