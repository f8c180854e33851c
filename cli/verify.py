"""Proves from a run's certificates that it delivered every sample exactly once."""

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ddlp.core.certificate import OF_THE_RUN, BadEntry, Certificate, genesis, verify
from ddlp.core.client import Client
from ddlp.core.errors import InvalidInput

_FORMAT = "ddlp-certificates-1"


def collect(client: Client, run: str) -> dict[str, Any]:
    """All certificates of a run, with what they must fit: can be kept, and checked anywhere."""
    info = client.get(f"/runs/{run}")
    numbers = [epoch["number"] for epoch in client.get(f"/runs/{run}/epochs")]
    kept = ("id", "name", "epochs", "storage", *OF_THE_RUN)
    return {
        "format": _FORMAT,
        "run": {name: info[name] for name in kept},
        "certificates": [
            client.get(f"/runs/{run}/epochs/{number}/certificate") for number in numbers
        ],
    }


def read(path: Path) -> dict[str, Any]:
    """Certificates that were written to a file."""
    try:
        found = json.loads(path.read_text())
        if found["format"] != _FORMAT:
            raise InvalidInput(f"{path} is of format {found['format']}, not {_FORMAT}")
        return {name: found[name] for name in ("run", "certificates")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{path} holds no certificates ({error!r})") from error


def verify_run(client: Client, run: str) -> dict[str, Any]:
    """Check the certificate of each epoch of a run, and name what it excepts."""
    return check(collect(client, run))


def check(found: dict[str, Any]) -> dict[str, Any]:
    """Check certificates and that they form a chain, without trusting whoever gave them."""
    run, given = found["run"], found["certificates"]
    problems: dict[str, list[str]] = {}
    bad: dict[str, list[str]] = {}
    previous = genesis({**run, "run": run["id"]})
    repeated = dropped = 0
    for number, raw in enumerate(given):
        try:
            certificate = Certificate.model_validate(raw)
        except ValidationError as error:
            problems[f"epoch {number}"] = [f"it is not a certificate: {error.errors()[0]['msg']}"]
            continue
        wrong = _problems(certificate, run, number, previous)
        previous = certificate.digest
        repeated += certificate.repeated
        dropped += certificate.dropped
        if wrong:
            problems[f"epoch {number}"] = wrong
        if certificate.bad:
            bad[f"epoch {number}"] = [_words(entry) for entry in certificate.bad]
    if len(given) < run["epochs"]:
        problems["run"] = [f"{len(given)} of {run['epochs']} epochs were begun"]
    return {
        "run": run["name"],
        "epochs": len(given),
        "samples": run["samples"],
        "exactly_once": not problems,
        "problems": problems,
        "bad": bad,
        "repeated": repeated,
        "dropped": dropped,
    }


def _problems(
    certificate: Certificate, run: dict[str, Any], epoch: int, previous: str
) -> list[str]:
    said = certificate.model_dump(mode="json")
    asked = {**{name: run[name] for name in OF_THE_RUN}, "run": run["id"], "epoch": epoch}
    problems = [
        f"it is of {name} {said[name]}, not {value}"
        for name, value in asked.items()
        if said[name] != value
    ]
    storage = run.get("storage")
    if None not in (storage, certificate.storage) and storage != certificate.storage:
        problems.append(f"it is of storage {certificate.storage}, not {storage}")
    if certificate.previous != previous:
        problems.append("it is not chained to the one before it")
    return problems + verify(certificate)


def _words(entry: BadEntry) -> str:
    by = "" if entry.substitute is None else f" by sample {entry.substitute}"
    return f"sample {entry.sample} ({entry.name}) was {entry.mishap.action}{by}: {entry.reason}"
