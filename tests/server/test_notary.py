"""Certificates are sealed in order, chained, once each, and whatever the database does."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import text

from ddlp.core.certificate import genesis, verify
from ddlp.core.errors import NotFound
from ddlp.core.types import EpochState, Prong, RunState
from ddlp.server import certificates
from ddlp.server.database import Database
from ddlp.server.models import CertificateRow, Epoch
from ddlp.server.notary import Notary
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import Job, certificate_of, new_run, register, rewind, state_of


def trained(plane: Plane, images: Path, epochs: int = 3) -> uuid.UUID:
    """A run whose epochs are over, apart from the last."""
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", epochs=epochs + 1)
    job = Job(plane, run)
    for epoch in range(epochs):
        job.train(epoch, 7)
    return run


def sealed(plane: Plane) -> list[int]:
    with plane.database.session() as session:
        return [
            row.epoch for row in session.query(CertificateRow).order_by(CertificateRow.sealed_at)
        ]


def test_certificates_are_sealed_in_order_and_chained(either_plane: Plane, images: Path) -> None:
    run = trained(either_plane, images)
    with either_plane.database.session() as session:
        for epoch in session.query(Epoch):
            epoch.started_at = -epoch.number  # a clock was set back
    notary = Notary(either_plane.database)
    assert [notary.seal_one() for _ in range(4)] == [True, True, True, False]
    assert sealed(either_plane) == [0, 1, 2]
    found = [certificate_of(either_plane, run, epoch) for epoch in range(3)]
    assert [verify(certificate) for certificate in found] == [[], [], []]
    assert found[0].previous == genesis(found[0].model_dump(mode="json"))
    assert [c.previous for c in found[1:]] == [c.digest for c in found[:2]]


def test_certificates_are_chained_before_they_are_sealed_too(plane: Plane, images: Path) -> None:
    run = trained(plane, images)
    drawn_up = [certificate_of(plane, run, epoch) for epoch in range(3)]
    assert sealed(plane) == []
    assert [c.previous for c in drawn_up[1:]] == [c.digest for c in drawn_up[:2]]
    notary = Notary(plane.database)
    while notary.seal_one():
        pass
    assert [certificate_of(plane, run, epoch) for epoch in range(3)] == drawn_up


def test_an_epoch_that_is_not_over_is_shown_but_not_sealed(plane: Plane, images: Path) -> None:
    run = trained(plane, images, epochs=1)
    Job(plane, run, epoch=1).take(0)
    notary = Notary(plane.database)
    assert [notary.seal_one(), notary.seal_one()] == [True, False]
    open_one = certificate_of(plane, run, 1)
    assert (open_one.state, open_one.exactly_once) == (EpochState.OPEN, False)
    assert open_one.previous == certificate_of(plane, run, 0).digest
    with pytest.raises(NotFound, match="has not opened epoch 7"):
        certificate_of(plane, run, 7)


def test_what_a_cancelled_run_left_open_is_sealed_as_abandoned(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    Job(plane, run).take(3)
    plane.dispatcher.change_state(run, RunState.CANCELLED).result(10)
    assert Notary(plane.database).seal_one()
    certificate = certificate_of(plane, run)
    assert (certificate.state, certificate.exactly_once) == (EpochState.ABANDONED, False)
    assert verify(certificate) == certificate.problems
    assert len(certificate.checksums) == 16 * 2, "the third was not used up"


def test_two_notaries_seal_each_certificate_once(either_plane: Plane, images: Path) -> None:
    trained(either_plane, images)
    notaries = [Notary(Database(either_plane.settings.database)) for _ in range(2)]
    for notary in notaries:
        notary.start()
    wait_until(lambda: len(sealed(either_plane)) == 3)
    for notary in notaries:
        notary.stop()
        notary._database.close()
    assert sorted(sealed(either_plane)) == [0, 1, 2]


def test_a_database_that_fails_is_survived(
    plane: Plane, images: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trained(plane, images, epochs=1)
    notary = Notary(plane.database)
    with plane.database.session() as session:
        session.execute(text("alter table certificates rename to certificates_away"))
    notary.start()
    wait_until(lambda: "certificates cannot be sealed" in caplog.text)
    with plane.database.session() as session:
        session.execute(text("alter table certificates_away rename to certificates"))
    wait_until(lambda: sealed(plane) == [0])
    assert notary.is_alive()
    notary.stop()
    assert not notary.is_alive()


def is_blocked(plane: Plane) -> bool:
    """Whether a transaction waits for another one."""
    if plane.database.engine.dialect.name == "sqlite":
        return False
    waiting = text("select count(*) from pg_stat_activity where wait_event_type = 'Lock'")
    with plane.database.session() as session:
        return bool(session.scalar(waiting))


def test_an_epoch_that_is_gone_back_to_while_it_is_certified_is_not_sealed(
    either_plane: Plane, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = either_plane
    run = trained(plane, images, epochs=1)
    draw_up = certificates.draw_up
    with ThreadPoolExecutor(1) as pool:

        def draw_up_late(*arguments):  # type: ignore[no-untyped-def]
            found = draw_up(*arguments)
            going_back = pool.submit(rewind, plane, run, 5)
            wait_until(lambda: going_back.done() or is_blocked(plane))
            return found

        monkeypatch.setattr(certificates, "draw_up", draw_up_late)
        notary = Notary(plane.database)
        notary.seal_one()
        monkeypatch.undo()
    assert sealed(plane) == []
    assert not notary.seal_one()
    job = Job(plane, run, step=5)
    job.take(2)
    job.acknowledge()
    assert notary.seal_one()
    assert certificate_of(plane, run).exactly_once


def test_a_run_that_is_removed_meanwhile_is_no_trouble(
    plane: Plane, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(plane, images, epochs=1)
    plane.dispatcher.change_state(run, RunState.CANCELLED).result(10)
    draw_up = certificates.draw_up

    def draw_up_late(*arguments):  # type: ignore[no-untyped-def]
        found = draw_up(*arguments)
        with plane.database.session() as session:
            session.execute(text("delete from runs"))
        return found

    monkeypatch.setattr(certificates, "draw_up", draw_up_late)
    assert not Notary(plane.database).seal_one()
    assert sealed(plane) == []


def test_a_run_is_completed_whether_or_not_it_is_sealed(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    Job(plane, run).train(0, 7)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    assert sealed(plane) == []
    assert certificate_of(plane, run).exactly_once
