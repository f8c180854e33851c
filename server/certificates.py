"""Certificates of epochs: drawn up from the ledger, sealed once the epoch is over, chained."""

import time
from dataclasses import replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ddlp.core.certificate import (
    FORMAT,
    BadEntry,
    Certificate,
    Entry,
    delivered,
    genesis,
    makers,
    seal,
)
from ddlp.core.deals import Deals
from ddlp.core.errors import Conflict, NotFound
from ddlp.core.plan import Segment
from ddlp.core.sessions import SessionPart
from ddlp.core.types import BatchState, EpochState, Prong
from ddlp.server import ledger
from ddlp.server.models import BadSample, BatchRow, CertificateRow, Epoch, Run


def find(session: Session, run: Run, number: int) -> Certificate:
    """The certificate of an epoch; one that is not over is drawn up as far as it has come."""
    row = session.get(CertificateRow, (run.id, number))
    if row is not None:
        return Certificate.model_validate_json(row.body)
    epoch = session.get(Epoch, (run.id, number))
    if epoch is None:
        raise NotFound(f"run {run.name} has not opened epoch {number}")
    return draw_up(session, run, epoch, _digest_before(session, run, number))


def seal_next(session: Session) -> bool:
    """Seal the certificate of one epoch that is over and has none yet; whether there was one."""
    sealed = (
        select(CertificateRow.epoch)
        .where(CertificateRow.run_id == Epoch.run_id, CertificateRow.epoch == Epoch.number)
        .exists()
    )
    over = [state.value for state in EpochState if state is not EpochState.OPEN]
    epoch = session.scalar(
        select(Epoch)
        .where(Epoch.state.in_(over), ~sealed)
        .order_by(Epoch.number, Epoch.started_at)
        .limit(1)
        .with_for_update()
    )
    if epoch is None:
        return False
    run = session.get_one(Run, epoch.run_id)
    number, ended_at = epoch.number, epoch.ended_at
    certificate = draw_up(session, run, epoch, _digest_before(session, run, number))
    session.add(
        CertificateRow(
            run_id=run.id,
            epoch=number,
            body=certificate.model_dump_json(),
            digest=certificate.digest,
            sealed_at=time.time(),
        )
    )
    session.flush()
    # From here on nobody else writes to SQLite: a rank may have gone back to it meanwhile.
    session.refresh(epoch)
    if epoch.ended_at != ended_at:
        session.rollback()
    return True


def orders(session: Session, run: Run) -> dict[int, Deals]:
    """The recorded orders of a run's complete epochs, to be followed by another run."""
    found: dict[int, Deals] = {}
    ranks: set[int] = set()
    complete = select(Epoch.number).where(
        Epoch.run_id == run.id, Epoch.state == EpochState.COMPLETE.value
    )
    for number in sorted(session.scalars(complete)):
        certificate = find(session, run, number)
        first = certificate.segments[0]
        ranks.add(first.world_size)
        if (
            certificate.origin is not None
            or len(certificate.segments) > 1
            or len(ranks) > 1
            or isinstance(first.order, list)
        ):
            raise Conflict(
                f"epoch {number} cannot be replayed: its number of ranks changed on the way, or "
                "another run began it"
            )
        found[number] = Deals(first.order)
    return found


def draw_up(session: Session, run: Run, epoch: Epoch, previous: str) -> Certificate:
    """What the ledger says of one epoch."""
    segments = ledger.segments_of(epoch)
    consumed = _consumed(session, epoch)
    parts = []
    for number, segment in enumerate(segments):
        end = segments[number + 1].position if number + 1 < len(segments) else epoch.batches
        mine = [_entry(row) for row in consumed if segment.position <= (row.position or 0) < end]
        parts.append(delivered(segment, mine))
    return seal(
        {
            **facts(run),
            "format": FORMAT,
            "storage": run.storage,
            "epoch": epoch.number,
            "state": epoch.state,
            "strategy": run.strategy,
            "segments": [part.model_dump(mode="json") for part in parts],
            "origin": epoch.origin,
            "sessions": _sessions(epoch, segments[-1]),
            "makers": [m.model_dump(mode="json") for m in makers(map(_entry, consumed))],
            "checksums": "".join(row.checksum for row in consumed),
            "bad": _bad(session, run, epoch.number, {row.index for row in consumed}),
            "isolated": sorted(row.index for row in consumed if row.isolated),
            "previous": previous,
        }
    )


def _sessions(epoch: Epoch, last: Segment) -> list[dict[str, Any]]:
    """Who received the epoch; whoever still receives it has come as far as it said."""
    dealt = epoch.dealt_head + epoch.dealt_tail
    found = []
    for kept in epoch.sessions:
        part = SessionPart.from_json(kept)
        if part.last is None:
            place = last.position + epoch.acknowledged[part.rank] * last.world_size
            steps = (dealt + last.world_size - 1 - part.rank) // last.world_size
            handed = last.position + steps * last.world_size
            part = replace(part, last=place, received=place, handed=handed)
        found.append(part.as_json())
    return found


def facts(run: Run) -> dict[str, Any]:
    """What decides a run, as its certificates say it."""
    return {
        "run": str(run.id),
        "dataset_version": run.dataset_version,
        "pipeline_hash": run.pipeline_hash,
        "seed": run.seed,
        "samples": run.samples,
        "batch_size": run.batch_size,
        "tail": run.tail,
        "reshuffle": run.reshuffle,
        "on_bad": run.on_bad,
    }


def _digest_before(session: Session, run: Run, number: int) -> str:
    """The digest that an epoch is chained to, sealed already or not."""
    before = session.scalar(
        select(Epoch.number)
        .where(Epoch.run_id == run.id, Epoch.number < number)
        .order_by(Epoch.number.desc())
        .limit(1)
    )
    return genesis(facts(run)) if before is None else find(session, run, before).digest


def _consumed(session: Session, epoch: Epoch) -> list[BatchRow]:
    """The ledger's entries of what was delivered and used up, in the order of delivery."""
    rows = session.scalars(
        select(BatchRow)
        .where(
            BatchRow.run_id == epoch.run_id,
            BatchRow.epoch == epoch.number,
            BatchRow.position.is_not(None),
            BatchRow.state == BatchState.HANDED.value,
        )
        .order_by(BatchRow.position)
    )
    cuts = ledger.segments_of(epoch)
    first, last = cuts[0].position, cuts[-1]

    def is_consumed(row: BatchRow) -> bool:
        assert row.position is not None
        step, rank = divmod(row.position - last.position, last.world_size)
        return row.position < last.position or step < epoch.acknowledged[rank]

    found = [row for row in rows if is_consumed(row)]
    if epoch.state == EpochState.COMPLETE.value:
        return found
    # Ranks may have come differently far: up to where the slowest one stands nothing is missing.
    return [row for place, row in enumerate(found, first) if row.position == place]


def _entry(row: BatchRow) -> Entry:
    return Entry(
        index=row.index,
        position=row.position or 0,
        from_tail=row.from_tail,
        prong=Prong(row.prong),
        device=row.device or "",
        attempt=row.attempt,
        checksum=row.checksum,
    )


def _bad(session: Session, run: Run, number: int, delivered_ones: set[int]) -> list[dict[str, Any]]:
    """The bad samples of an epoch."""
    rows = session.scalars(
        select(BadSample)
        .where(BadSample.run_id == run.id, BadSample.epoch == number)
        .order_by(BadSample.batch, BadSample.sample)
    )
    return [
        BadEntry(
            batch=row.batch,
            sample=row.sample,
            name=row.name,
            reason=row.reason,
            substitute=row.substitute,
        ).model_dump(mode="json")
        for row in rows
        if row.batch in delivered_ones
    ]
