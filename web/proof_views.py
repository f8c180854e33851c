"""View model of a check of a run's certificates."""

from dataclasses import dataclass

from ddlp.core.messages.proof import ProofInfo
from ddlp.core.proof import verdict

_MOST = 12
"""Lines of details that are shown; `ddlp verify` prints all."""


@dataclass(frozen=True)
class ProofView:
    """What was found, in a sentence and its details."""

    kind: str
    words: str
    details: list[str]


def proof_view(proof: ProofInfo) -> ProofView:
    """Proven, broken, or not known yet."""
    details = [f"{place}: {line}" for place, lines in proof.problems.items() for line in lines]
    details += [f"{place}: {line}" for place, lines in proof.lost.items() for line in lines]
    details += [*proof.taken_over, *proof.missing]
    details += [f"{place}: {line}" for place, lines in proof.bad.items() for line in lines]
    left = len(details) - _MOST
    shown = details[:_MOST] + ([f"and {left} more: ddlp verify {proof.run}"] if left > 0 else [])
    return ProofView(_kind(proof), f"{_verdict(proof)}{_exceptions(proof)}", shown)


def _kind(proof: ProofInfo) -> str:
    if proof.exactly_once and not proof.unbroken:
        return "bad"
    return {True: "good", False: "bad", None: ""}[proof.exactly_once]


def _verdict(proof: ProofInfo) -> str:
    many = "epoch" if proof.checked == 1 else "epochs"
    checked = f"{proof.checked:,} {many} of {proof.samples:,} samples checked"
    found = verdict(proof.exactly_once, proof.unbroken, proof.missing)
    if proof.next is not None and proof.exactly_once is None:
        rest = proof.epochs - proof.checked
        return f"{checked}, {found}; {rest:,} more: ddlp verify {proof.run}."
    return f"{checked}: {found}."


def _exceptions(proof: ProofInfo) -> str:
    said = [
        f"{count:,} {words}"
        for count, words in (
            (proof.bad_samples, "bad samples were skipped or replaced"),
            (proof.dropped, "were left out by the tail policy"),
            (proof.repeated, "were repeated to fill batches"),
        )
        if count
    ]
    return f" {'; '.join(said)}." if said else ""
