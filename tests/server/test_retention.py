"""What is older than it is kept goes: details of runs, the audit; certificates and totals stay."""

import asyncio
import uuid
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import func, select

from ddlp.core.errors import Conflict
from ddlp.core.types import Prong, RunState
from ddlp.server import certificates, ledger, quarantine, retention, runs
from ddlp.server.context import Context
from ddlp.server.ledger import audit
from ddlp.server.models import AuditEvent, BatchRow, Run, RunTrace
from ddlp.server.notary import Notary
from ddlp.server.retention import forget, forget_audit, forget_run_details
from ddlp.server.routes.exports import export
from tests.conftest import wait_until
from tests.server.apps import app_of
from tests.server.conftest import Plane
from tests.server.driving import deliver, feed, new_run, register, state_of


def finished(plane: Plane, images: Path) -> uuid.UUID:
    """A run whose one epoch was delivered."""
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", epochs=1)
    deliver(plane, run)
    feed(plane, run, 7, 7)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    return run


def rows(plane: Plane, table: type[BatchRow] | type[RunTrace], run: uuid.UUID) -> int:
    with plane.database.session() as session:
        query = select(func.count()).select_from(table).where(table.run_id == run)
        return int(session.scalar(query) or 0)


def test_details_go_once_all_is_certified_and_their_time_is_over(
    either_plane: Plane, images: Path
) -> None:
    plane = either_plane
    run = finished(plane, images)
    day = 86_400 * plane.settings.keep_run_details_d
    with plane.database.session() as session:
        forget(session, plane.settings, plane.now + day + 1)
    assert rows(plane, BatchRow, run) == 7, "no certificate, so they are needed still"
    Notary(plane.database).seal_one()
    with plane.database.session() as session:
        before = certificates.find(session, runs.find(session, str(run)), 0)
        forget(session, plane.settings, plane.now + day - 1)
    assert rows(plane, BatchRow, run) == 7
    assert rows(plane, RunTrace, run) == 1
    with plane.database.session() as session:
        forget(session, plane.settings, plane.now + day + 1)
    assert rows(plane, BatchRow, run) == rows(plane, RunTrace, run) == 0
    with plane.database.session() as session:
        row = runs.find(session, str(run))
        info = runs.info(session, row)
        assert info.details_removed_at == plane.now + day + 1
        assert info.images["cpu"] == 123
        assert certificates.find(session, row, 0) == before
        assert before.exactly_once
        assert runs.epochs(session, row)[0].delivered == {"cpu": 7, "csd": 0}
        assert quarantine.page(session, row, None, 10) == []


def test_batches_that_are_gone_are_neither_exported_nor_gone_back_to(
    plane: Plane, images: Path
) -> None:
    run = finished(plane, images)
    Notary(plane.database).seal_one()
    with plane.database.session() as session:
        forget_run_details(session, plane.now + 1, plane.now + 1)
    nothing = cast("Any", None)
    context = Context(plane.settings, plane.database, nothing, plane.dispatcher, *[nothing] * 6)
    with pytest.raises(Conflict, match="its certificates and totals are kept"):
        asyncio.run(export(str(run), context))
    operation = app_of(plane).openapi()["paths"]["/api/v1/runs/{ref}/export"]["get"]
    assert str(Conflict.status) in operation["responses"]
    with (
        plane.database.session() as session,
        pytest.raises(Conflict, match="DDLP_KEEP_RUN_DETAILS_D"),
    ):
        ledger.load_epoch(session, session.get_one(Run, run), 0)


def test_a_run_under_way_keeps_all(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", epochs=1)
    deliver(plane, run, stop=3)
    with plane.database.session() as session:
        forget_run_details(session, plane.now + 10**9, plane.now)
    assert rows(plane, BatchRow, run) > 0


def test_the_audit_goes_with_its_time(plane: Plane) -> None:
    with plane.database.session() as session:
        for at in (100.0, 200.0):
            audit(session, "test", "test", at)
        session.flush()
        forget_audit(session, 200.0)
        assert list(session.scalars(select(AuditEvent.at))) == [200.0]


def test_the_batches_of_a_large_run_go_a_part_at_a_time(
    either_plane: Plane, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = either_plane
    run = finished(plane, images)
    Notary(plane.database).seal_one()
    monkeypatch.setattr(retention, "_ROWS_AT_ONCE", 3)
    later = plane.now + 1
    for left in (4, 1, 0):
        with plane.database.session() as session:
            forget_run_details(session, later, later)
        assert rows(plane, BatchRow, run) == left
        with plane.database.session() as session:
            removed_at = session.get_one(Run, run).details_removed_at
        assert removed_at == plane.now + 1, "what is there in part is neither exported nor used"
        later += 1
    assert rows(plane, RunTrace, run) == 0
