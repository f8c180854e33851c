"""A run is proved on the server: whole, in parts, and not where its record was changed."""

import json
import uuid
from itertools import count
from pathlib import Path

import pytest

from ddlp.core.messages.proof import ProofInfo
from ddlp.core.types import Prong, RunState
from ddlp.server import certificates, proofs
from ddlp.server.models import CertificateRow, Run
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import Job, new_run, register, state_of

EPOCHS = 4


@pytest.fixture
def run(plane: Plane, images: Path) -> uuid.UUID:
    """A run of four epochs that was completed."""
    register(plane, Prong.CPU)
    found = new_run(plane, images, name="r50", strategy="cpu", epochs=EPOCHS)
    job = Job(plane, found)
    for epoch in range(EPOCHS):
        job.train(epoch, 7)
    wait_until(lambda: state_of(plane, found) is RunState.COMPLETED)
    return found


def seal_all(plane: Plane) -> None:
    with plane.database.session() as session:
        while certificates.seal_next(session):
            pass


def prove(plane: Plane, run: uuid.UUID, first: int = 0, limit: int = 1000) -> ProofInfo:
    with plane.database.session() as session:
        return proofs.prove(session, session.get_one(Run, run), first, limit)


@pytest.mark.parametrize("sealed", [False, True])
def test_a_completed_run_is_proved_sealed_or_not(
    plane: Plane, run: uuid.UUID, sealed: bool
) -> None:
    if sealed:
        seal_all(plane)
    found = prove(plane, run)
    assert found.exactly_once is True
    assert (found.run, found.samples, found.problems, found.bad) == ("r50", 123, {}, {})
    assert (found.epochs, found.first, found.checked, found.next) == (4, 0, 4, None)


def test_a_part_of_a_run_proves_nothing_of_the_whole(plane: Plane, run: uuid.UUID) -> None:
    seal_all(plane)
    first = prove(plane, run, limit=3)
    assert (first.checked, first.next, first.exactly_once) == (3, 3, None)
    rest = prove(plane, run, first=3)
    assert (rest.checked, rest.next, rest.exactly_once) == (1, None, None)
    assert rest.problems == {}, "it is chained to the one before, which was checked before"
    beyond = prove(plane, run, first=9)
    assert (beyond.checked, beyond.next, beyond.exactly_once) == (0, None, None)


def test_no_answer_takes_long(plane: Plane, run: uuid.UUID) -> None:
    ticks = count(0, 3)
    with plane.database.session() as session:
        row = session.get_one(Run, run)
        found = proofs.prove(session, row, clock=lambda: float(next(ticks)))
    assert (found.checked, found.next, found.exactly_once) == (2, 2, None)


def test_what_was_changed_in_the_database_is_found(plane: Plane, run: uuid.UUID) -> None:
    seal_all(plane)
    with plane.database.session() as session:
        row = session.get_one(CertificateRow, (run, 1))
        row.body = json.dumps({**json.loads(row.body), "strategy": "mte"})
        session.get_one(CertificateRow, (run, 3)).body = "nothing that can be read"
    found = prove(plane, run)
    assert found.exactly_once is False
    assert found.problems["epoch 1"] == ["its digest does not fit its content"]
    assert found.problems["epoch 3"][0].startswith("it is not a certificate")
    assert set(found.problems) == {"epoch 1", "epoch 3"}


def test_a_run_that_is_not_over_is_not_proved(plane: Plane, images: Path) -> None:
    run = new_run(plane, images, strategy="cpu", epochs=3)
    nothing = prove(plane, run)
    assert (nothing.epochs, nothing.checked, nothing.exactly_once) == (0, 0, False)
    assert nothing.problems == {"run": ["only 0 of 3 epochs were begun"]}
    register(plane, Prong.CPU)
    Job(plane, run).take(3)
    some = prove(plane, run)
    assert some.exactly_once is False
    assert some.problems["run"] == [f"only {some.epochs} of 3 epochs were begun"]
    assert some.problems["epoch 0"][0].startswith("not delivered (5)")
