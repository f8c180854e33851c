"""Proves from a run's certificates that it delivered every sample exactly once."""

from typing import Any

from pydantic import ValidationError

from ddlp.core.certificate import verify
from ddlp.core.client import Client
from ddlp.core.messages import Certificate


def _check(raw: Any) -> list[str]:
    try:
        return verify(Certificate.model_validate(raw))
    except ValidationError as error:
        return [f"it is not a certificate: {error.errors()[0]['msg']}"]


def verify_run(client: Client, run: str) -> dict[str, Any]:
    """Check the certificate of each epoch that was opened."""
    info = client.get(f"/runs/{run}")
    problems: dict[str, list[str]] = {}
    checked = 0
    for epoch in client.get(f"/runs/{run}/epochs"):
        number = epoch["number"]
        raw = client.get(f"/runs/{run}/epochs/{number}/certificate")
        found = _check(raw)
        checked += 1
        if found:
            problems[f"epoch {number}"] = found
    if checked < info["epochs"]:
        problems["run"] = [f"{checked} of {info['epochs']} epochs were begun"]
    return {
        "run": info["name"],
        "epochs": checked,
        "samples": info["samples"],
        "exactly_once": not problems,
        "problems": problems,
    }
