"""Lists runs: filtered, searched, sorted, in pages that stay true while runs are made.

A *cursor* names the last row that was seen, by what it is sorted by, when it was created and its
id; the next page begins right behind it, however many rows came or went meanwhile.
"""

import base64
import binascii
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, case, func, literal, or_, select, tuple_
from sqlalchemy.orm import Session

from ddlp.core.errors import InvalidInput
from ddlp.core.messages.run_list import RunListQuery, RunSort
from ddlp.core.types import RunState
from ddlp.server.board import Board
from ddlp.server.figures import wait_share
from ddlp.server.models import Epoch, Run
from ddlp.server.telemetry import TRAINER

_NOT_OVER = 1e12
"""Later than any time: 31,000 years after 1970."""
_WAIT_S = 15
"""Over so many seconds it is said how much a trainer waits."""


@dataclass(frozen=True)
class RunPage:
    """Some runs in their order, and the cursors of the pages beside them."""

    rows: list[Run]
    next: str | None
    previous: str | None


@dataclass(frozen=True)
class Delivered:
    """Batches of all epochs of a run that trainers consumed, by who made them."""

    cpu: int = 0
    csd: int = 0
    taken_over: int = 0
    """Those that another run had delivered before this one went on."""

    @property
    def batches(self) -> int:
        """All of them."""
        return self.cpu + self.csd + self.taken_over


@dataclass(frozen=True)
class LiveRate:
    """What the trainer of an active run gets now."""

    images_per_s: float | None
    wait_share: float | None


@dataclass(frozen=True)
class RunChoices:
    """What there is to filter by."""

    datasets: list[str]
    strategies: list[str]
    pipelines: list[str]


@dataclass(frozen=True)
class _Place:
    """A row in an order, and which way from it."""

    back: bool
    value: float | str
    created_at: float
    run: uuid.UUID


def page(session: Session, asked: RunListQuery) -> RunPage:
    """The runs that were asked for."""
    value = _SORTED_BY[asked.sort]
    key: list[ColumnElement[Any]] = [value, Run.created_at.expression, Run.id.expression]
    place = _read(asked) if asked.cursor else None
    back = place is not None and place.back
    upwards = asked.ascending is not back
    query = select(Run, value).where(*_conditions(asked, asked.state))
    if place is not None:
        at = tuple_(
            literal(place.value, value.type),
            literal(place.created_at, Run.created_at.type),
            literal(place.run, Run.id.type),
        )
        here = tuple_(*key)
        query = query.where(here > at if upwards else here < at)
    order = [part.asc() if upwards else part.desc() for part in key]
    found = list(session.execute(query.order_by(*order).limit(asked.limit + 1)))
    more, rows = len(found) > asked.limit, found[: asked.limit]
    if back:
        rows.reverse()
    behind, before = (place is not None, more) if back else (more, place is not None)
    return RunPage(
        rows=[row[0] for row in rows],
        next=_write(asked, rows[-1], back=False) if rows and behind else None,
        previous=_write(asked, rows[0], back=True) if rows and before else None,
    )


def counts(session: Session, asked: RunListQuery) -> dict[RunState, int]:
    """How many runs there are in each state, of those that were asked for but for their state."""
    query = select(Run.state, func.count()).where(*_conditions(asked, [])).group_by(Run.state)
    found = {state: int(count) for state, count in session.execute(query)}
    return {state: found[state.value] for state in RunState if state.value in found}


def choices(session: Session) -> RunChoices:
    """Datasets, strategies and pipelines that runs have."""
    columns = (Run.dataset, Run.strategy, Run.pipeline)
    found = [
        list(session.scalars(select(column).distinct().order_by(column))) for column in columns
    ]
    return RunChoices(*found)


def delivered(session: Session, run_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Delivered]:
    """How far runs have come."""
    before = func.coalesce(Epoch.segments[(0, "position")].as_integer(), 0)
    sums = (func.sum(Epoch.consumed), func.sum(Epoch.consumed_csd), func.sum(before))
    query = select(Epoch.run_id, *sums).where(Epoch.run_id.in_(run_ids)).group_by(Epoch.run_id)
    return {
        run_id: Delivered(int(consumed) - int(csd) - int(taken_over), int(csd), int(taken_over))
        for run_id, consumed, csd, taken_over in session.execute(query)
    }


def live_rates(board: Board, now: float) -> dict[uuid.UUID, LiveRate]:
    """What all active runs deliver now."""
    return {
        run.id: LiveRate(
            run.delivered_per_s(now),
            wait_share(run.telemetry.recent(now, TRAINER, _WAIT_S)),
        )
        for run in board.runs.values()
    }


_BEGAN: ColumnElement[float] = func.coalesce(Run.started_at, Run.created_at)
_SORTED_BY: dict[RunSort, ColumnElement[Any]] = {
    RunSort.CREATED: Run.created_at.expression,
    RunSort.NAME: func.lower(Run.name),
    RunSort.STATE: case(
        {state.value: place for place, state in enumerate(RunState)}, value=Run.state
    ),
    RunSort.DURATION: func.coalesce(Run.ended_at, _NOT_OVER) - _BEGAN,
    RunSort.ENDED: func.coalesce(Run.ended_at, _NOT_OVER),
}


def _conditions(asked: RunListQuery, states: Sequence[RunState]) -> list[ColumnElement[bool]]:
    equal = {
        Run.dataset: asked.dataset,
        Run.strategy: asked.strategy,
        Run.pipeline: asked.pipeline,
    }
    found = [column == value for column, value in equal.items() if value is not None]
    if states:
        found.append(Run.state.in_([state.value for state in states]))
    if asked.after is not None:
        found.append(Run.created_at >= asked.after)
    if asked.before is not None:
        found.append(Run.created_at < asked.before)
    if asked.search:
        columns = (Run.name, Run.dataset)
        found.append(or_(*(c.icontains(asked.search, autoescape=True) for c in columns)))
    return found


def _write(asked: RunListQuery, row: Any, back: bool) -> str:
    run, value = row
    place = [asked.sort.value, asked.ascending, back, value, run.created_at, run.id.hex]
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def _read(asked: RunListQuery) -> _Place:
    text = asked.cursor or ""
    try:
        read = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        sort, ascending, back, value, created_at, run = read
        place = _Place(bool(back), _value(asked.sort, value), float(created_at), uuid.UUID(run))
    except (binascii.Error, ValueError, TypeError, AttributeError) as error:
        raise InvalidInput(f"the cursor {text} leads nowhere; begin without one") from error
    if (sort, ascending) != (asked.sort.value, asked.ascending):
        raise InvalidInput(
            f"the cursor belongs to a list sorted by {sort}, "
            f"{'ascending' if ascending else 'descending'}; begin without one"
        )
    return place


def _value(sort: RunSort, value: object) -> float | str:
    """A value as its column has it."""
    if sort is RunSort.NAME:
        return str(value)
    return int(str(value)) if sort is RunSort.STATE else float(str(value))
