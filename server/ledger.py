"""Writes what the scheduling core decided into SQL, and reads it back after a restart."""

import uuid
from collections.abc import Set
from dataclasses import fields
from typing import Any

from sqlalchemy import func, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from ddlp.core.errors import NotFound
from ddlp.core.lifecycle import TERMINAL, check_change
from ddlp.core.schedule import Batch, Changes, EpochSchedule
from ddlp.core.schedule.frontier import Frontier
from ddlp.core.types import BatchState, EpochState, Prong, RunState
from ddlp.server import quarantine
from ddlp.server.models import AuditEvent, BatchRow, Epoch, Rollup, Run, RunTotal
from ddlp.server.telemetry import PERIOD_S, Bucket

_ROLLUP_KEY = ["run_id", "at", "period_s", "source"]
_BATCH_FIELDS = [field.name for field in fields(Batch)]


def save_changes(session: Session, run_id: uuid.UUID, changes: Changes, now: float) -> None:
    """Remember batches, their bad samples, and epochs that changed."""
    _upsert(session, BatchRow, [_batch_values(run_id, b) for b in changes.batches])
    quarantine.save(session, run_id, changes.mishaps)
    _upsert(session, Epoch, [_epoch_values(run_id, e, now) for e in changes.epochs], {"started_at"})


def save_rollups(
    session: Session, run_id: uuid.UUID, buckets: dict[tuple[int, str], Bucket]
) -> None:
    """Remember seconds that are over."""
    for (at, source), bucket in buckets.items():
        values = vars(bucket) | {"run_id": run_id, "source": source}
        kept = {name: values[name] for name in values if name in Rollup.__table__.columns}
        _add_up(session, Rollup, {**kept, "at": at, "period_s": PERIOD_S}, _ROLLUP_KEY)
        kept = {name: values[name] for name in values if name in RunTotal.__table__.columns}
        _add_up(session, RunTotal, {**kept, "first_at": at, "last_at": at}, ["run_id", "source"])


def change_state(
    session: Session, run: Run, wanted: RunState, now: float, reason: str | None = None
) -> None:
    """The one place where a run's state changes."""
    check_change(run.name, RunState(run.state), wanted)
    was, run.state = run.state, wanted.value
    run.reason = reason
    if wanted is RunState.RUNNING and run.started_at is None:
        run.started_at = now
    if wanted in TERMINAL:
        run.ended_at = now
    audit(session, f"run.{wanted.value}", run.name, now, was=was, reason=reason)


def audit(session: Session, action: str, subject: str, now: float, **detail: Any) -> None:
    """Record who did what; until there are keys everybody is `local`."""
    session.add(AuditEvent(at=now, actor="local", action=action, subject=subject, detail=detail))


def load_epochs(session: Session, run: Run) -> dict[int, EpochSchedule]:
    """The open epochs of a run, as the scheduling core knows them."""
    rows = session.scalars(
        select(Epoch).where(Epoch.run_id == run.id, Epoch.state == EpochState.OPEN.value)
    )
    return {row.number: _load_epoch(session, run, row) for row in rows}


def load_epoch(session: Session, run: Run, number: int) -> EpochSchedule:
    """One epoch of a run, open or closed, as the scheduling core knows it."""
    row = session.get(Epoch, (run.id, number))
    if row is None:
        raise NotFound(f"run {run.name} has not opened epoch {number}")
    return _load_epoch(session, run, row)


def consumed_since(
    session: Session, run_id: uuid.UUID, epoch: int, rank: int, step: int
) -> list[Batch]:
    """What a rank has consumed of an epoch from a step on."""
    rows = session.scalars(
        select(BatchRow).where(
            BatchRow.run_id == run_id,
            BatchRow.epoch == epoch,
            BatchRow.state == BatchState.CONSUMED.value,
            BatchRow.rank == rank,
            BatchRow.step >= step,
        )
    )
    return [_batch_from(row) for row in rows]


def over_runs(session: Session) -> list[uuid.UUID]:
    """The runs that have ended."""
    ended = [state.value for state in TERMINAL]
    return list(session.scalars(select(Run.id).where(Run.state.in_(ended))))


def next_token(session: Session, run_id: uuid.UUID) -> int:
    """A fencing token above all that this run ever gave out."""
    highest = session.scalar(select(func.max(BatchRow.token)).where(BatchRow.run_id == run_id))
    return (highest or 0) + 1


def next_epoch(session: Session, run_id: uuid.UUID) -> int:
    """The first epoch of a run that was never opened."""
    highest = session.scalar(select(func.max(Epoch.number)).where(Epoch.run_id == run_id))
    return 0 if highest is None else highest + 1


def drop_open_epochs(session: Session, run_id: uuid.UUID, now: float) -> None:
    """Close what is open when a run ends early."""
    session.execute(
        update(Epoch)
        .where(Epoch.run_id == run_id, Epoch.state == EpochState.OPEN.value)
        .values(state=EpochState.ABANDONED.value, ended_at=now)
    )


def _load_epoch(session: Session, run: Run, row: Epoch) -> EpochSchedule:
    epoch = EpochSchedule.fresh(row.number, row.batches, run.world_size)
    epoch.frontier = Frontier(row.head, row.tail)
    epoch.state = EpochState(row.state)
    epoch.split = row.split
    epoch.made_by.update({Prong.CPU: row.made_cpu, Prong.CSD: row.made_csd})
    mine = (BatchRow.run_id == run.id, BatchRow.epoch == row.number)
    unconsumed = select(BatchRow).where(*mine, BatchRow.state != BatchState.CONSUMED.value)
    for found in session.scalars(unconsumed):
        batch = _batch_from(found)
        epoch.under_way.put(batch)
        if batch.state is BatchState.LOST:
            epoch.frontier.returned.add(batch.index)
    counts = (
        select(BatchRow.rank, BatchRow.prong, BatchRow.state, func.count())
        .where(*mine, BatchRow.rank.is_not(None))
        .group_by(BatchRow.rank, BatchRow.prong, BatchRow.state)
    )
    for rank, prong, state, count in session.execute(counts):
        assert rank is not None
        epoch.received[rank] += count
        epoch.handed_of[Prong(prong)] += count
        if state == BatchState.CONSUMED.value:
            epoch.acknowledged[rank] += count
            epoch.consumed_of[Prong(prong)] += count
    made = [state.value for state in BatchState if state.made]
    bad = select(func.sum(BatchRow.bad)).where(*mine, BatchRow.state.in_(made))
    epoch.bad = int(session.scalar(bad) or 0)
    epoch.changed = False
    return epoch


def _batch_values(run_id: uuid.UUID, batch: Batch) -> dict[str, Any]:
    values = {name: getattr(batch, name) for name in _BATCH_FIELDS}
    values["checksum"] = f"{batch.checksum:016x}"
    return {"run_id": run_id, **values}


def _batch_from(row: BatchRow) -> Batch:
    values = {name: getattr(row, name) for name in _BATCH_FIELDS}
    values["state"], values["prong"] = BatchState(row.state), Prong(row.prong)
    values["checksum"] = int(row.checksum, 16)
    return Batch(**values)


def _epoch_values(run_id: uuid.UUID, epoch: EpochSchedule, now: float) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "number": epoch.number,
        "state": epoch.state.value,
        "batches": epoch.batches,
        "head": epoch.frontier.head,
        "tail": epoch.frontier.tail,
        "split": epoch.split,
        "made_cpu": epoch.made_by[Prong.CPU],
        "made_csd": epoch.made_by[Prong.CSD],
        "consumed": epoch.consumed,
        "started_at": now,
        "ended_at": None if epoch.state is EpochState.OPEN else now,
    }


def _add_up(
    session: Session, table: type[Rollup] | type[RunTotal], row: dict[str, Any], keys: list[str]
) -> None:
    """Insert a row, or add its figures to the one that is there."""
    statement = _insert(session)(table).values(row)
    columns, new = table.__table__.columns, statement.excluded
    sums = {
        name: func.coalesce(columns[name], 0) + new[name]
        for name in row
        if name not in {*keys, "emulated", "first_at", "last_at"}
    }
    if "joules" in sums:
        old, more = columns["joules"], new["joules"]
        sums["joules"] = func.coalesce(old + more, old, more)
    if table is RunTotal:
        sums |= {"last_at": new["last_at"], "emulated": or_(columns["emulated"], new["emulated"])}
    session.execute(statement.on_conflict_do_update(index_elements=keys, set_=sums))


def _insert(session: Session) -> Any:
    dialects = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
    return dialects[session.get_bind().dialect.name]


def _upsert(
    session: Session,
    table: type[BatchRow] | type[Epoch],
    rows: list[dict[str, Any]],
    keep: Set[str] = frozenset(),
) -> None:
    if not rows:
        return
    statement = _insert(session)(table)
    keys = [column.name for column in table.__table__.primary_key]
    others = [name for name in rows[0] if name not in keys and name not in keep]
    changes = {name: statement.excluded[name] for name in others}
    session.execute(statement.on_conflict_do_update(index_elements=keys, set_=changes), rows)
