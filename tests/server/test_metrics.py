"""The figures for Prometheus: read back by a strict parser, with what is unknown left out."""

import math
import re
import uuid
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddlp.core.energy import EnergyReading
from ddlp.core.errors import Unavailable
from ddlp.core.messages import Heartbeat, RoomInfo
from ddlp.core.types import Prong, Provenance, RunState, Spending, Stage
from ddlp.server import devices, metrics
from ddlp.server.metrics import FAMILIES, Exposed, ExposedDevice, Exposure, exposition
from ddlp.server.models import Run
from ddlp.server.routes import metrics as route
from tests.server.conftest import Plane
from tests.server.driving import ask, deliver, new_run, register, settle

DOCUMENT = Path(__file__).parents[2] / "docs" / "exports.md"
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*"'
Labels = dict[str, str]


@dataclass
class Read:
    """A family as it was read back."""

    kind: str
    help: str
    samples: list[tuple[Labels, float]] = field(default_factory=list)

    def one(self, **labels: str) -> float:
        [found] = [figure for mine, figure in self.samples if mine == labels]
        return found


def parse(text: str) -> dict[str, Read]:
    """Read the text format, and let no line pass that it does not allow."""
    assert text.endswith("\n")
    found: dict[str, Read] = {}
    lines = iter(text.split("\n")[:-1])
    name = ""
    for line in lines:
        if line.startswith("# HELP "):
            head = re.fullmatch(rf"# HELP ({NAME}) (.+)", line)
            assert head, line
            name = head[1]
            kind = re.fullmatch(rf"# TYPE {name} (counter|gauge)", next(lines))
            assert kind, line
            assert name not in found, "a family comes once"
            found[name] = Read(kind[1], head[2])
        else:
            sample = re.fullmatch(rf"{name}(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)", line)
            assert sample, line
            pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', sample[1] or "")
            labels = {key: _plain(value) for key, value in pairs}
            assert labels not in [mine for mine, _ in found[name].samples], "a sample comes once"
            found[name].samples.append((labels, float(sample[2])))
    return found


def _plain(value: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), value)


def exposed(**fields: Any) -> Exposure:
    usual = {"version": "1.2", "states": {}, "runs": [], "devices": [], "live_streams": 0}
    return Exposure(**{**usual, **fields})


FULL = exposed(
    states={"running": 2},
    runs=[
        Exposed(
            run="r50",
            state=RunState.RUNNING,
            images={"cpu": 2**60, "csd": 0},
            batches={"cpu": 3},
            spent_s={Spending.TRAINING: 1.5, Spending.CSD: 1e-9},
            stage_s={(Prong.CPU, Stage.DECODE): 0.1},
            joules={("cpu", "modelled"): 12.25},
            read_bytes={"mmap": 4096},
        ),
        Exposed(run="other", state=RunState.PAUSED),
    ],
    devices=[
        ExposedDevice("csd0", "csd", "emulated-csd", True, 7.5, "modelled"),
        ExposedDevice("csd1", "csd", "emulated-csd", True),
        ExposedDevice("cpu", "cpu", "host", False),
    ],
    live_streams=4,
)


def test_every_figure_is_read_back() -> None:
    found = parse(exposition(FULL))
    assert found["ddlp_build_info"].one(version="1.2") == 1
    assert found["ddlp_runs"].one(state="running") == 2
    assert found["ddlp_runs"].one(state="failed") == 0
    assert found["ddlp_images_made_total"].one(run="r50", prong="cpu") == 2**60
    assert found["ddlp_batches_made_total"].samples == [({"run": "r50", "prong": "cpu"}, 3)]
    assert found["ddlp_trainer_seconds_total"].one(run="r50", spent="csd") == 1e-9
    assert found["ddlp_stage_seconds_total"].one(run="r50", prong="cpu", stage="decode") == 0.1
    energy = found["ddlp_energy_joules_total"]
    assert energy.one(run="r50", source="cpu", provenance="modelled") == 12.25
    assert found["ddlp_read_bytes_total"].one(run="r50", path="mmap") == 4096
    assert found["ddlp_devices"].one(prong="csd", kind="emulated-csd", live="true") == 2
    assert found["ddlp_devices"].one(prong="cpu", kind="host", live="false") == 1
    assert found["ddlp_device_energy_joules_total"].samples == [
        ({"device": "csd0", "provenance": "modelled"}, 7.5)
    ]
    assert found["ddlp_live_streams"].samples == [({}, 4)]


def test_what_is_unknown_is_left_out() -> None:
    found = parse(exposition(FULL))
    named = [labels for family in found.values() for labels, _ in family.samples]
    assert not [labels for labels in named if labels.get("run") == "other"]
    assert not [labels for labels in named if labels.get("device") == "csd1"]
    assert not any(math.isnan(figure) for f in found.values() for _, figure in f.samples)


def test_names_follow_the_rules() -> None:
    units = ("_seconds_total", "_joules_total", "_bytes_total", "_images_made_total")
    for family in FAMILIES:
        assert (family.kind == "counter") == family.name.endswith("_total")
        assert family.name.startswith("ddlp_")
        if family.kind == "counter":
            assert family.name.endswith((*units, "_batches_made_total", "_messages_total"))
    assert list(parse(exposition(FULL))) == [family.name for family in FAMILIES]


@given(name=st.text())
def test_any_label_is_read_back(name: str) -> None:
    text = exposition(exposed(runs=[Exposed(name, RunState.RUNNING, images={"cpu": 1})]))
    assert parse(text)["ddlp_images_made_total"].one(run=name, prong="cpu") == 1


def test_the_clients_own_parser_reads_it() -> None:
    parser = pytest.importorskip("prometheus_client.parser", reason="not installed")
    found = {
        family.name: family for family in parser.text_string_to_metric_families(exposition(FULL))
    }
    assert found["ddlp_images_made"].samples[0].value == 2**60
    assert found["ddlp_runs"].type == "gauge"
    assert len(found) == len(FAMILIES)


def test_every_name_is_documented_with_its_labels() -> None:
    rows = re.findall(r"^\| `(ddlp_\w+)` \| (\w+) \| (.*?) \|", DOCUMENT.read_text(), re.MULTILINE)
    assert {name: (kind, re.findall(r"`(\w+)`", labels)) for name, kind, labels in rows} == {
        family.name: (family.kind, list(family.labels)) for family in FAMILIES
    }


# What is gathered


def answer(plane: Plane) -> dict[str, Read]:
    context: Any = SimpleNamespace(dispatcher=plane.dispatcher, settings=plane.settings, streams=2)
    request: Any = SimpleNamespace(app=SimpleNamespace(version="1.2"))
    with plane.database.session() as session:
        response = route.show(request, session, context)
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return parse(bytes(response.body).decode())


def test_a_dispatcher_that_does_not_answer_holds_nobody_up(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(plane, Prong.CPU)
    assert answer(plane)["ddlp_dropped_messages_total"].samples
    never: Future[Any] = Future()
    monkeypatch.setattr(plane.dispatcher, "call", lambda _: never)
    monkeypatch.setattr(route, "_PATIENCE_S", 0.01)
    assert answer(plane)["ddlp_devices"].samples, "the rest is told"
    assert not answer(plane)["ddlp_dropped_messages_total"].samples
    failed: Future[Any] = Future()
    failed.set_exception(Unavailable("the database is away"))
    monkeypatch.setattr(plane.dispatcher, "call", lambda _: failed)
    assert not answer(plane)["ddlp_dropped_messages_total"].samples


def test_a_server_tells_of_its_runs_and_devices(plane: Plane, images: Path) -> None:
    incarnation = register(plane, Prong.CPU)
    new_run(plane, images, name="r50", epochs=2)
    run = new_run(plane, images, name="short")
    body = Heartbeat(
        incarnation=incarnation,
        room=RoomInfo(),
        energy=EnergyReading(joules=5, provenance=Provenance.MODELLED, method="test"),
    )
    ask(plane, lambda board, s, now: devices.heartbeat(board, s, "cpu", body, now))
    deliver(plane, run)
    settle(plane)
    found = answer(plane)
    assert found["ddlp_runs"].one(state="running") + found["ddlp_runs"].one(state="created") >= 1
    assert found["ddlp_batches_made_total"].one(run="short", prong="cpu") == 7
    assert found["ddlp_devices"].one(prong="cpu", kind="host", live="true") == 1
    assert found["ddlp_device_energy_joules_total"].one(device="cpu", provenance="modelled") == 5
    assert found["ddlp_live_streams"].one() == 2


def test_only_runs_that_are_active_or_ended_lately_are_named(plane: Plane, images: Path) -> None:
    active = new_run(plane, images, name="active")
    for name, ended_at in (("lately", plane.now - 3000), ("long-ago", plane.now - 4000)):
        _end(plane, new_run(plane, images, name=name), ended_at)
    context: Any = SimpleNamespace(dispatcher=plane.dispatcher)
    with plane.database.session() as session:
        found = {shown.run: shown for shown in route.gather(session, context)}
    assert set(found) == {"active", "lately"}
    assert found["lately"].state is RunState.COMPLETED
    assert active


def test_no_more_runs_are_named_than_said(
    plane: Plane, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "MOST_RUNS", 2)
    for number in range(3):
        new_run(plane, images, name=f"run{number}")
    context: Any = SimpleNamespace(dispatcher=plane.dispatcher)
    with plane.database.session() as session:
        assert [shown.run for shown in route.gather(session, context)] == ["run2", "run1"]


def _end(plane: Plane, run: uuid.UUID, ended_at: float) -> None:
    with plane.database.session() as session:
        row = session.get_one(Run, run)
        row.state, row.ended_at = RunState.COMPLETED.value, ended_at
