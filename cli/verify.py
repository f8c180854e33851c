"""Proves from a run's certificates that it delivered every sample exactly once."""

from typing import Any

from pydantic import ValidationError

from ddlp.core.certificate import Certificate, verify
from ddlp.core.client import Client
from ddlp.core.mishap import Mishap

_OF_THE_RUN = (
    "dataset_version",
    "pipeline_hash",
    "seed",
    "samples",
    "batch_size",
    "batches",
    "on_bad",
)
"""What a certificate must share with the run that it is said to be of."""


def verify_run(client: Client, run: str) -> dict[str, Any]:
    """Check the certificate of each epoch that was opened, and name the samples it excepts."""
    info = client.get(f"/runs/{run}")
    problems: dict[str, list[str]] = {}
    bad: dict[str, list[str]] = {}
    checked = 0
    for epoch in client.get(f"/runs/{run}/epochs"):
        name = f"epoch {epoch['number']}"
        raw = client.get(f"/runs/{run}/epochs/{epoch['number']}/certificate")
        found, excepted = _check(raw, info, epoch["number"])
        checked += 1
        if found:
            problems[name] = found
        if excepted:
            bad[name] = excepted
    if checked < info["epochs"]:
        problems["run"] = [f"{checked} of {info['epochs']} epochs were begun"]
    return {
        "run": info["name"],
        "epochs": checked,
        "samples": info["samples"],
        "exactly_once": not problems,
        "problems": problems,
        "bad": bad,
    }


def _check(raw: Any, info: dict[str, Any], epoch: int) -> tuple[list[str], list[str]]:
    """What is wrong with a certificate, and which samples it names as skipped or replaced."""
    try:
        certificate = Certificate.model_validate(raw)
    except ValidationError as error:
        return [f"it is not a certificate: {error.errors()[0]['msg']}"], []
    said = certificate.model_dump(mode="json")
    asked = {**{name: info[name] for name in _OF_THE_RUN}, "run": info["id"], "epoch": epoch}
    problems = [
        f"it is of {name} {said[name]}, not {value}"
        for name, value in asked.items()
        if said[name] != value
    ]
    return problems + verify(certificate), [_words(mishap) for mishap in certificate.bad()]


def _words(mishap: Mishap) -> str:
    by = "" if mishap.substitute is None else f" by sample {mishap.substitute}"
    return f"sample {mishap.sample} ({mishap.name}) was {mishap.action}{by}: {mishap.reason}"
