"""The certificate of an epoch: made from the ledger, and checked against the plan."""

from collections import defaultdict

from sqlalchemy import select
from sqlalchemy.orm import Session

from ddlp.core.certificate import Certificate, CertificateBatch, problems_of, seal
from ddlp.core.errors import NotFound
from ddlp.core.mishap import Mishap
from ddlp.core.types import BadPolicy, BatchState, Prong
from ddlp.server.board import run_plan
from ddlp.server.models import BadSample, BatchRow, Epoch, Run


def make(session: Session, run: Run, number: int) -> Certificate:
    """What the ledger says of one epoch."""
    epoch = session.get(Epoch, (run.id, number))
    if epoch is None:
        raise NotFound(f"run {run.name} has not opened epoch {number}")
    rows = session.scalars(
        select(BatchRow)
        .where(
            BatchRow.run_id == run.id,
            BatchRow.epoch == number,
            BatchRow.state == BatchState.CONSUMED.value,
        )
        .order_by(BatchRow.step, BatchRow.rank)
    )
    bad = _bad(session, run, number)
    delivered = [_entry(row, bad[row.index]) for row in rows]
    on_bad = BadPolicy(run.on_bad)
    problems = problems_of(run_plan(run), number, on_bad, delivered)
    return seal(
        {
            "run": str(run.id),
            "epoch": number,
            "dataset_version": run.dataset_version,
            "pipeline_hash": run.pipeline_hash,
            "seed": run.seed,
            "samples": run.samples,
            "batch_size": run.batch_size,
            "batches": epoch.batches,
            "on_bad": on_bad.value,
            "delivered": [entry.model_dump(mode="json") for entry in delivered],
            "exactly_once": not problems,
            "problems": problems,
        }
    )


def _bad(session: Session, run: Run, number: int) -> dict[int, list[Mishap]]:
    """The bad samples of an epoch, by batch."""
    found: dict[int, list[Mishap]] = defaultdict(list)
    rows = session.scalars(
        select(BadSample)
        .where(BadSample.run_id == run.id, BadSample.epoch == number)
        .order_by(BadSample.batch, BadSample.sample)
    )
    for row in rows:
        found[row.batch].append(Mishap(row.sample, row.name, row.reason, row.substitute))
    return found


def _entry(row: BatchRow, bad: list[Mishap]) -> CertificateBatch:
    return CertificateBatch(
        index=row.index,
        prong=Prong(row.prong),
        device=row.device or "",
        attempt=row.attempt,
        checksum=row.checksum,
        rank=row.rank or 0,
        step=row.step or 0,
        samples=row.samples,
        bad=bad,
    )
