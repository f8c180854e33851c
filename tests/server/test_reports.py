"""Reports add up: by device, stage and epoch it is the whole; what is not known stays unknown."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from ddlp.core.energy import EnergyReading, PowerModel
from ddlp.core.errors import DdlpError, InvalidInput, NotFound
from ddlp.core.messages import (
    Commit,
    DomainReading,
    FeedRequest,
    HostSample,
    Reports,
    TrainerAccount,
)
from ddlp.core.messages.comparison import ComparisonInfo
from ddlp.core.messages.reports import DeviceReport, RunReport
from ddlp.core.stages import StageTimes
from ddlp.core.types import Domain, Prong, Provenance, RunState, Spending, Stage
from ddlp.server import comparisons, reports, runs, work
from ddlp.server.models import Run
from ddlp.server.problems import tell
from ddlp.server.routes import runs as route
from tests.server.conftest import Plane
from tests.server.driving import (
    SESSION,
    ask,
    claim,
    new_run,
    pass_time,
    register,
    send,
    settle,
    state_of,
    take_sent,
)

TIMES = StageTimes(0.2, 1.0, 0.5, 0.3, fetched_bytes=700, peak_bytes=1 << 30)
SAMPLER = uuid.uuid4()


def train(plane: Plane, run: uuid.UUID, epochs: int = 1, each_s: float = 1.0) -> None:
    """Take a run to its end: every batch takes so long, and the trainer waits for half of it."""
    spent_s = {Spending.TRAINING: each_s / 2, Spending.DECODE: each_s / 2}
    epoch, step = 0, 0
    for number in range(1, 100):
        request = FeedRequest(
            rank=0,
            session=SESSION,
            epoch=epoch,
            received=step,
            consumed=step,
            want=1,
            account=TrainerAccount(number=number, spent_s=spent_s),
        )
        fed = send(plane, run, request).result(10)
        step += len(fed.batches)
        if fed.done and not fed.batches:
            epoch, step = epoch + 1, 0
        if epoch == epochs:
            break
        _make(plane, each_s)
        pass_time(plane, each_s)
    settle(plane)
    assert state_of(plane, run) is RunState.COMPLETED


def _make(plane: Plane, each_s: float) -> None:
    """Make all that was given out."""
    for prong, lease in take_sent(plane):
        claim(plane, prong, lease)
        made = Commit(
            lease=lease, nbytes=100, checksum=1, seconds=2 * each_s, cpu_s=each_s, times=TIMES
        )
        body = Reports(device=prong.value, made=[made])
        ask(plane, lambda board, _, now, body=body: work.report(board, body, now))


def finished(plane: Plane, images: Path, each_s: float = 1.0, **fields: Any) -> uuid.UUID:
    """A run that is over."""
    run = new_run(plane, images, **fields)
    train(plane, run, fields.get("epochs", 1), each_s)
    return run


def report_of(plane: Plane, run: uuid.UUID) -> RunReport:
    with plane.database.session() as session:
        return runs.report(session, session.get_one(Run, run))


def device(found: RunReport, source: str, name: str | None = None) -> DeviceReport:
    """What one device did in the whole run."""
    [one] = [d for d in found.whole.devices if d.source == source and name in (None, d.device)]
    return one


def sampled(
    plane: Plane, joules: float, busy_s: float = 0.0, how: Provenance = Provenance.MEASURED
) -> None:
    """The host says what its package has used; a model knows of 6 W while it is idle."""
    entry = DomainReading(
        name="package-0",
        domain=Domain.PACKAGE,
        reading=EnergyReading(joules=joules, provenance=how, method="test"),
        idle_w=None if how is Provenance.MEASURED else 6.0,
    )
    body = HostSample(
        host="here", sampler=SAMPLER, period_s=0, busy_s=busy_s, cores=4, domains=[entry]
    )
    ask(
        plane,
        lambda board, session, now: board.charge(
            session, board.energy.take_sample(session, body, now), now
        ),
    )


# One run


def test_devices_and_epochs_add_up_to_the_whole(either_plane: Plane, images: Path) -> None:
    plane = either_plane
    register(plane, Prong.CPU)
    register(plane, Prong.CSD)
    found = report_of(plane, finished(plane, images, epochs=3))
    whole, epochs = found.whole, found.epochs
    assert [part.epoch for part in epochs] == [2, 1, 0]
    assert whole.images == whole.delivered == 3 * 123
    assert [part.images for part in epochs] == [123] * 3
    assert [part.delivered for part in epochs] == [123] * 3
    for part in (whole, *epochs):
        assert {one.source for one in part.devices} >= {"cpu", "csd"}
        assert sum(one.images for one in part.devices) == part.images
    for name in ("batches", "images", "busy_s", "cpu_s", "fetched_bytes", "written_bytes"):
        for one in whole.devices:
            in_epochs = [d for part in epochs for d in part.devices if _same(d, one)]
            assert sum(getattr(d, name) for d in in_epochs) == pytest.approx(getattr(one, name))
    spent = [sum(part.stall.spent_s[what] for part in epochs) for what in Spending]
    assert spent == pytest.approx([whole.stall.spent_s[what] for what in Spending])


def _same(one: DeviceReport, other: DeviceReport) -> bool:
    return (one.source, one.device) == (other.source, other.device)


def test_joules_of_epochs_and_stages_add_up_to_those_of_the_device(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    register(plane, Prong.CSD)
    found = report_of(plane, finished(plane, images, epochs=2))
    for source, watts in (("cpu", 10), ("csd", 20)):
        one = device(found, source)
        [energy] = one.energy
        assert (energy.provenance, energy.joules) == (Provenance.MODELLED, one.batches * watts)
        assert sum(energy.by_stage.values()) == pytest.approx(energy.joules)
        assert set(energy.by_stage) == set(TIMES.seconds), "nothing is used by waiting in a queue"
        assert energy.by_stage[Stage.DECODE] == pytest.approx(0.5 * one.batches * watts)
        assert energy.per_image == pytest.approx(one.batches * watts / one.images)
        of_epochs = [d for part in found.epochs for d in part.devices if _same(d, one)]
        assert sum(d.energy[0].joules or 0 for d in of_epochs) == pytest.approx(energy.joules)
    joules = sum(entry.joules or 0 for one in found.whole.devices for entry in one.energy)
    assert found.whole.joules_per_image == pytest.approx(joules / found.whole.images)
    assert found.whole.provenance == [Provenance.MODELLED]


def test_a_run_is_reported_with_its_seconds_its_rate_and_what_limits_it(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    run = finished(plane, images, each_s=2.0, strategy="cpu")
    found = report_of(plane, run).whole
    with plane.database.session() as session:
        row = session.get_one(Run, run)
        assert row.started_at is not None
        assert row.ended_at is not None
        assert found.seconds == row.ended_at - row.started_at
    assert found.seconds is not None
    assert found.images_per_s == pytest.approx(123 / found.seconds)
    assert found.stall.shares[Spending.TRAINING] == pytest.approx(0.5)
    assert sum(found.stall.shares.values()) == pytest.approx(1)
    assert found.stall.limited_by is Spending.DECODE
    assert "Decoding on the host limited the run" in found.stall.sentence
    assert found.cpu_s_per_1000_images == pytest.approx(1000 * 7 * 2 / 123)
    assert found.memory_byte_s_per_1000_images == pytest.approx(1000 * 7 * 4 * 2**30 / 123)


def test_a_device_is_reported_with_its_stages_and_its_peak(plane: Plane, images: Path) -> None:
    register(plane, Prong.CSD)
    found = device(report_of(plane, finished(plane, images, strategy="csd")), "csd")
    assert found.emulated
    assert found.peak_bytes == 1 << 30
    assert {s: found.stages_s[s] for s in (Stage.FETCH, Stage.WRITE)} == pytest.approx(
        {Stage.FETCH: 1.4, Stage.WRITE: 2.1}
    )
    assert (found.fetched_bytes, found.written_bytes) == (4900, 700)


def test_unknown_joules_stay_unknown_and_so_does_what_is_made_of_them(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    register(plane, Prong.CSD, power=PowerModel(active_w=None, source="nobody said"))
    found = report_of(plane, finished(plane, images))
    [unknown] = device(found, "csd").energy
    assert (unknown.joules, unknown.provenance) == (None, Provenance.UNAVAILABLE)
    assert "does not say what it draws" in unknown.method
    [known] = device(found, "cpu").energy
    assert known.joules
    assert found.whole.joules_per_image is None
    assert found.whole.provenance == [Provenance.UNAVAILABLE]
    assert found.epochs[0].joules_per_image is None
    assert reports.figures_of(found)["joules_per_image"] is None


def test_what_a_host_measured_is_reported_with_the_device_that_used_it(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU, power=PowerModel(active_w=None, source="nobody said"))
    sampled(plane, 0)
    plane.now += 1
    sampled(plane, 5)
    run = new_run(plane, images, strategy="cpu")
    train(plane, run)
    sampled(plane, 5 + 35 + 70, busy_s=14.0)
    found = report_of(plane, run)
    [energy] = device(found, "cpu").energy
    seconds = plane.now - 1001
    active_j = (105 - 5 * seconds) / 2
    assert energy.provenance is Provenance.MEASURED
    assert energy.joules == pytest.approx(active_j)
    assert sum(energy.by_stage.values()) == pytest.approx(active_j)
    assert found.whole.idle_joules == pytest.approx(5 * seconds)
    dram = device(found, "dram").energy[0].joules or 0
    assert found.whole.joules_per_image == pytest.approx((active_j + dram) / 123)
    assert found.whole.provenance == [Provenance.MEASURED, Provenance.MODELLED]


def test_idle_is_apart_from_what_an_image_took(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    without = report_of(plane, finished(plane, images, strategy="cpu")).whole
    sampled(plane, 0, how=Provenance.MODELLED)
    before = plane.now
    run = new_run(plane, images, strategy="cpu")
    train(plane, run)
    sampled(plane, 1000, busy_s=14.0, how=Provenance.MODELLED)
    found = report_of(plane, run)
    assert without.idle_joules is None
    assert found.whole.idle_joules == pytest.approx(6 * (plane.now - before))
    assert found.whole.joules_per_image == pytest.approx(without.joules_per_image)
    [idle] = device(found, "idle", "here").energy
    assert (idle.joules, idle.method) == (found.whole.idle_joules, "declared idle watts × time")


def test_a_run_that_did_nothing_yet_is_reported_without_figures(plane: Plane, images: Path) -> None:
    found = report_of(plane, new_run(plane, images))
    assert (found.whole.images, found.whole.seconds, found.whole.images_per_s) == (0, None, None)
    assert (found.whole.joules_per_image, found.whole.idle_joules) == (None, None)
    assert (found.whole.devices, found.epochs) == ([], [])
    assert found.whole.stall.limited_by is None


def test_conditions_are_what_decides_a_run_and_not_its_name_or_seed(
    plane: Plane, images: Path
) -> None:
    def conditions(**fields: Any) -> dict[str, Any]:
        return report_of(plane, new_run(plane, images, **fields)).conditions

    usual = conditions(name="one", seed=1)
    assert usual == conditions(name="two", seed=2)
    assert usual["dataset"].startswith("fruit (")
    assert (usual["storage form"], usual["strategy"], usual["ranks"]) == ("folder", "wrr", "1")
    changes: dict[str, dict[str, Any]] = {
        "batch size": {"batch_size": 10},
        "epochs": {"epochs": 2},
        "ranks": {"world_size": 2},
        "strategy": {"strategy": "bounded", "reorder_window": 3},
    }
    for name, fields in changes.items():
        other = conditions(**fields)
        assert [key for key in usual if usual[key] != other[key]] == [name]
    assert other["strategy"] == "bounded, window 3"


# Several runs


def compare(plane: Plane, *names: str) -> ComparisonInfo:
    with plane.database.session() as session:
        return comparisons.compare_runs(session, names)


def test_repeats_have_intervals_and_a_single_run_has_none(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    for name, each_s in (("a1", 1.0), ("a2", 1.1), ("a3", 1.2)):
        finished(plane, images, each_s, name=name, strategy="cpu")
    finished(plane, images, 2.0, name="b", strategy="cpu", batch_size=18)
    found = compare(plane, "a1", "a2", "a3", "b")
    assert [group.runs for group in found.groups] == [["a1", "a2", "a3"], ["b"]]
    repeats, single = (group.figures["cpu_s_per_1000_images"] for group in found.groups)
    assert repeats.n == 3
    assert repeats.mean == pytest.approx(1000 * 7 * 1.1 / 123)
    assert repeats.half_interval is not None
    assert repeats.half_interval > 0
    assert repeats.change is None, "it is the base"
    assert (single.n, single.half_interval) == (1, None)
    assert single.change == pytest.approx(2.0 / 1.1 - 1)
    assert (single.change_low, single.change_high, single.clear) == (None, None, False)
    [difference] = found.differences
    assert (difference.condition, difference.values) == ("batch size", ["20", "18"])


def test_a_change_between_repeats_is_clear_where_its_interval_says_so(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    for name, each_s in (("a1", 1.0), ("a2", 1.01)):
        finished(plane, images, each_s, name=name, strategy="cpu")
    for name, each_s in (("b1", 3.0), ("b2", 3.01)):
        finished(plane, images, each_s, name=name, strategy="cpu", batch_size=18)
    found = compare(plane, "a1", "b1", "a2", "b2").groups[1].figures["cpu_s_per_1000_images"]
    assert found.clear
    assert found.change_low is not None
    assert found.change_high is not None
    assert found.change is not None
    assert 0 < found.change_low < found.change < found.change_high


def test_figures_that_are_not_known_are_compared_as_unknown(plane: Plane, images: Path) -> None:
    new_run(plane, images, name="a")
    new_run(plane, images, name="b", strategy="cpu")
    for group in compare(plane, "a", "b").groups:
        for figure in group.figures.values():
            assert (figure.n, figure.mean, figure.change, figure.clear) == (0, None, None, False)


def test_a_run_that_is_named_twice_or_unknown_is_not_compared(plane: Plane, images: Path) -> None:
    run = new_run(plane, images, name="a")
    with pytest.raises(InvalidInput, match="named twice"):
        compare(plane, "a", "a")
    with pytest.raises(InvalidInput, match="named twice"):
        compare(plane, "a", str(run))
    with pytest.raises(NotFound, match="there is no run b"):
        compare(plane, "a", "b")


# Over HTTP


@pytest.fixture
def client(plane: Plane) -> Iterator[TestClient]:
    """A server that reports."""
    app = FastAPI()
    app.state.context = SimpleNamespace(database=plane.database, dispatcher=plane.dispatcher)
    app.include_router(route.router, prefix="/api/v1")
    app.add_exception_handler(DdlpError, tell)
    with TestClient(app) as found:
        yield found


def test_reports_and_comparisons_are_served(plane: Plane, images: Path, client: TestClient) -> None:
    register(plane, Prong.CPU)
    finished(plane, images, name="a", strategy="cpu")
    finished(plane, images, name="b", strategy="cpu")
    told = RunReport.model_validate(client.get("/api/v1/runs/a/report").json())
    assert told.run == "a"
    assert told.whole.images == 123
    answer = client.get("/api/v1/runs/compare", params={"run": ["a", "b"]})
    assert [group["runs"] for group in answer.json()["groups"]] == [["a", "b"]]
    series = client.get("/api/v1/runs/a/series", params={"points": 2}).json()
    assert len(series["cpu"]["at"]) <= 2


@pytest.mark.parametrize(
    ("named", "status"), [(["a"], 422), (["a", "a"], 422), (["a", "none"], 404), ([], 422)]
)
def test_comparisons_that_make_no_sense_are_refused(
    plane: Plane, images: Path, client: TestClient, named: list[str], status: int
) -> None:
    new_run(plane, images, name="a")
    assert client.get("/api/v1/runs/compare", params={"run": named}).status_code == status
