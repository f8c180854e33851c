"""What is slow is what is named, and every second is in the account."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ddlp.core.client import Client
from ddlp.core.types import Spending
from ddlp.loader import DualLoader
from tests.conftest import UpProcess, add_fruit, wait_until
from tests.core.meters.fake_host import FakePowercap
from tests.end_to_end.trainer import new_run

BROKEN = str(Path(__file__).parent / "broken")


class Counting(threading.Thread):
    """A package whose counter grows by 20 J a second."""

    def __init__(self, counter: Path) -> None:
        super().__init__(daemon=True)
        self._counter = counter
        self.over = threading.Event()

    def run(self) -> None:
        joules = 0
        while not self.over.wait(0.1):
            joules += 2
            new = self._counter.with_name("new")
            new.write_text(str(joules * 1_000_000))
            new.replace(self._counter)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Names the stage that workers are slow at."""
    path = tmp_path_factory.mktemp("stage") / "stage"
    path.write_text("none")
    return path


@pytest.fixture(scope="module")
def host(
    tmp_path_factory: pytest.TempPathFactory, images: Path, stage: Path
) -> Iterator[UpProcess]:
    """A stack whose workers are slow at a stage, on a host with a RAPL counter."""
    powercap = FakePowercap(tmp_path_factory.mktemp("powercap"))
    counting = Counting(powercap.zone("intel-rapl:0", "package-0", 0))
    counting.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", BROKEN)
        patch.setenv("BROKEN", "dawdle_at_a_stage")
        patch.setenv("SLOW_STAGE", str(stage))
        settings = {"cpu_workers": "1", "cpu_window": "4", "powercap": str(powercap.root)}
        home = tmp_path_factory.mktemp("host")
        with UpProcess(home, [images], csd_speed="0.05", **settings) as running:
            add_fruit(running, images)
            yield running
    counting.over.set()


@pytest.fixture
def client(host: UpProcess) -> Iterator[Client]:
    with host.client() as found:
        yield found


def trained(host: UpProcess, run: str, step_s: float = 0.0) -> tuple[dict[Spending, float], float]:
    """The account of a trainer that works so long at each batch, and how long its passes took."""
    passes_s = 0.0
    with DualLoader(run=run, url=host.url, prefetch=2) as loader:
        while loader.epoch < loader.epochs:
            started_s = time.monotonic()
            for _ in loader:
                time.sleep(step_s)
            passes_s += time.monotonic() - started_s
        return loader.timing.spent_s, passes_s


def report(client: Client, run: str) -> dict[str, Any]:
    wait_until(lambda: client.get(f"/runs/{run}")["state"] == "completed")
    found: dict[str, Any] = client.get(f"/runs/{run}/report")
    return found


@pytest.mark.parametrize(
    ("slow", "strategy", "step_s", "named"),
    [
        ("fetch", "cpu", 0.0, Spending.STORAGE),
        ("decode", "cpu", 0.0, Spending.DECODE),
        ("write", "cpu", 0.0, Spending.STORAGE),
        ("none", "csd", 0.0, Spending.CSD),
        ("none", "cpu", 0.2, Spending.TRAINING),
    ],
)
def test_the_stage_that_is_slow_is_named(
    host: UpProcess,
    client: Client,
    stage: Path,
    slow: str,
    strategy: str,
    step_s: float,
    named: Spending,
) -> None:
    stage.write_text(slow)
    run = new_run(client, strategy=strategy, epochs=1 if step_s else 3)
    spent_s, passes_s = trained(host, run, step_s)
    stage.write_text("none")
    assert sum(spent_s.values()) == pytest.approx(passes_s, rel=0.02, abs=0.05)
    stall = report(client, run)["whole"]["stall"]
    assert stall["limited_by"] == named
    assert sum(stall["shares"].values()) == pytest.approx(1)
    assert sum(stall["spent_s"].values()) == pytest.approx(passes_s, rel=0.05, abs=0.1)
    if slow in ("fetch", "decode", "write"):
        [device] = [d for d in report(client, run)["whole"]["devices"] if d["source"] == "cpu"]
        work = {name: s for name, s in device["stages_s"].items() if name != "queue"}
        assert max(work, key=lambda name: work[name]) == slow


def test_joules_are_measured_where_the_host_counts_them(
    host: UpProcess, client: Client, stage: Path
) -> None:
    stage.write_text("decode")
    run = new_run(client, strategy="cpu", epochs=6)
    wait_until(lambda: any(m["name"] == "package-0" for m in client.get("/meters")))
    trained(host, run)
    stage.write_text("none")
    info = client.get(f"/runs/{run}")
    cpu = [entry for entry in info["energy"] if entry["source"] == "cpu"]
    assert {entry["provenance"] for entry in cpu} == {"measured"}
    assert 0 < cpu[0]["joules"] < 20 * 60
    [meter] = [m for m in client.get("/meters") if m["name"] == "package-0"]
    parts = meter["idle_j"] + meter["runs_j"] + meter["other_j"]
    assert parts == pytest.approx(meter["joules"])
    assert meter["joules"] / meter["period_s"] == pytest.approx(20, rel=0.2)
    assert meter["provenance"] == "measured"


def test_the_timeline_shows_who_worked_and_stays_when_the_run_is_over(
    host: UpProcess, client: Client
) -> None:
    run = new_run(client, strategy="wrr")
    trained(host, run, 0.1)  # so long that the slow drive makes some, too
    report(client, run)
    found = client.get(f"/runs/{run}/timeline")
    kinds = {lane["kind"]: number for number, lane in enumerate(found["lanes"])}
    assert set(kinds) == {"cpu", "csd", "reader", "trainer"}
    made = [span for span in found["spans"] if span["activity"] == "make"]
    assert sorted(span["batch"] for span in made) == list(range(16))
    steps = [span for span in found["spans"] if span["activity"] == "train"]
    assert len(steps) == 16
    info = client.get(f"/runs/{run}")
    for span in found["spans"]:
        assert info["created_at"] - 1 < span["start_at"] < info["ended_at"] + 1
    emulated = {lane["name"]: lane["emulated"] for lane in found["lanes"]}
    assert [name for name, is_so in emulated.items() if is_so] == ["csd0"]
