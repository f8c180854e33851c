"""The proof that a run delivered every sample exactly once: its certificates, and their chain."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from ddlp.core.certificate import OF_THE_RUN, BadEntry, Certificate, genesis, verify


@dataclass
class Proof:
    """Takes the certificates of a run one after the other, without trusting whoever gives them."""

    run: Mapping[str, Any]
    """What they must fit: id, name, epochs, storage, and all that decides its batches."""
    first: int = 0
    """The epoch that it begins with."""
    previous: str | None = None
    """The digest of the epoch before the first, where that is not the run's beginning."""
    names_at_most: int | None = None
    """How many bad samples are named; the others are only counted."""
    checked: int = 0
    problems: dict[str, list[str]] = field(default_factory=dict)
    bad: dict[str, list[str]] = field(default_factory=dict)
    bad_samples: int = 0
    repeated: int = 0
    dropped: int = 0

    def __post_init__(self) -> None:
        if self.previous is None:
            self.previous = genesis({**self.run, "run": self.run["id"]})

    def add(self, raw: object) -> None:
        """Check what is said to be the certificate of the next epoch."""
        number = self.first + self.checked
        self.checked += 1
        try:
            certificate = Certificate.model_validate(raw)
        except ValidationError as error:
            wrong = f"it is not a certificate: {error.errors()[0]['msg']}"
            self.problems[f"epoch {number}"] = [wrong]
            return
        problems = self._problems(certificate, number)
        self.previous = certificate.digest
        self.repeated += certificate.repeated
        self.dropped += certificate.dropped
        if problems:
            self.problems[f"epoch {number}"] = problems
        self._name_bad(certificate, number)

    def end(self, begun: int) -> None:
        """Miss what a run should have delivered and has not begun."""
        if begun < self.run["epochs"]:
            self.problems["run"] = [f"{begun} of {self.run['epochs']} epochs were begun"]

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


def check(found: Mapping[str, Any]) -> dict[str, Any]:
    """Check all certificates of a run at once, and name what they except."""
    run, given = found["run"], found["certificates"]
    proof = Proof(run)
    for raw in given:
        proof.add(raw)
    proof.end(len(given))
    return {
        "run": run["name"],
        "epochs": len(given),
        "samples": run["samples"],
        "exactly_once": not proof.problems,
        "problems": proof.problems,
        "bad": proof.bad,
        "repeated": proof.repeated,
        "dropped": proof.dropped,
    }


def _words(entry: BadEntry) -> str:
    by = "" if entry.substitute is None else f" by sample {entry.substitute}"
    return f"sample {entry.sample} ({entry.name}) was {entry.mishap.action}{by}: {entry.reason}"
