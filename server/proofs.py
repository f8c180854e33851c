"""Checks the certificates of a run on the server, a bounded number of them at a time."""

import json
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ddlp.core.errors import Unavailable
from ddlp.core.messages.proof import ProofInfo
from ddlp.core.proof import Lineage, Proof
from ddlp.core.takeover import Origin
from ddlp.server import certificates
from ddlp.server.ledger import is_begun
from ddlp.server.models import CertificateRow, Epoch, Run

MOST_EPOCHS = 1000
_PATIENCE_S = 5.0
"""Nobody waits longer for one answer: who wants to know more asks on."""
_NAMED = 100
_ONE_AT_A_TIME = threading.Lock()
"""It is all work for the processor, which others need too."""


def prove(
    session: Session,
    run: Run,
    first: int = 0,
    limit: int = MOST_EPOCHS,
    clock: Callable[[], float] = time.monotonic,
) -> ProofInfo:
    """Check epochs of a run from one on, until there are no more, or enough for one answer."""
    if not _ONE_AT_A_TIME.acquire(timeout=2 * _PATIENCE_S):
        raise Unavailable("other certificates are being checked; try again in a moment")
    try:
        return _prove(session, run, first, limit, clock)
    finally:
        _ONE_AT_A_TIME.release()


def _prove(
    session: Session, run: Run, first: int, limit: int, clock: Callable[[], float]
) -> ProofInfo:
    numbers = begun(session, run)
    skip = sum(number < first for number in numbers)
    previous = certificates.find(session, run, numbers[skip - 1]).digest if skip else None
    proof = Proof(_facts(run), numbers, skip, previous, _NAMED)
    until = clock() + _PATIENCE_S
    for number in numbers[skip : skip + limit]:
        if proof.checked and clock() >= until:
            break
        proof.add(_kept(session, run, number))
    after = numbers[skip + proof.checked :]
    lineage = Lineage(proof)
    if not after:
        origin = proof.origin = proof.origin or first_origin(session, run)
        proof.end()
        while origin is not None:
            origin = lineage.follow(origin, _earlier(session, origin))
    return _info(lineage, after[0] if after else None)


def begun(session: Session, run: Run) -> list[int]:
    """The epochs that were begun; those behind them that were only prepared are none."""
    counts = (Epoch.batches, Epoch.consumed, Epoch.dealt_head, Epoch.dealt_tail)
    query = select(Epoch.number, *counts).where(Epoch.run_id == run.id).order_by(Epoch.number)
    rows = [(number, is_begun(*rest)) for number, *rest in session.execute(query)]
    while rows and not rows[-1][1]:
        rows.pop()
    return [number for number, _ in rows]


def first_origin(session: Session, run: Run) -> Origin | None:
    """Where a run took over from another one."""
    query = select(Epoch.origin).where(Epoch.run_id == run.id).order_by(Epoch.number)
    kept = next((origin for origin in session.scalars(query) if origin is not None), None)
    return None if kept is None else Origin.from_json(kept)


def _earlier(session: Session, origin: Origin) -> dict[str, Any] | None:
    """The certificates of the run that was taken over from, where they are kept here."""
    try:
        row = session.get(Run, uuid.UUID(origin.run))
    except ValueError:
        row = None
    if row is None:
        return None
    numbers = [number for number in begun(session, row) if number <= origin.epoch]
    if len(numbers) > MOST_EPOCHS:
        return None
    return {
        "run": {**_facts(row), "begun": numbers},
        "certificates": [_kept(session, row, number) for number in numbers],
    }


def _info(lineage: Lineage, following: int | None) -> ProofInfo:
    proof = lineage.proof
    all_of_it = proof.first == 0 and following is None
    return ProofInfo(
        run=proof.run["name"],
        epochs=len(proof.numbers),
        first=proof.numbers[proof.first] if proof.first < len(proof.numbers) else 0,
        checked=proof.checked,
        next=following,
        samples=proof.run["samples"],
        exactly_once=lineage.exactly_once if all_of_it else lineage.exactly_once and None,
        unbroken=lineage.unbroken if all_of_it else lineage.unbroken and None,
        problems={**proof.problems, **lineage.earlier},
        lost={**proof.lost, **lineage.lost},
        taken_over=lineage.taken_over,
        missing=lineage.missing,
        bad=proof.bad,
        bad_samples=proof.bad_samples,
        repeated=proof.repeated,
        dropped=proof.dropped,
        checked_at=time.time(),
    )


def _facts(run: Run) -> dict[str, Any]:
    known = certificates.facts(run)
    return {
        **known,
        "id": known["run"],
        "name": run.name,
        "epochs": run.epochs,
        "storage": run.storage,
    }


def _kept(session: Session, run: Run, number: int) -> object:
    """The certificate of an epoch as it is kept, whatever became of it there."""
    body = session.scalar(
        select(CertificateRow.body).where(
            CertificateRow.run_id == run.id, CertificateRow.epoch == number
        )
    )
    if body is None:
        return certificates.find(session, run, number)
    try:
        return json.loads(body)
    except ValueError:
        return body
