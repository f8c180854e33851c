"""Writes what telemetry counted into SQL, adding it to what is there, and forgets what is old."""

import uuid
from collections import defaultdict
from functools import cache
from typing import Any

from sqlalchemy import Insert, case, delete, or_, select
from sqlalchemy.orm import Session

from ddlp.core.settings import Settings
from ddlp.server.database import insert_of
from ddlp.server.models import Rollup, RunRead, RunTrace, Tally
from ddlp.server.telemetry import PERIODS_S, SUMS, Bucket, News

_MARKS = ("emulated", "joules_unknown")
"""What is true of a total as soon as it is of a part."""
_FORGET_AT_ONCE = 20_000


def save_news(session: Session, run_id: uuid.UUID, news: News | None) -> None:
    """Remember what a run's telemetry has counted, if it is time to."""
    if news is None:
        return
    for row in _rollups(run_id, news):
        _add_up(session, Rollup, row, ["run_id", "at", "period_s", "source"])
    for (epoch, source, device), counted in news.tallies.items():
        key = {"run_id": run_id, "epoch": epoch, "source": source, "device": device}
        times = {"first_at": counted.first_at, "last_at": counted.last_at}
        _add_up(session, Tally, {**key, **times, **vars(counted.bucket)}, list(key))
    for (path, reason), count in news.reads.items():
        key = {"run_id": run_id, "path": path, "reason": reason}
        _add_up(session, RunRead, {**key, **vars(count)}, list(key))


def _rollups(run_id: uuid.UUID, news: News) -> list[dict[str, Any]]:
    """Seconds, and the longer stretches that they are part of."""
    stretches: dict[tuple[int, int, str], Bucket] = defaultdict(Bucket)
    for (at, source), bucket in news.seconds.items():
        for period_s in PERIODS_S:
            stretches[at - at % period_s, period_s, source].add(bucket)
    return [
        {
            "run_id": run_id,
            "at": at,
            "period_s": period_s,
            "source": source,
            **{name: getattr(bucket, name) for name in SUMS},
        }
        for (at, period_s, source), bucket in stretches.items()
    ]


def save_trace(session: Session, run_id: uuid.UUID, body: bytes | None) -> None:
    """Keep the last minutes of a run that is over."""
    if body is not None:
        session.merge(RunTrace(run_id=run_id, body=body))


def forget_rollups(session: Session, settings: Settings, now: float) -> int:
    """Remove figures that are older than they are kept; how many."""
    kept_h = (settings.keep_seconds_h, settings.keep_ten_seconds_h, settings.keep_minutes_h)
    removed = 0
    for period_s, hours in zip(PERIODS_S, kept_h, strict=True):
        old = (Rollup.period_s == period_s, Rollup.at < int(now - 3600 * hours))
        some = select(Rollup.id).where(*old).limit(_FORGET_AT_ONCE)
        found = session.execute(delete(Rollup).where(Rollup.id.in_(some)))
        removed += int(getattr(found, "rowcount", 0))
    return removed


def _add_up(
    session: Session, table: type[Rollup | Tally | RunRead], row: dict[str, Any], keys: list[str]
) -> None:
    """Insert a row, or add its figures to the one that is there."""
    statement = _adding_statement(insert_of(session), table, tuple(row), tuple(keys))
    session.connection().execute(statement, row)


@cache
def _adding_statement(
    insert: Any,
    table: type[Rollup | Tally | RunRead],
    names: tuple[str, ...],
    keys: tuple[str, ...],
) -> Insert:
    """Made once: to put it together takes longer than to run it."""
    statement = insert(table.__table__)
    columns, new = table.__table__.columns, statement.excluded
    changed = {
        name: columns[name] + new[name]
        for name in names
        if name not in {*keys, *_MARKS, "first_at", "last_at", "peak_bytes"}
    }
    if table is Tally:
        changed |= {name: or_(columns[name], new[name]) for name in _MARKS}
        larger = new["peak_bytes"] > columns["peak_bytes"]
        changed["peak_bytes"] = case((larger, new["peak_bytes"]), else_=columns["peak_bytes"])
        changed["last_at"] = new["last_at"]
    made: Insert = statement.on_conflict_do_update(index_elements=keys, set_=changed)
    return made
