"""Writes what the scheduling core decided into SQL, and reads it back after a restart."""

import uuid
from collections import Counter
from collections.abc import Set
from dataclasses import fields
from functools import cache
from typing import Any

from sqlalchemy import Insert, Integer, cast, delete, func, or_, select, update
from sqlalchemy.orm import Session

from ddlp.core.errors import Conflict, NotFound
from ddlp.core.lifecycle import TERMINAL, check_change
from ddlp.core.plan import Segment
from ddlp.core.schedule import Batch, Changes, EpochSchedule, Pace
from ddlp.core.schedule.fleet import Member
from ddlp.core.schedule.frontier import Frontier
from ddlp.core.sessions import SessionPart
from ddlp.core.takeover import Origin, segment_from, segment_json
from ddlp.core.types import BatchState, End, EpochState, Prong, RunState
from ddlp.server import quarantine
from ddlp.server.database import insert_of
from ddlp.server.identity import actor
from ddlp.server.models import (
    AuditEvent,
    BadSample,
    BatchRow,
    Calibration,
    CertificateRow,
    Epoch,
    Run,
)

_BATCH_FIELDS = [field.name for field in fields(Batch) if field.metadata.get("kept", True)]


def save_changes(session: Session, run_id: uuid.UUID, changes: Changes, now: float) -> None:
    """Remember batches, their bad samples, and epochs that changed."""
    _upsert(session, BatchRow, [_batch_values(run_id, b) for b in changes.batches])
    for growth in quarantine.save(session, run_id, changes.mishaps):
        _tell_of_bad_samples(session, run_id, growth, now)
    kept = {"started_at", "origin", "sessions"}
    _upsert(session, Epoch, [_epoch_values(run_id, e, now) for e in changes.epochs], kept)
    for epoch in changes.epochs:
        if epoch.parts_changed:
            _save_sessions(session, run_id, epoch)


def _tell_of_bad_samples(
    session: Session, run_id: uuid.UUID, growth: quarantine.Growth, now: float
) -> None:
    mishap = growth.last
    detail = {"epoch": growth.epoch, "count": growth.count, "done": mishap.action}
    detail |= {"name": mishap.name, "reason": mishap.reason}
    audit(session, "run.bad_samples", session.get_one(Run, run_id).name, now, **detail)


def _save_sessions(session: Session, run_id: uuid.UUID, epoch: EpochSchedule) -> None:
    """Remember who received an epoch, and who began it: that changes seldom and may be long."""
    session.execute(
        update(Epoch)
        .where(Epoch.run_id == run_id, Epoch.number == epoch.number)
        .values(
            sessions=[part.as_json() for part in epoch.parts],
            origin=None if epoch.origin is None else epoch.origin.as_json(),
        )
    )
    epoch.parts_changed = False


def change_state(
    session: Session,
    run: Run,
    wanted: RunState,
    now: float,
    reason: str | None = None,
    left: bool = False,
) -> None:
    """The one place where a run's state changes; `left`: because its last trainer left."""
    check_change(run.name, RunState(run.state), wanted, run.left)
    was, run.state = run.state, wanted.value
    run.reason, run.left = reason, left
    if wanted is RunState.RUNNING and run.started_at is None:
        run.started_at = now
    run.ended_at = now if wanted in TERMINAL else None
    audit(session, f"run.{wanted.value}", run.name, now, was=was, reason=reason)


def change_held_up(session: Session, run: Run, reason: str | None, now: float) -> None:
    """A run makes nothing for now, or goes on."""
    audit(session, "run.held_up" if reason else "run.goes_on", run.name, now, reason=reason)
    run.held_up = reason


def audit(session: Session, action: str, subject: str, now: float, **detail: Any) -> None:
    """Record who did what: the name of the key that asked, or `local` where none did."""
    session.add(AuditEvent(at=now, actor=actor(), action=action, subject=subject, detail=detail))


def load_epochs(session: Session, run: Run) -> dict[int, EpochSchedule]:
    """The open epochs of a run, as the scheduling core knows them."""
    rows = session.scalars(
        select(Epoch)
        .where(Epoch.run_id == run.id, Epoch.state == EpochState.OPEN.value)
        .order_by(Epoch.number)
    )
    return {row.number: _load_epoch(session, run, row) for row in rows}


def opened_from(session: Session, run_id: uuid.UUID, number: int) -> list[int]:
    """The epochs of a run from one on that were opened."""
    query = select(Epoch.number).where(Epoch.run_id == run_id, Epoch.number >= number)
    return sorted(session.scalars(query))


def load_epoch(session: Session, run: Run, number: int) -> EpochSchedule:
    """One epoch of a run, open or closed, as the scheduling core knows it."""
    row = session.get(Epoch, (run.id, number))
    if row is None:
        raise NotFound(f"run {run.name} has not opened epoch {number}")
    removed_at = run.details_removed_at
    if removed_at is not None and row.ended_at is not None and row.ended_at <= removed_at:
        raise Conflict(
            f"run {run.name} cannot go back to epoch {number}: its batches were removed "
            "(DDLP_KEEP_RUN_DETAILS_D); load the state into a new run instead"
        )
    return _load_epoch(session, run, row)


def dealt_from(session: Session, run_id: uuid.UUID, epoch: int, position: int) -> list[Batch]:
    """What was dealt of an epoch from a place on."""
    rows = session.scalars(
        select(BatchRow).where(
            BatchRow.run_id == run_id, BatchRow.epoch == epoch, BatchRow.position >= position
        )
    )
    return [_batch_from(row) for row in rows]


def heads_before(
    session: Session, run_id: uuid.UUID, epoch: int, segment: Segment, end: int
) -> int:
    """How many batches of a segment were dealt from the head before a place."""
    query = select(func.count()).where(
        BatchRow.run_id == run_id,
        BatchRow.epoch == epoch,
        BatchRow.position >= segment.position,
        BatchRow.position < end,
        BatchRow.from_tail.is_(False),
    )
    return int(session.scalar(query) or 0)


def forget_from(session: Session, run_id: uuid.UUID, epoch: int, position: int) -> None:
    """An epoch is cut anew from a place on: what was given out beyond it never was."""
    mine = (BatchRow.run_id == run_id, BatchRow.epoch == epoch)
    beyond = or_(BatchRow.position.is_(None), BatchRow.position >= position)
    session.execute(delete(BatchRow).where(*mine, beyond))
    kept = select(BatchRow.index).where(*mine)
    session.execute(
        delete(BadSample).where(
            BadSample.run_id == run_id, BadSample.epoch == epoch, BadSample.batch.not_in(kept)
        )
    )


def forget_after(session: Session, run_id: uuid.UUID, epoch: int) -> None:
    """The epochs after one never were."""
    session.execute(delete(BatchRow).where(BatchRow.run_id == run_id, BatchRow.epoch > epoch))
    session.execute(delete(BadSample).where(BadSample.run_id == run_id, BadSample.epoch > epoch))
    session.execute(delete(Epoch).where(Epoch.run_id == run_id, Epoch.number > epoch))


def recount(session: Session, run_id: uuid.UUID, epoch: EpochSchedule) -> None:
    """Count what an epoch has made and consumed once part of it was forgotten."""
    mine = (BatchRow.run_id == run_id, BatchRow.epoch == epoch.number)
    sums = func.sum(BatchRow.bad), func.sum(cast(BatchRow.isolated, Integer))
    query = select(BatchRow.prong, func.count(), *sums).where(*mine).group_by(BatchRow.prong)
    epoch.made_by, epoch.consumed_of, epoch.bad, epoch.isolated = Counter(), Counter(), 0, 0
    for prong, count, bad, isolated in session.execute(query):
        epoch.made_by[Prong(prong)] = epoch.consumed_of[Prong(prong)] = count
        epoch.bad += int(bad or 0)
        epoch.isolated += int(isolated or 0)


def unseal_from(session: Session, run_id: uuid.UUID, epoch: int) -> None:
    """Epochs that are gone back to are certified anew when they are over again."""
    # PostgreSQL waits here for a notary that is at one of them, and then sees what it wrote.
    opened = select(Epoch.number).where(Epoch.run_id == run_id, Epoch.number >= epoch)
    session.execute(opened.with_for_update())
    session.execute(
        delete(CertificateRow).where(CertificateRow.run_id == run_id, CertificateRow.epoch >= epoch)
    )


def save_pace(session: Session, run: Run, device: str, member: Member, now: float) -> None:
    """Remember how fast a device is at what a run does."""
    row = Calibration(
        dataset_version=run.dataset_version,
        storage=run.storage or "",
        pipeline_hash=run.pipeline_hash,
        device=device,
        prong=member.prong.value,
        batches=member.pace.batches,
        sample_s=member.pace.sample_s,
        updated_at=now,
    )
    session.merge(row)


def load_paces(session: Session, run: Run) -> dict[str, tuple[Prong, Pace]]:
    """How fast devices were at what a run does."""
    rows = session.scalars(
        select(Calibration).where(
            Calibration.dataset_version == run.dataset_version,
            Calibration.storage == (run.storage or ""),
            Calibration.pipeline_hash == run.pipeline_hash,
        )
    )
    return {row.device: (Prong(row.prong), Pace(row.batches, row.sample_s)) for row in rows}


def complete_epochs(session: Session, run_id: uuid.UUID) -> tuple[int, int]:
    """How many epochs are closed and complete, and the first one that the run delivers itself."""
    query = select(Epoch.origin).where(
        Epoch.run_id == run_id, Epoch.state == EpochState.COMPLETE.value
    )
    origins = list(session.scalars(query))
    firsts = [Origin.from_json(kept).first_epoch for kept in origins if kept is not None]
    return len(origins), max(firsts, default=0)


def over_runs(session: Session) -> list[uuid.UUID]:
    """The runs that have ended."""
    ended = [state.value for state in TERMINAL]
    return list(session.scalars(select(Run.id).where(Run.state.in_(ended))))


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


def is_begun(batches: int, consumed: int, dealt_head: int, dealt_tail: int) -> bool:
    """Whether any batches of an epoch were handed to a trainer, or there are none."""
    return not batches or consumed + dealt_head + dealt_tail > 0


def segments_of(row: Epoch) -> list[Segment]:
    """The segments of an epoch."""
    return [segment_from(cut) for cut in row.segments]


def _load_epoch(session: Session, run: Run, row: Epoch) -> EpochSchedule:
    epoch = EpochSchedule(
        number=row.number,
        segments=segments_of(row),
        frontier=Frontier(row.head, row.tail, row.short, segments_of(row)[-1].last),
        dealt=Counter({End.HEAD: row.dealt_head, End.TAIL: row.dealt_tail}),
        settled=dict(row.settled),
        state=EpochState(row.state),
        acknowledged=list(row.acknowledged),
        made_by=Counter({Prong.CPU: row.made_cpu, Prong.CSD: row.made_csd}),
        origin=None if row.origin is None else Origin.from_json(row.origin),
        parts=[SessionPart.from_json(part) for part in row.sessions],
    )
    mine = (BatchRow.run_id == run.id, BatchRow.epoch == row.number)
    first = epoch.place(0, min(epoch.acknowledged, default=0))
    open_ones = or_(BatchRow.position.is_(None), BatchRow.position >= first)
    found = [
        _batch_from(entry) for entry in session.scalars(select(BatchRow).where(*mine, open_ones))
    ]
    epoch.remember_deals(batch for batch in found if batch.position is not None)
    consumed = {b.index for b in found if b.position is not None and epoch.is_consumed(b.position)}
    epoch.restore(batch for batch in found if batch.index not in consumed)
    counts = (
        select(BatchRow.prong, func.count())
        .where(*mine, BatchRow.position < first)
        .group_by(BatchRow.prong)
    )
    for prong, count in session.execute(counts):
        epoch.consumed_of[Prong(prong)] += count
    for batch in found:
        if batch.index in consumed:
            epoch.consumed_of[batch.prong] += 1
    made = [state.value for state in BatchState if state.made]
    sums = select(func.sum(BatchRow.bad), func.sum(cast(BatchRow.isolated, Integer)))
    bad, isolated = session.execute(sums.where(*mine, BatchRow.state.in_(made))).one()
    epoch.bad, epoch.isolated = int(bad or 0), int(isolated or 0)
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
        "short": epoch.frontier.short,
        "segments": [segment_json(segment) for segment in epoch.segments],
        "dealt_head": epoch.dealt[End.HEAD],
        "dealt_tail": epoch.dealt[End.TAIL],
        "acknowledged": list(epoch.acknowledged),
        "settled": dict(epoch.settled),
        "made_cpu": epoch.made_by[Prong.CPU],
        "made_csd": epoch.made_by[Prong.CSD],
        "consumed": epoch.consumed,
        "consumed_csd": epoch.consumed_of[Prong.CSD],
        "origin": None if epoch.origin is None else epoch.origin.as_json(),
        "sessions": [],
        "started_at": now,
        "ended_at": None if epoch.state is EpochState.OPEN else now,
    }


def _upsert(
    session: Session,
    table: type[BatchRow] | type[Epoch],
    rows: list[dict[str, Any]],
    keep: Set[str] = frozenset(),
) -> None:
    if rows:
        statement = _upsert_statement(insert_of(session), table, frozenset(keep))
        session.connection().execute(statement, rows)


@cache
def _upsert_statement(
    insert: Any, table: type[BatchRow] | type[Epoch], keep: frozenset[str]
) -> Insert:
    """Made once: to put it together takes longer than to run it."""
    columns = table.__table__.columns
    statement = insert(table.__table__)
    changes = {
        column.name: statement.excluded[column.name]
        for column in columns
        if not column.primary_key and column.name not in keep
    }
    keys = [column.name for column in columns if column.primary_key]
    made: Insert = statement.on_conflict_do_update(index_elements=keys, set_=changes)
    return made
