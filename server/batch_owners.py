"""Which prong made which batches of an epoch, as stretches of the bar that shows both fronts.

Counts do not tell: a batch is also made by the other side, where it is raced, lost or taken over.
"""

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from sqlalchemy import ColumnElement, case, func, or_, select
from sqlalchemy.orm import Session

from ddlp.core.plan import Segment
from ddlp.core.types import BatchState, Prong
from ddlp.server.ledger import segments_of
from ddlp.server.models import BatchRow, Epoch

CELLS = 250
"""An epoch of more batches is drawn by so many groups of neighbours."""


class Shade(StrEnum):
    """How far a batch has come."""

    DELIVERED = "delivered"
    READY = "ready"
    LEASED = "leased"


Kind = tuple[Prong, Shade] | None
"""Who made batches and how far they are; None for what another run had delivered before."""
_ORDER: list[Kind] = [
    None,
    *((Prong.CPU, shade) for shade in Shade),
    *((Prong.CSD, shade) for shade in reversed(Shade)),
]
"""In a group: the CPU from the left, the CSD from the right, and what is untouched between."""
_SHADES = {
    BatchState.QUEUED: Shade.LEASED,
    BatchState.LEASED: Shade.LEASED,
    BatchState.READY: Shade.READY,
    BatchState.HANDED: Shade.READY,
}


@dataclass(frozen=True)
class Stretch:
    """Neighbouring batches of one kind, by their place in the epoch."""

    kind: Kind
    first: int
    batches: int

    @property
    def last(self) -> int:
        """One more than the place of its last batch."""
        return self.first + self.batches


@dataclass(frozen=True)
class BatchOwners:
    """An epoch from its first batch to its last, without what is untouched."""

    stretches: list[Stretch]
    meeting: int | None = None
    """How many batches the CPU's front holds where the CSD's begins; None while batches lie between
    them, where only one side made any, or where the sides are mixed."""
    head: int = 0
    """Where the CPU takes its next batch."""
    tail: int = 0
    """Where the CSD has taken its last one."""

    def count(self, prong: Prong, shade: Shade) -> int:
        """Batches of a prong that are so far."""
        return sum(part.batches for part in self.stretches if part.kind == (prong, shade))


NOTHING = BatchOwners([])


@dataclass(frozen=True)
class _Cell:
    """A group of neighbours."""

    first: int
    batches: int
    counts: Counter[Kind]


def batch_owners(session: Session, run_id: uuid.UUID, number: int) -> BatchOwners:
    """Who made what of an epoch, as it is written down now."""
    row = session.get(Epoch, (run_id, number))
    if row is None:
        return NOTHING
    segments = segments_of(row)
    if not segments:
        return NOTHING
    cells = [
        _Cell(0, segments[0].position, Counter({None: segments[0].position})),
        *(
            _Cell(cut.position, after.position - cut.position, _counts(session, row, cut))
            for cut, after in pairwise(segments)
        ),
        *_under_way(session, row, segments[-1]),
    ]
    found = list(_joined(part for cell in cells for part in _parts(cell)))
    last = segments[-1]
    moved = last.position - last.first
    return BatchOwners(
        found, _meeting(found, last.position + last.full), row.head + moved, row.tail + moved
    )


def _meeting(found: list[Stretch], full: int) -> int | None:
    """Where two whole fronts touch; short batches come last, whoever makes them."""
    prongs: list[Prong | None] = []
    reached = meeting = 0
    for part in found:
        if part.first >= full:
            break
        if part.first > reached:
            return None
        prong = part.kind[0] if part.kind else None
        if not prongs or prongs[-1] is not prong:
            prongs.append(prong)
            meeting = part.first
        reached = min(part.last, full)
    return meeting if prongs == [Prong.CPU, Prong.CSD] and reached == full else None


def _counts(session: Session, row: Epoch, cut: Segment) -> Counter[Kind]:
    """What was delivered of a segment before training went on with other ranks."""
    query = (
        select(BatchRow.prong, func.count())
        .where(*_of(row), BatchRow.index >= cut.first, BatchRow.index < cut.last)
        .group_by(BatchRow.prong)
    )
    return Counter(
        {(Prong(prong), Shade.DELIVERED): many for prong, many in session.execute(query)}
    )


def _under_way(session: Session, row: Epoch, segment: Segment) -> Iterator[_Cell]:
    """The segment that is delivered now, or was the last."""
    full, batches = segment.full, segment.batches
    width = max(1, -(-batches // CELLS))
    firsts = [*range(0, full, width), *range(full, batches, width)]
    cells = [
        _Cell(segment.position + first, after - first, Counter())
        for first, after in pairwise([*firsts, batches])
    ]
    offset = BatchRow.index - segment.first
    short = -(-full // width) + (offset - full) // width
    place = case((offset < full, offset // width), else_=short).label("cell")
    # What lies before the slowest rank's place is counted by the database, batch by batch the rest.
    sure = segment.position + min(row.acknowledged, default=0) * segment.world_size
    mine = (*_of(row), BatchRow.index >= segment.first, BatchRow.index < segment.last)
    consumed = (
        select(place, BatchRow.prong, func.count())
        .where(*mine, BatchRow.position < sure)
        .group_by(place, BatchRow.prong)
    )
    for cell, prong, many in session.execute(consumed):
        cells[cell].counts[Prong(prong), Shade.DELIVERED] += many
    later = select(place, BatchRow.prong, BatchRow.state, BatchRow.position).where(
        *mine, or_(BatchRow.position.is_(None), BatchRow.position >= sure)
    )
    for cell, prong, state, position in session.execute(later):
        shade = _SHADES.get(BatchState(state))
        if position is not None and _is_consumed(row, segment, position):
            shade = Shade.DELIVERED
        if shade is not None:
            cells[cell].counts[Prong(prong), shade] += 1
    yield from cells


def _of(row: Epoch) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return BatchRow.run_id == row.run_id, BatchRow.epoch == row.number


def _is_consumed(row: Epoch, segment: Segment, position: int) -> bool:
    step, rank = divmod(position - segment.position, segment.world_size)
    return rank < len(row.acknowledged) and bool(step < row.acknowledged[rank])


def _parts(cell: _Cell) -> Iterator[Stretch]:
    """A group's batches side by side: the CPU's from its left edge, the CSD's up to its right."""
    left = cell.first
    right = (
        cell.first
        + cell.batches
        - sum(
            many for kind, many in cell.counts.items() if kind is not None and kind[0] is Prong.CSD
        )
    )
    for kind in _ORDER:
        many = cell.counts[kind]
        if not many:
            continue
        if kind is not None and kind[0] is Prong.CSD:
            first, right = right, right + many
        else:
            first, left = left, left + many
        yield Stretch(kind, first, many)


def _joined(parts: Iterable[Stretch]) -> Iterator[Stretch]:
    """The same, neighbours of one kind as one."""
    before: Stretch | None = None
    for part in parts:
        if before is not None and (before.kind, before.last) == (part.kind, part.first):
            before = replace(before, batches=before.batches + part.batches)
            continue
        if before is not None:
            yield before
        before = part
    if before is not None:
        yield before
