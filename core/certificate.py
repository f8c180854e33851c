"""Checks that a record of deliveries is an epoch: every batch once, no rank's steps with a gap."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from ddlp.core.messages import Certificate, CertificateBatch
from ddlp.core.plan import RunPlan


def problems_of(plan: RunPlan, delivered: Sequence[CertificateBatch]) -> list[str]:
    """What is wrong with a record, in words; nothing when each sample was delivered once."""
    counts = Counter(entry.index for entry in delivered)
    problems = [f"batch {index} was delivered {n} times" for index, n in counts.items() if n > 1]
    missing = [index for index in range(plan.batches) if index not in counts]
    if missing:
        shown = ", ".join(str(index) for index in missing[:5])
        more = " …" if len(missing) > 5 else ""
        problems.append(f"not delivered ({len(missing)}): batch {shown}{more}")
    problems += [f"there is no batch {index}" for index in counts if not 0 <= index < plan.batches]
    steps: dict[int, list[int]] = defaultdict(list)
    for entry in delivered:
        steps[entry.rank].append(entry.step)
    for rank, taken in sorted(steps.items()):
        if sorted(taken) != list(range(len(taken))):
            problems.append(f"the steps of rank {rank} have gaps or repeats")
    return problems


def seal(body: dict[str, Any]) -> Certificate:
    """A certificate with its digest."""
    return Certificate.model_validate({**body, "digest": _digest(body)})


def verify(certificate: Certificate) -> list[str]:
    """Check a certificate without trusting whoever made it."""
    plan = RunPlan(
        samples=certificate.samples,
        batch_size=certificate.batch_size,
        epochs=certificate.epoch + 1,
        seed=certificate.seed,
    )
    problems = problems_of(plan, certificate.delivered)
    if certificate.exactly_once != (not problems) or certificate.problems != problems:
        problems.append("it says otherwise of itself")
    if certificate.batches != plan.batches:
        problems.append(f"it speaks of {certificate.batches} batches; the plan has {plan.batches}")
    body = certificate.model_dump(mode="json", exclude={"digest"})
    if _digest(body) != certificate.digest:
        problems.append("its digest does not fit its content")
    return problems


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
