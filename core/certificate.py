"""The certificate of an epoch, and the check that it is one: every batch once, no step missing.

Samples that could not be used are the exception that it allows: each stands in its batch with its
reason, and with the sample that took its place if one did.
"""

import hashlib
import json
import uuid
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from ddlp.core.messages import Message
from ddlp.core.mishap import Mishap
from ddlp.core.plan import RunPlan
from ddlp.core.types import BadPolicy, Prong

_ACTIONS: dict[BadPolicy, set[str]] = {
    BadPolicy.FAIL: set(),
    BadPolicy.SKIP: {"skipped"},
    BadPolicy.REPLACE: {"replaced"},
}


class CertificateBatch(Message):
    """Who made one batch, who received it, and which of its samples could not be used."""

    index: int
    prong: Prong
    device: str
    attempt: int
    checksum: str
    rank: int
    step: int
    samples: int = Field(ge=0, description="How many it held.")
    bad: list[Mishap] = Field([], description="Those that were skipped or replaced.")


class Certificate(Message):
    """The record that proves that every sample of an epoch was delivered exactly once."""

    run: uuid.UUID
    epoch: int = Field(ge=0)
    dataset_version: str
    pipeline_hash: str
    seed: int
    samples: int = Field(ge=0)
    batch_size: int = Field(ge=1)
    batches: int
    on_bad: BadPolicy
    delivered: list[CertificateBatch]
    exactly_once: bool = Field(description="Each sample once, apart from those named as bad.")
    problems: list[str]
    digest: str = Field(description="sha256 over everything above.")

    def bad(self) -> list[Mishap]:
        """All samples of the epoch that were skipped or replaced."""
        return [mishap for entry in self.delivered for mishap in entry.bad]


def problems_of(
    plan: RunPlan, epoch: int, on_bad: BadPolicy, delivered: Sequence[CertificateBatch]
) -> list[str]:
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
    for entry in delivered:
        if 0 <= entry.index < plan.batches:
            problems += _problems_of_count(plan, on_bad, entry)
            problems += _problems_of_bad(plan, epoch, entry) if entry.bad else []
    return problems


def _problems_of_count(plan: RunPlan, on_bad: BadPolicy, entry: CertificateBatch) -> list[str]:
    """A batch holds what was planned, less what is named as skipped; and the policy allows it."""
    actions = {mishap.action for mishap in entry.bad}
    skipped = sum(mishap.substitute is None for mishap in entry.bad)
    problems = []
    if entry.samples != plan.batch_length(entry.index) - skipped:
        problems.append(f"batch {entry.index} held {entry.samples} samples, which does not add up")
    if not actions <= _ACTIONS[on_bad]:
        problems.append(f"the policy {on_bad.value} forbids what was done in batch {entry.index}")
    return problems


def _problems_of_bad(plan: RunPlan, epoch: int, entry: CertificateBatch) -> list[str]:
    """A bad sample must be one of its batch's, named once, and its substitute one that exists."""
    named = Counter(mishap.sample for mishap in entry.bad)
    mine = set(plan.batch_samples(epoch, entry.index).tolist())
    problems = [
        f"sample {sample} is named as bad in batch {entry.index}, which does not hold it"
        for sample in named
        if sample not in mine
    ]
    problems += [
        f"sample {sample} is named as bad {n} times in batch {entry.index}"
        for sample, n in named.items()
        if n > 1
    ]
    problems += [
        f"sample {mishap.sample} was replaced by {mishap.substitute}, which cannot be"
        for mishap in entry.bad
        if mishap.substitute is not None
        and (mishap.substitute >= plan.samples or mishap.substitute == mishap.sample)
    ]
    if all(mishap.substitute is None for mishap in entry.bad) and len(named) >= len(mine):
        problems.append(f"nothing is left of batch {entry.index}")
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
    problems = problems_of(plan, certificate.epoch, certificate.on_bad, certificate.delivered)
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
