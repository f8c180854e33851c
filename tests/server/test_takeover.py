"""Runs that went on from another run's state, and what becomes of that when they begin again."""

import uuid
from pathlib import Path

import pytest

from ddlp.core.certificate import verify
from ddlp.core.sessions import Start
from ddlp.core.takeover import Origin
from ddlp.core.types import Prong, RunState
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import certificate_of, new_run, register, state_of
from tests.server.trainers import Trainer, fall_silent, proof_of

BATCHES = 7
EPOCHS = 3
ALL = list(range(BATCHES))


@pytest.fixture
def taken_over(plane: Plane, images: Path) -> tuple[uuid.UUID, Trainer]:
    """A run that went on in epoch 1 where another one had received three batches of it."""
    register(plane, Prong.CPU)
    old = new_run(plane, images, strategy="cpu", epochs=EPOCHS, world_size=None)
    first = Trainer(plane, old)
    where = first.join()
    first.take(BATCHES)
    first.epoch, first.step = 1, 0
    first.take(3)
    first.leave()
    new = new_run(plane, images, strategy="cpu", epochs=EPOCHS, world_size=None)
    second = Trainer(plane, new)
    state = Origin(str(old), 1, 3, 3, where.segments)
    second.join(Start.STATE, run=str(old), state=state, epoch=1, position=3)
    second.take(2)
    second.leave()
    return new, second


def train_from(plane: Plane, run: uuid.UUID, epoch: int, ranks: int = 1) -> list[list[int]]:
    """Begin with an epoch, and train to the end; what was received of each epoch."""
    job = [Trainer(plane, run, rank, ranks) for rank in range(ranks)]
    for trainer in job:
        trainer.join(Start.EPOCH, epoch=epoch)
    received = []
    for number in range(epoch, EPOCHS):
        for trainer in job:
            trainer.epoch, trainer.step, trainer.received = number, 0, []
        for _ in range(-(-BATCHES // ranks)):
            for trainer in job:
                trainer.take(1)
        received.append([index for trainer in job for index in trainer.received])
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    return received


def test_the_first_epoch_again_forgets_what_was_taken_over(
    plane: Plane, taken_over: tuple[uuid.UUID, Trainer]
) -> None:
    run, _ = taken_over
    assert [sorted(got) for got in train_from(plane, run, 0)] == [ALL] * EPOCHS
    assert all(certificate_of(plane, run, epoch).origin is None for epoch in range(EPOCHS))
    proof = proof_of(plane, run)
    assert (proof.exactly_once, proof.unbroken, proof.taken_over) == (True, True, [])


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_epoch_that_was_taken_over_is_delivered_whole_when_it_is_begun_again(
    plane: Plane, taken_over: tuple[uuid.UUID, Trainer], ranks: int
) -> None:
    run, _ = taken_over
    received = train_from(plane, run, 1, ranks)
    if ranks == 1:
        assert [sorted(got) for got in received] == [ALL, ALL]
    certificate = certificate_of(plane, run, 1)
    assert verify(certificate) == []
    assert certificate.origin is not None
    assert (certificate.origin.epoch, certificate.origin.position) == (1, 0)
    proof = proof_of(plane, run)
    assert (proof.exactly_once, proof.unbroken) == (True, False), "it was begun without a state"
    assert proof.problems == {}
    [words] = proof.taken_over
    assert words.endswith("after 0 batches of epoch 1")


def test_what_is_begun_again_survives_a_restart_of_the_server(
    plane: Plane, taken_over: tuple[uuid.UUID, Trainer]
) -> None:
    run, _ = taken_over
    third = Trainer(plane, run)
    third.join(Start.EPOCH, epoch=1)
    third.take(1)
    plane.restart()
    third.take(BATCHES - 1)
    assert sorted(third.received) == ALL
    assert certificate_of(plane, run, 1).exactly_once


def test_a_session_that_had_not_said_what_it_received_is_not_left_out_of_the_line(
    plane: Plane, images: Path
) -> None:
    """It took a state, and was killed before it could say that it had come so far."""
    register(plane, Prong.CPU)
    old = new_run(plane, images, strategy="cpu", epochs=1, world_size=None)
    first, lost = Trainer(plane, old), Trainer(plane, old)
    where = first.join()
    first.take(3)
    first.leave()
    lost.join(Start.CONTINUE)
    wait_until(lost.feed)
    fall_silent(plane)
    new = new_run(plane, images, strategy="cpu", epochs=1, world_size=None)
    last = Trainer(plane, new)
    state = Origin(str(old), 0, 4, 4, where.segments)
    last.join(Start.STATE, run=str(old), state=state, epoch=0, position=4)
    last.take(BATCHES - 4)
    wait_until(lambda: state_of(plane, new) is RunState.COMPLETED)
    proof = proof_of(plane, new)
    assert (proof.exactly_once, proof.unbroken) == (True, False), proof
    assert any("a session was lost" in line for lines in proof.lost.values() for line in lines)
