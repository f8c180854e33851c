"""The proof that a run delivered every sample exactly once: its certificates, and their chain.

Two things are told apart: whether each sample was delivered once, and whether one unbroken line of
training sessions received them. A run that took over from another one is proved together with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from ddlp.core.certificate import (
    OF_THE_RUN,
    BadEntry,
    Certificate,
    check_origin,
    genesis,
    segments_of,
    verify,
    was_handed,
)
from ddlp.core.sessions import SessionPart
from ddlp.core.takeover import Origin


@dataclass
class Proof:
    """Takes the certificates of a run one after the other, without trusting whoever gives them."""

    run: Mapping[str, Any]
    """The facts that they must fit: id, name, epochs, storage, and all that decides its batches."""
    numbers: Sequence[int]
    """The epochs that were begun."""
    first: int = 0
    """The place in `numbers` to begin with."""
    previous: str | None = None
    """The digest of the epoch before the first, where that is not the run's beginning."""
    names_at_most: int | None = None
    """How many bad samples are named; the others are only counted."""
    checked: int = 0
    problems: dict[str, list[str]] = field(default_factory=dict)
    lost: dict[str, list[str]] = field(default_factory=dict)
    """Training that was lost with a session, by epoch."""
    origin: Origin | None = None
    """Where the run took over from another one, once that epoch was checked."""
    bad: dict[str, list[str]] = field(default_factory=dict)
    bad_samples: int = 0
    repeated: int = 0
    dropped: int = 0

    def __post_init__(self) -> None:
        if self.previous is None:
            self.previous = genesis({**self.run, "run": self.run["id"]})

    def add(self, raw: object) -> Certificate | None:
        """Check a record that is said to be the certificate of the next epoch."""
        number = self.numbers[self.first + self.checked]
        self.checked += 1
        try:
            certificate = Certificate.model_validate(raw)
        except ValidationError as error:
            wrong = f"it is not a certificate: {error.errors()[0]['msg']}"
            self.problems[f"epoch {number}"] = [wrong]
            return None
        problems = self._problems(certificate, number)
        self.previous = certificate.digest
        self.origin = certificate.origin or self.origin
        self.repeated += certificate.repeated
        self.dropped += certificate.dropped
        if problems:
            self.problems[f"epoch {number}"] = problems
        if certificate.lost:
            self.lost[f"epoch {number}"] = list(certificate.lost)
        self._name_bad(certificate, number)
        return certificate

    def end(self) -> None:
        """Miss the epochs that a run should have delivered and has not begun."""
        begun, wanted = len(self.numbers), self.run["epochs"]
        start = 0 if self.origin is None else self.origin.first_epoch
        skipped = sorted(set(range(start, max(self.numbers, default=start))) - set(self.numbers))
        problems = [f"epoch {number} was not delivered" for number in skipped]
        if wanted is not None and start + begun + len(skipped) < wanted:
            problems.append(f"only {begun} of {wanted - start} epochs were begun")
        if problems:
            self.problems["run"] = problems

    def _problems(self, certificate: Certificate, epoch: int) -> list[str]:
        run, said = self.run, certificate.model_dump(mode="json")
        asked = {**{name: run[name] for name in OF_THE_RUN}, "run": run["id"], "epoch": epoch}
        problems = [
            f"it is of {name} {said[name]}, not {value}"
            for name, value in asked.items()
            if said[name] != value
        ]
        storage = run.get("storage")
        if None not in (storage, certificate.storage) and storage != certificate.storage:
            problems.append(f"it is of storage {certificate.storage}, not {storage}")
        if certificate.previous != self.previous:
            problems.append("it is not chained to the one before it")
        return problems + verify(certificate)

    def _name_bad(self, certificate: Certificate, epoch: int) -> None:
        most = self.names_at_most
        left = None if most is None else max(0, most - self.bad_samples)
        named = [_words(entry) for entry in certificate.bad[:left]]
        if named:
            self.bad[f"epoch {epoch}"] = named
        self.bad_samples += len(certificate.bad)


@dataclass
class Lineage:
    """The proof of a run together with the runs that it went on from."""

    proof: Proof
    earlier: dict[str, list[str]] = field(default_factory=dict)
    """Problems of the runs before it."""
    lost: dict[str, list[str]] = field(default_factory=dict)
    taken_over: list[str] = field(default_factory=list)
    """Where each of them was left, in words."""
    missing: list[str] = field(default_factory=list)
    """What cannot be proved because a run's certificates are not there."""

    def follow(self, origin: Origin, found: Mapping[str, Any] | None) -> Origin | None:
        """Check the run that was taken over from; returns where that one took over itself."""
        name = found["run"]["name"] if found is not None else origin.run
        where = f"{origin.position} batches of epoch {origin.epoch}"
        self.taken_over.append(f"went on from a state of run {name} after {where}")
        if found is None:
            self.missing.append(
                f"the certificates of run {origin.run}, up to {where}, are not here"
            )
            return None
        last_epoch = origin.epoch if origin.position else origin.epoch - 1
        numbers = [number for number in begun_of(found) if number <= last_epoch]
        proof = Proof({**found["run"], "epochs": None}, numbers)
        last = None
        for raw in found["certificates"][: len(numbers)]:
            last = proof.add(raw)
        _until(proof, origin, last)
        proof.end()
        wrong = [*_other_run(self.proof.run, found["run"], origin)]
        if last is None or last.epoch != last_epoch:
            if last_epoch >= 0:
                wrong.append(f"epoch {last_epoch} was not begun")
        elif origin.position:
            wrong += check_origin(origin, last)
        if wrong:
            proof.problems["takeover"] = wrong
        self.earlier |= {f"run {name}, {place}": w for place, w in proof.problems.items()}
        self.lost |= {f"run {name}, {place}": w for place, w in proof.lost.items()}
        return proof.origin

    @property
    def exactly_once(self) -> bool | None:
        """Whether each sample was delivered once; None where that is not known of all."""
        if self.proof.problems or self.earlier:
            return False
        return None if self.missing else True

    @property
    def unbroken(self) -> bool | None:
        """Whether one unbroken line of sessions received them; None where that is not known."""
        if self.proof.lost or self.lost:
            return False
        return None if self.missing else True


_IDENTITY = (
    "dataset_version",
    "pipeline_hash",
    "seed",
    "samples",
    "batch_size",
    "reshuffle",
)
"""What a run shares with the one that it went on from: it decides which samples come when."""


def _other_run(run: Mapping[str, Any], earlier: Mapping[str, Any], origin: Origin) -> list[str]:
    """Say where an earlier run is not the one that is named, or one of other batches."""
    wrong = [] if earlier["id"] == origin.run else [f"it is run {earlier['id']}, not {origin.run}"]
    return wrong + [
        f"it is of {name} {earlier[name]}, not {run[name]}"
        for name in _IDENTITY
        if earlier[name] != run[name]
    ]


def _until(proof: Proof, origin: Origin, last: Certificate | None) -> None:
    """Of the epoch that was taken over, only what lies before that place counts.

    What was handed out by then was received, since a state says so.
    """
    if last is None:
        return
    cut = segments_of(last)[-1]
    end = cut.position + cut.batches
    mid = last.epoch == origin.epoch and origin.position
    until = origin.position if mid else end
    if not mid and not was_handed(last, last.segments[-1], end):
        return
    place = f"epoch {last.epoch}"
    known = [p for p in proof.problems.pop(place, []) if not _is_of_the_rest(p)]
    lost = [words for p in _parts_until(last, until) if (words := p.lost(last.epoch))]
    proof.lost.pop(place, None)
    if known:
        proof.problems[place] = known
    if lost:
        proof.lost[place] = lost


def _is_of_the_rest(problem: str) -> bool:
    """Whether a problem is only that an epoch was left before its end."""
    return problem.startswith("not delivered") or "no session is named" in problem


def _parts_until(certificate: Certificate, until: int) -> list[SessionPart]:
    """The sessions that received what lies before a place that was taken over.

    The last one of each rank received something, whatever it had said by then: the state is of it.
    """
    before = [part for part in certificate.sessions if part.first < until]
    last = {part.rank: part for part in before}
    return [part for part in before if not part.empty or last[part.rank] is part]


def begun_of(found: Mapping[str, Any]) -> list[int]:
    """The epochs that certificates are said to be of."""
    count = len(found["certificates"])
    begun = found["run"].get("begun")
    numbers = begun if isinstance(begun, list) and len(begun) == count else range(count)
    return [int(number) for number in numbers]


def check(found: Mapping[str, Any]) -> dict[str, Any]:
    """Check all certificates of a run at once, and name what they except."""
    run = found["run"]
    proof = Proof(run, begun_of(found))
    for raw in found["certificates"]:
        proof.add(raw)
    proof.end()
    lineage = Lineage(proof)
    origin, before = proof.origin, found
    while origin is not None:
        before = before.get("origin") or {}
        origin = lineage.follow(origin, before or None)
    return {
        "run": run["name"],
        "verdict": verdict(lineage.exactly_once, lineage.unbroken, lineage.missing)
        + (f"; {proof.bad_samples:,} were bad, as listed" if proof.bad_samples else ""),
        "epochs": len(proof.numbers),
        "samples": run["samples"],
        "exactly_once": lineage.exactly_once,
        "unbroken": lineage.unbroken,
        "problems": {**proof.problems, **lineage.earlier},
        "lost": {**proof.lost, **lineage.lost},
        "taken_over": lineage.taken_over,
        "missing": lineage.missing,
        "bad": proof.bad,
        "repeated": proof.repeated,
        "dropped": proof.dropped,
    }


def verdict(exactly_once: bool | None, unbroken: bool | None, missing: Sequence[str]) -> str:
    """What was found, in words."""
    if exactly_once is False:
        return "not proven"
    if unbroken is False:
        return "every sample delivered once, but a training session was lost"
    if missing:
        return "every sample of what is here exactly once; what lies before cannot be proved"
    if exactly_once is None:
        return "nothing wrong so far"
    return "every sample exactly once, in one unbroken line of training sessions"


def _words(entry: BadEntry) -> str:
    by = "" if entry.substitute is None else f" by sample {entry.substitute}"
    return f"sample {entry.sample} ({entry.name}) was {entry.mishap.action}{by}: {entry.reason}"
