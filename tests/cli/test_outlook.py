"""`ddlp run create --forecast` says what a run would come to, and makes none."""

import json
from typing import Any

from ddlp.cli.outlook import outlook_lines
from ddlp.core.client import Client
from tests.cli.test_up import ddlp
from tests.conftest import UpProcess

CREATE = ("run", "create", "fruit", "--pipeline", "small", "--forecast")


def test_a_forecast_is_printed_and_nothing_is_made(up: UpProcess, api: Client) -> None:
    before = len(api.get("/runs?limit=200"))
    told = ddlp(*CREATE, "--batch-size", "8", "--name", "dream", url=up.url)
    assert told.returncode == 0
    assert "123 images in 16 batches of" in told.stdout
    assert "csd (emulated)" in told.stdout
    found = json.loads(ddlp(*CREATE, "--json", url=up.url).stdout)
    assert found["problems"] == []
    assert len(api.get("/runs?limit=200")) == before


def test_what_stands_in_its_way_is_printed_by_field_with_status_2(up: UpProcess) -> None:
    told = ddlp(*CREATE, "--batch-size", "500", "--strategy", "magic", url=up.url)
    assert told.returncode == 2
    assert "batch_size: batch size 500 is larger" in told.stdout
    assert "strategy: there is no strategy 'magic'" in told.stdout


def forecast(**fields: Any) -> dict[str, Any]:
    usual = {
        "problems": [],
        "batches": 10,
        "images": 1000,
        "batch_bytes": 2_000_000,
        "prongs": [],
        "images_per_s": None,
        "meeting_point": None,
        "epoch_s": None,
        "run_s": None,
        "joules": None,
        "joules_per_image": None,
        "provenance": "unavailable",
        "notes": ["who knows"],
    }
    return {**usual, **fields}


def test_what_is_not_known_is_said_so() -> None:
    assert outlook_lines(forecast()) == [
        "an epoch       1,000 images in 10 batches of 2.0 MB",
        "delivered      not known yet",
        "time           not known an epoch, not known in all",
        "energy         not known",
        "note           who knows",
    ]


def test_what_is_known_has_its_unit() -> None:
    known = {"images_per_s": 1250.4, "meeting_point": 7, "epoch_s": 75.0, "run_s": 7500.0}
    energy = {"joules": 500.0, "joules_per_image": 0.5, "provenance": "modelled"}
    assert outlook_lines(forecast(**known, **energy, notes=[]))[1:] == [
        "delivered      1,250 images/s",
        "ends meet      near batch 7",
        "time           1 min 15 s an epoch, 2 h 5 min in all",
        "energy         500 J, 0.5 J/image (modelled)",
    ]
