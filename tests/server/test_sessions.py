"""Who holds a rank, and how a process goes on with a run that is under way."""

import uuid
from collections import Counter
from pathlib import Path

import pytest

from ddlp.core.certificate import verify
from ddlp.core.errors import Conflict, InvalidInput
from ddlp.core.messages import FedBatch, FeedRequest, RunCreate, Taken
from ddlp.core.plan import Segment
from ddlp.core.sessions import Start
from ddlp.core.takeover import Origin
from ddlp.core.types import EpochState, Prong, RunState
from ddlp.server import runs, session_start
from ddlp.server.models import Run
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import (
    ask,
    certificate_of,
    new_run,
    reason_of,
    register,
    settle,
    state_of,
    work_off,
)
from tests.server.trainers import Trainer, fall_silent, proof_of


@pytest.fixture
def run(plane: Plane, images: Path) -> uuid.UUID:
    register(plane, Prong.CPU)
    return new_run(plane, images, strategy="cpu")


# A rank has one living holder


def test_a_rank_is_refused_while_its_holder_lives(plane: Plane, run: uuid.UUID) -> None:
    first, second = Trainer(plane, run), Trainer(plane, run)
    first.join()
    first.take(2)
    taken = second.attach()
    assert isinstance(taken, Taken)
    assert (taken.holder.session, taken.holder.rank) == (first.who.session, 0)
    with pytest.raises(Conflict, match="rank 0 of run fruit-1 is held by another process"):
        second.feed()
    with pytest.raises(Conflict, match="rank 0 of run fruit-1 is held by another process"):
        second.begin(Start.CONTINUE)
    assert first.take(1), "the first one was not disturbed"


def test_a_rank_is_free_once_its_holder_left_was_silent_or_is_known_dead(
    plane: Plane, run: uuid.UUID
) -> None:
    trainers = [Trainer(plane, run) for _ in range(4)]
    trainers[0].join()
    trainers[0].leave()
    trainers[1].join()
    fall_silent(plane)
    trainers[2].join()
    trainers[3].who = trainers[3].who.model_copy(update={"dead": [trainers[2].who.session]})
    trainers[3].join()
    with pytest.raises(Conflict, match="held by another process"):
        trainers[2].feed()


def test_who_was_silent_and_comes_back_goes_on_where_nobody_took_its_rank(
    plane: Plane, run: uuid.UUID
) -> None:
    trainer = Trainer(plane, run)
    trainer.join()
    trainer.take(3)
    fall_silent(plane)
    assert state_of(plane, run) is RunState.PAUSED
    trainer.take(4)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    assert proof_of(plane, run).exactly_once


# A run under way


def test_who_comes_to_a_run_under_way_must_say_how_it_goes_on(plane: Plane, run: uuid.UUID) -> None:
    first = Trainer(plane, run)
    first.join()
    first.take(3)
    first.leave()
    second = Trainer(plane, run)
    with pytest.raises(Conflict) as refused:
        second.join()
    for choice in ("load_state_dict(state)", "start=N", "set_epoch(N)", 'start="continue"'):
        assert choice in str(refused.value)
    assert "epoch 0, step 3" in str(refused.value)
    with pytest.raises(Conflict, match="has not said how it goes on"):
        second.feed()


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_run_is_under_way_from_the_first_batch_that_was_handed_out(
    plane: Plane, images: Path, ranks: int
) -> None:
    """Whoever was killed may have trained with what it had not said to be consumed."""
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", world_size=None)
    first, second = Trainer(plane, run), Trainer(plane, run, 0, ranks)
    first.join()
    work_off(plane)
    wait_until(first.feed)
    fall_silent(plane)
    with pytest.raises(Conflict, match="is under way"):
        second.join()
    assert second.join(Start.EPOCH, epoch=0).step == 0
    third = Trainer(plane, run, 1, ranks)
    if ranks == 2:
        third.join(Start.EPOCH, epoch=0)
    rounds = 7 if ranks == 1 else 4
    for _ in range(rounds):
        for trainer in [second, third][:ranks]:
            trainer.take(1)
    proof = proof_of(plane, run)
    assert (proof.exactly_once, proof.unbroken) == (True, True)


def test_who_opened_a_run_and_was_handed_nothing_leaves_it_untouched(
    plane: Plane, run: uuid.UUID
) -> None:
    first = Trainer(plane, run)
    first.join()
    first.leave()
    assert Trainer(plane, run).join().step == 0


def test_continuing_without_a_state_is_certified_as_a_lost_session(
    plane: Plane, run: uuid.UUID
) -> None:
    first, second = Trainer(plane, run), Trainer(plane, run)
    first.join()
    first.take(3)
    first.leave()
    assert second.join(Start.CONTINUE).step == 3
    second.take(4)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    assert sorted(first.received + second.received) == list(range(7))
    certificate = certificate_of(plane, run)
    assert verify(certificate) == []
    assert certificate.exactly_once
    found = proof_of(plane, run)
    assert (found.exactly_once, found.unbroken) == (True, False)
    [lost] = found.lost["epoch 0"]
    assert "a session was lost between step 0 of epoch 0 (no checkpoint) and step 3" in lost


def test_ranks_that_had_not_come_equally_far_continue_in_step(plane: Plane, images: Path) -> None:
    """Ranks that train in step would wait for ever for one that has fewer batches left."""
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", world_size=2)
    first = [Trainer(plane, run, rank, 2) for rank in range(2)]
    for trainer in first:
        trainer.join()
    before = [first[0].take(2), first[1].take(1)]
    fall_silent(plane)
    again = [Trainer(plane, run, rank, 2) for rank in range(2)]
    assert [trainer.join(Start.CONTINUE).step for trainer in again] == [1, 1]
    for _ in range(3):
        for trainer in again:
            trainer.take(1)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    assert again[0].received[0] == before[0][1], "it is delivered again"
    got = [before[0][0], *before[1], *again[0].received, *again[1].received]
    assert len(got) == len(set(got)) == 8
    proof = proof_of(plane, run)
    assert (proof.exactly_once, proof.unbroken) == (True, False)


def test_a_state_goes_on_in_an_unbroken_line(plane: Plane, run: uuid.UUID) -> None:
    first, second = Trainer(plane, run), Trainer(plane, run)
    first.join()
    order = first.take(5)
    first.leave()
    where = second.join(Start.STATE, epoch=0, position=3)
    assert where.step == 3
    assert second.take(4)[:2] == order[3:]
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    found = proof_of(plane, run)
    assert (found.exactly_once, found.unbroken, found.lost) == (True, True, {})
    parts = certificate_of(plane, run).sessions
    assert [(p.start, p.first, p.last, p.received) for p in parts] == [
        (Start.BEGINNING, 0, 3, 5),
        (Start.STATE, 3, 7, 7),
    ]


def test_an_epoch_from_its_beginning_is_delivered_again_and_certified_so(
    plane: Plane, run: uuid.UUID
) -> None:
    first, second = Trainer(plane, run), Trainer(plane, run)
    first.join()
    first.take(5)
    first.leave()
    second.join(Start.EPOCH, epoch=0)
    assert sorted(second.take(7)) == list(range(7))
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    found = proof_of(plane, run)
    assert (found.exactly_once, found.unbroken) == (True, True)


@pytest.mark.parametrize("same_process", [False, True])
def test_a_request_from_before_a_way_back_leads_nobody_on(
    plane: Plane, images: Path, same_process: bool
) -> None:
    """A killed process may have been waiting for a batch: its request is still there."""
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", epochs=2, cpu_window=1)
    first, second = Trainer(plane, run), Trainer(plane, run)
    first.join()
    first.take(7)
    request = FeedRequest(
        rank=0,
        session=first.who.session,
        turn=first.turn,
        epoch=1,
        received=0,
        consumed=0,
        want=1,
        wait_s=30,
    )
    stale = plane.dispatcher.feed(run, request)
    settle(plane)
    if same_process:
        second.who = first.who
    else:
        first.leave()
    assert second.begin(Start.EPOCH, epoch=0).step == 0
    with pytest.raises(Conflict):
        stale.result(10)
    assert sorted(second.take(7)) == list(range(7))
    second.epoch, second.step = 1, 0
    assert sorted(second.take(7)) == list(range(7))
    assert proof_of(plane, run).exactly_once


# Pausing, extending


def test_a_run_that_its_last_trainer_left_is_paused_and_goes_on(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", world_size=2)
    pair = [Trainer(plane, run, rank, 2) for rank in range(2)]
    for trainer in pair:
        trainer.join()
    for trainer in pair:
        trainer.take(1)
    pair[0].leave()
    assert state_of(plane, run) is RunState.RUNNING
    pair[1].leave()
    assert state_of(plane, run) is RunState.PAUSED
    assert reason_of(plane, run) == "no trainer is connected; the run resumes when one connects"
    Trainer(plane, run, 0, 2).join(Start.CONTINUE)
    assert state_of(plane, run) is RunState.RUNNING


@pytest.mark.parametrize("leaves_first", [False, True])
def test_a_run_that_a_person_paused_is_not_resumed_by_a_trainer(
    plane: Plane, run: uuid.UUID, leaves_first: bool
) -> None:
    trainer = Trainer(plane, run)
    trainer.join()
    trainer.take(1)
    if leaves_first:
        trainer.leave()
    plane.dispatcher.change_state(run, RunState.PAUSED).result(10)
    if not leaves_first:
        trainer.leave()
    Trainer(plane, run).join(Start.CONTINUE)
    assert state_of(plane, run) is RunState.PAUSED


def test_a_completed_run_is_given_more_epochs(plane: Plane, run: uuid.UUID) -> None:
    trainer = Trainer(plane, run)
    trainer.join()
    trainer.take(7)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    ask(plane, lambda board, session, now: session_start.extend_run(board, session, run, 3, now))
    assert state_of(plane, run) is RunState.PAUSED
    trainer.epoch, trainer.step = 1, 0
    trainer.take(7)
    trainer.epoch, trainer.step = 2, 0
    trainer.take(7)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    assert [certificate_of(plane, run, n).exactly_once for n in range(3)] == [True] * 3
    with pytest.raises(InvalidInput, match="has 3 epochs; 3 is not more"):
        ask(
            plane, lambda board, session, now: session_start.extend_run(board, session, run, 3, now)
        )


def test_nobody_holds_the_ranks_of_a_run_that_is_over(plane: Plane, run: uuid.UUID) -> None:
    first, second = Trainer(plane, run), Trainer(plane, run)
    first.join()
    first.take(7)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    second.begin(Start.EPOCH, epoch=0)
    assert sorted(second.take(7)) == list(range(7))
    assert proof_of(plane, run).exactly_once


def test_the_epoch_after_the_last_one_extends_a_completed_run(plane: Plane, run: uuid.UUID) -> None:
    trainer = Trainer(plane, run)
    trainer.join()
    trainer.take(7)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    trainer.epoch, trainer.step = 1, 0
    trainer.begin(Start.EPOCH, epoch=1)
    trainer.take(7)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    with pytest.raises(Conflict, match="ddlp run extend fruit-1 --epochs 6"):
        trainer.begin(Start.EPOCH, epoch=5)


# World sizes


def test_a_run_takes_its_world_size_from_its_first_trainers(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", world_size=None)
    trainers = [Trainer(plane, run, rank, 3) for rank in range(3)]
    for trainer in trainers:
        trainer.join()
    found: Counter[int] = Counter()
    rounds = trainers[0].join().rounds
    for trainer in trainers:
        found.update(trainer.take(rounds))
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    assert set(found.values()) == {1}
    assert certificate_of(plane, run).segments[0].world_size == 3
    assert proof_of(plane, run).unbroken


def test_another_world_size_than_the_fixed_one_is_refused_with_both_numbers(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", world_size=1)
    with pytest.raises(InvalidInput, match="was created for 1 rank, and this job has 2") as refused:
        Trainer(plane, run, 0, 2).attach()
    assert "without --world-size" in str(refused.value)


# Takeover


def test_a_new_run_takes_over_from_a_state_and_the_proof_spans_both(
    either_plane: Plane, images: Path
) -> None:
    plane = either_plane
    register(plane, Prong.CPU)
    register(plane, Prong.CSD)
    old = new_run(plane, images, strategy="wrr", epochs=2, world_size=None)
    first = Trainer(plane, old)
    where = first.join()
    taken: list[FedBatch] = []
    while len(taken) < 3:
        found = first.feed()
        taken += found
        first.step += len(found)
        if not found:
            work_off(plane)
    state = Origin(str(old), 0, 3, sum(not b.from_tail for b in taken), where.segments)
    plane.dispatcher.change_state(old, RunState.CANCELLED).result(10)
    plane.restart()
    new = new_run(plane, images, strategy="wrr", epochs=2, world_size=None)
    second = Trainer(plane, new, 0, 1)
    where = second.join(Start.STATE, run=str(old), state=state, epoch=0, position=3)
    assert (where.epoch, where.step, where.position, where.rounds) == (0, 0, 3, 4)
    second.take(4)
    plane.restart()
    second.epoch, second.step = 1, 0
    second.take(7)
    wait_until(lambda: state_of(plane, new) is RunState.COMPLETED)
    certificate = certificate_of(plane, new)
    assert verify(certificate) == []
    assert certificate.origin is not None
    assert certificate.origin.run == str(old)
    found_proof = proof_of(plane, new)
    assert found_proof.problems == {}
    assert (found_proof.exactly_once, found_proof.problems) == (True, {})
    assert found_proof.taken_over


def test_a_state_of_an_epoch_that_a_run_has_not_is_refused(plane: Plane, run: uuid.UUID) -> None:
    trainer = Trainer(plane, run)
    assert not isinstance(trainer.attach(), Taken)
    whole: Segment = ask(plane, lambda board, *_: board.run(run).schedule.plan.whole)
    state = Origin(str(uuid.uuid4()), 7, 3, 3, (whole,))
    with pytest.raises(Conflict, match="ddlp run extend fruit-1 --epochs N"):
        trainer.begin(Start.STATE, run="other", state=state)


def test_open_ended_runs_go_on_until_training_stops(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", epochs=None)
    trainer = Trainer(plane, run)
    trainer.join()
    for epoch in range(3):
        trainer.epoch, trainer.step = epoch, 0
        trainer.take(7)
    trainer.leave()
    assert state_of(plane, run) is RunState.PAUSED
    with plane.database.session() as session:
        row = session.get_one(Run, run)
        assert runs.info(session, row).epochs is None
        done = [epoch.state for epoch in runs.epochs(session, row)]
    assert done[:3] == [EpochState.COMPLETE] * 3


def test_a_run_is_created_with_a_number_of_epochs_or_without() -> None:
    assert RunCreate(dataset="fruit").epochs == 1
    assert RunCreate(dataset="fruit", epochs=None).epochs is None
