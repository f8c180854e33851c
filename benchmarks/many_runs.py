"""Runs by the thousand: copies of one that was really made, as such runs leave their rows."""

import uuid

from sqlalchemy import insert, select

from benchmarks.bench_stack import BenchStack
from ddlp.server.database import Database
from ddlp.server.models import Epoch, Rollup, Run, RunRead, RunTrace, Tally

_AT_ONCE = 100
_APART_S = 900
_STATES = ("completed",) * 7 + ("cancelled", "failed", "completed")
_STRATEGIES = ("wrr", "mte", "bounded", "cpu")


def multiply(stack: BenchStack, name: str, runs: int, seconds: int) -> None:
    """Fill the database up to so many runs, each of which worked for so many seconds."""
    database = Database(stack.stack.settings.database)
    try:
        with database.session() as session:
            run = session.scalars(select(Run).where(Run.name == name)).one()
            pattern = values(run)
            parts = {
                table: [
                    values(row) for row in session.scalars(select(table).filter_by(run_id=run.id))
                ]
                for table in (Epoch, Tally, RunTrace, RunRead)
            }
            rollup = session.scalars(select(Rollup).where(Rollup.run_id == run.id)).first()
            assert rollup is not None
            rollup_values = values(rollup)
        for first in range(1, runs, _AT_ONCE):
            with database.session() as session:
                for number in range(first, min(runs, first + _AT_ONCE)):
                    new = _like(pattern, number)
                    session.execute(insert(Run).values(new))
                    for table, rows in parts.items():
                        if rows:
                            session.execute(
                                insert(table), [r | {"run_id": new["id"]} for r in rows]
                            )
                    session.execute(insert(Rollup), _over_time(rollup_values, new, seconds))
    finally:
        database.close()


def _like(pattern: dict[str, object], number: int) -> dict[str, object]:
    """A run of another name, made a while before the one before it."""
    earlier_s = number * _APART_S
    times = {
        at: float(str(pattern[at])) - earlier_s
        for at in ("created_at", "started_at", "ended_at")
        if pattern[at] is not None
    }
    state = _STATES[number % len(_STATES)]
    return (
        pattern
        | times
        | {
            "id": uuid.uuid4(),
            "name": f"run-{number:04d}",
            "strategy": _STRATEGIES[number % len(_STRATEGIES)],
            "state": state,
            "reason": "a batch could not be made" if state == "failed" else None,
        }
    )


def _over_time(
    pattern: dict[str, object], run: dict[str, object], seconds: int
) -> list[dict[str, object]]:
    """Figures every ten seconds, of each source."""
    begun = int(float(str(run["created_at"]))) // 10 * 10
    plain = {name: value for name, value in pattern.items() if name != "id"}
    return [
        plain | {"run_id": run["id"], "at": at, "period_s": 10, "source": source}
        for at in range(begun, begun + seconds, 10)
        for source in ("cpu", "csd", "trainer")
    ]


def values(row: object) -> dict[str, object]:
    """A row as its columns."""
    table = type(row).__table__  # type: ignore[attr-defined]
    return {column.name: getattr(row, column.name) for column in table.columns}
