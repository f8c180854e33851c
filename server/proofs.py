"""Checks the certificates of a run on the server, a bounded number of them at a time."""

import json
import threading
import time
from collections.abc import Callable
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from ddlp.core.errors import Unavailable
from ddlp.core.messages.proof import ProofInfo
from ddlp.core.proof import Proof
from ddlp.server import certificates
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
    begun = session.scalar(select(func.count()).where(Epoch.run_id == run.id)) or 0
    previous = certificates.find(session, run, first - 1).digest if 0 < first <= begun else None
    proof = Proof(_facts(run), first, previous, _NAMED)
    until = clock() + _PATIENCE_S
    stop = min(begun, first + limit)
    for number in range(first, stop):
        if proof.checked and clock() >= until:
            break
        proof.add(_kept(session, run, number))
    after = first + proof.checked
    if after >= begun:
        proof.end(begun)
    return _info(proof, begun, after if after < begun else None)


def _info(proof: Proof, begun: int, following: int | None) -> ProofInfo:
    good = True if proof.first == 0 and following is None else None
    return ProofInfo(
        run=proof.run["name"],
        epochs=begun,
        first=proof.first,
        checked=proof.checked,
        next=following,
        samples=proof.run["samples"],
        exactly_once=False if proof.problems else good,
        problems=proof.problems,
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
