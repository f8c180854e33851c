"""How sessions go on where it is not plain: shut out, back again, after a restart, with others."""

import uuid
from pathlib import Path

import pytest

from ddlp.core.errors import Conflict, Unavailable
from ddlp.core.messages import Taken
from ddlp.core.sessions import Start
from ddlp.core.takeover import Origin
from ddlp.core.types import Prong, RunState
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import ask, certificate_of, new_run, pass_time, register, state_of
from tests.server.trainers import Trainer, fall_silent, proof_of


@pytest.fixture
def run(plane: Plane, images: Path) -> uuid.UUID:
    register(plane, Prong.CPU)
    return new_run(plane, images, strategy="cpu")


def test_a_process_that_was_shut_out_by_another_world_size_is_not_entered_again(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", world_size=None)
    old = [Trainer(plane, run, rank, 2) for rank in range(2)]
    for trainer in old:
        trainer.join()
        trainer.take(1)
    fall_silent(plane)
    Trainer(plane, run, 0, 3).join(Start.EPOCH, epoch=0)
    for trainer in old:
        with pytest.raises(Conflict, match="is held by another process now"):
            trainer.feed()
    assert not isinstance(Trainer(plane, run, 1, 3).attach(), Taken)


def test_a_living_job_of_another_size_is_not_cut_off_by_a_late_begin(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", world_size=None)
    old = [Trainer(plane, run, rank, 2) for rank in range(2)]
    for trainer in old:
        trainer.join()
        trainer.take(1)
    fall_silent(plane)
    late = Trainer(plane, run, 0, 1)
    late.attach()
    old[1].feed()  # contact is back
    with pytest.raises(Conflict, match="is held by another process now"):
        late.begin(Start.EPOCH, epoch=0)
    assert old[1].take(1)


def test_a_session_that_goes_back_by_itself_is_certified_so(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", epochs=2)
    trainer = Trainer(plane, run)
    trainer.join()
    trainer.take(7)
    trainer.begin(Start.EPOCH, epoch=0)
    trainer.take(7)
    trainer.begin(Start.EPOCH, epoch=1)
    trainer.take(7)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    proof = proof_of(plane, run)
    assert (proof.exactly_once, proof.unbroken) == (True, False)
    assert proof.lost == {
        "epoch 0": ["rank 0: the session that had epoch 0 trained on it once more"]
    }


def test_how_a_session_came_is_remembered_over_restarts(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", epochs=2)
    first, second = Trainer(plane, run), Trainer(plane, run)
    first.join()
    first.take(3)
    first.leave()
    second.join(Start.CONTINUE)
    plane.restart()
    second.take(4)
    plane.restart()
    second.epoch, second.step = 1, 0
    second.take(7)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    proof = proof_of(plane, run)
    assert (proof.exactly_once, proof.unbroken) == (True, False)
    assert list(proof.lost) == ["epoch 0"], "it went on by itself from there"


def test_a_state_that_was_taken_and_not_loaded_does_not_mend_the_line(
    plane: Plane, run: uuid.UUID
) -> None:
    first, second = Trainer(plane, run), Trainer(plane, run)
    first.join()
    first.take(3)
    ask(plane, lambda board, *_: board.run(run).schedule.note_checkpoint((0, 3)))
    first.leave()
    second.join(Start.CONTINUE)
    second.take(4)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    proof = proof_of(plane, run)
    assert proof.unbroken is False
    [words] = proof.lost["epoch 0"]
    assert "but the session that went on there did not load it" in words


def test_what_another_run_went_on_from_is_not_taken_back(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    old, new = (new_run(plane, images, strategy="cpu", world_size=None) for _ in range(2))
    first, second = Trainer(plane, old), Trainer(plane, new)
    where = first.join()
    first.take(3)
    first.leave()
    state = Origin(str(old), 0, 3, 3, where.segments)
    second.join(Start.STATE, run=str(old), state=state, epoch=0, position=3)
    pair = Trainer(plane, old, 0, 2)
    pair.attach()
    with pytest.raises(Conflict, match="went on from place 3 of epoch 0 of run fruit-1"):
        pair.begin(Start.EPOCH, epoch=0)


def test_a_session_that_left_is_not_revived_by_a_late_word(plane: Plane, run: uuid.UUID) -> None:
    trainer = Trainer(plane, run)
    trainer.join()
    trainer.take(1)
    trainer.leave()
    with pytest.raises(Conflict):
        trainer.feed(want=0)
    assert state_of(plane, run) is RunState.PAUSED


def test_an_attach_that_comes_twice_changes_nothing(plane: Plane, run: uuid.UUID) -> None:
    trainer = Trainer(plane, run)
    trainer.join()
    trainer.take(2)
    assert not isinstance(trainer.attach(), Taken)
    assert trainer.take(1) == [2]


@pytest.mark.parametrize("same", [True, False])
def test_all_ranks_of_a_job_go_to_the_same_place(plane: Plane, images: Path, same: bool) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", world_size=2, epochs=2)
    first = [Trainer(plane, run, rank, 2) for rank in range(2)]
    for trainer in first:
        trainer.join()
    for trainer in first:
        trainer.take(3)
        trainer.leave()
    again = [Trainer(plane, run, rank, 2) for rank in range(2)]
    again[0].join(Start.STATE, epoch=0, position=4)
    if same:
        again[1].join(Start.STATE, epoch=0, position=4)
        return
    with pytest.raises(Unavailable, match="rank 0 of run fruit-1 is waited for"):
        again[1].join(Start.EPOCH, epoch=0)
    pass_time(plane, 1)
    again[0].feed(want=0)
    with pytest.raises(Conflict, match="went on at place 4 of epoch 0; all ranks must load"):
        again[1].begin(Start.EPOCH, epoch=0)
    assert certificate_of(plane, run).sessions[-1].first == 0, "nothing was changed"


def test_a_rank_that_begins_late_elsewhere_is_refused_although_the_others_went_on(
    plane: Plane, images: Path
) -> None:
    """Ranks that do not train in step would each train on other epochs, and nobody would know."""
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", world_size=2, epochs=3)
    quick, late = (Trainer(plane, run, rank, 2) for rank in range(2))
    quick.join(Start.EPOCH, epoch=0)
    late.attach()
    quick.take(2)
    pass_time(plane, 1)
    quick.feed(want=0)
    for start, epoch in ((Start.EPOCH, 1), (Start.STATE, 1)):
        with pytest.raises(Conflict, match="went on at place 0 of epoch 0"):
            late.begin(start, epoch=epoch)
    assert late.begin(Start.EPOCH, epoch=0).step == 0


def test_a_rank_that_is_started_again_alone_goes_to_where_the_others_have_been(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", world_size=2)
    other, dying, again = (Trainer(plane, run, rank, 2) for rank in (0, 1, 1))
    for trainer in (other, dying):
        trainer.join()
    for trainer in (other, dying):
        trainer.take(2)
    dying.leave()
    again.attach()
    pass_time(plane, 1)
    other.feed(want=0)
    assert again.begin(Start.STATE, epoch=0, position=2).step == 1


def test_ranks_of_an_earlier_job_that_are_dead_hold_nobody_up(plane: Plane, images: Path) -> None:
    """They were killed before they could say that they received anything."""
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", world_size=2)
    dead = [Trainer(plane, run, rank, 2) for rank in range(2)]
    for trainer in dead:
        trainer.join()
    again = [Trainer(plane, run, rank, 2) for rank in range(2)]
    for trainer, before in zip(again, dead, strict=True):
        trainer.who = trainer.who.model_copy(update={"dead": [before.who.session]})
        pass_time(plane, 1)
        trainer.attach()
        if trainer is again[0]:
            with pytest.raises(Unavailable, match="rank 1 of run fruit-1 is waited for"):
                trainer.begin(Start.STATE, epoch=0, position=2)
    for trainer in again:
        trainer.begin(Start.EPOCH, epoch=0)
