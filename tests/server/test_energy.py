"""What meters count is divided among runs: once, by who worked, with the idle part apart."""

import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete

from ddlp.core.energy import EnergyReading
from ddlp.core.messages import (
    Attach,
    DomainReading,
    FeedRequest,
    Heartbeat,
    HostSample,
    TrainerAccount,
)
from ddlp.core.types import DeviceKind, Domain, Prong, Provenance, RunState, Spending
from ddlp.server import devices, energy, figures
from ddlp.server.energy import IDLE, Charge, Drive, EnergyBook
from ddlp.server.models import HostEnergy
from ddlp.server.routes import meters
from ddlp.server.telemetry import Bucket
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import (
    SESSION,
    ask,
    attach,
    begin,
    claim,
    commit,
    new_run,
    register,
    send,
    settle,
    take_sent,
)

A, B = (uuid.UUID(int=1), 0), (uuid.UUID(int=2), 3)
SAMPLER = uuid.uuid4()
MEASURED, MODELLED = Provenance.MEASURED, Provenance.MODELLED
PSYS, DRAM, GPU = Domain.PSYS, Domain.DRAM, Domain.GPU
DRIVE = Drive("drive", 1, None)


def reading(
    joules: float | None, provenance: Provenance = MEASURED, period_s: float | None = None
) -> EnergyReading:
    return EnergyReading(joules=joules, provenance=provenance, method="test", period_s=period_s)


def domain(
    joules: float, kind: Domain = Domain.PACKAGE, how: Provenance = MEASURED, **fields: Any
) -> DomainReading:
    return DomainReading(name=f"{kind}-0", domain=kind, reading=reading(joules, how), **fields)


def sample(*domains: DomainReading, busy_s: float = 0.0, **fields: Any) -> HostSample:
    usual = {"host": "here", "sampler": SAMPLER, "period_s": 0, "cores": 4}
    return HostSample(**{**usual, **fields}, busy_s=busy_s, domains=list(domains))


class Meters:
    """A book, and a host that is sampled into a real database."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.book = EnergyBook()
        self.now = 1000.0

    def take(
        self, *domains: DomainReading, busy_s: float = 0.0, later_s: float = 2.0, **fields: Any
    ) -> list[Charge]:
        """A sample some seconds after the one before."""
        self.now += later_s
        with self.plane.database.session() as session:
            return self.book.take_sample(
                session, sample(*domains, busy_s=busy_s, **fields), self.now
            )

    def row(self, name: str = "package-0") -> HostEnergy:
        with self.plane.database.session() as session:
            [found] = [row for row in energy.hosts(session) if row.name == name]
            return found


@pytest.fixture
def host(plane: Plane) -> Meters:
    """A host at 10 W, sampled twice: so much is known to be idle."""
    found = Meters(plane)
    found.take(domain(0))
    found.take(domain(20))
    return found


def by_run(charges: list[Charge], source: str) -> dict[tuple[uuid.UUID, int], float]:
    """Joules by run and epoch."""
    found: dict[tuple[uuid.UUID, int], float] = defaultdict(float)
    for charge in charges:
        if charge.source == source:
            found[charge.run, charge.epoch] += joules(charge.bucket)
    return dict(found)


def joules(bucket: Bucket) -> float:
    return bucket.joules_measured + bucket.joules_modelled


# A host


def test_a_package_is_divided_by_cpu_seconds_and_the_rest_is_of_others(host: Meters) -> None:
    host.book.host_worked("here", "cpu", A, 3.0)
    host.book.host_worked("here", "cpu", B, 1.0)
    charges = host.take(domain(20 + 100), busy_s=8.0)
    assert by_run(charges, "cpu") == pytest.approx({A: 30, B: 10}), "of 80 J above idle"
    assert by_run(charges, IDLE) == pytest.approx({A: 15, B: 5}), "20 J at 10 W"
    assert all(not charge.bucket.joules_modelled for charge in charges)
    row = host.row()
    parts = row.joules, row.idle_j, row.runs_j, row.other_j, row.period_s
    assert parts == pytest.approx((120, 40, 40, 40, 4))
    assert (row.domain, row.provenance, row.method) == ("package", "measured", "test")


def test_work_is_charged_once(host: Meters) -> None:
    host.book.host_worked("here", "cpu", A, 1.0)
    assert by_run(host.take(domain(100), busy_s=1.0), "cpu")
    assert host.take(domain(200), busy_s=2.0) == []


def test_idle_is_the_lowest_power_that_was_seen(host: Meters) -> None:
    host.book.host_worked("here", "cpu", A, 1.0)
    [charge] = [c for c in host.take(domain(28), busy_s=1.0) if c.source == IDLE]
    assert charge.bucket.joules_measured == pytest.approx(8), "4 W, which is less than before"
    host.book.host_worked("here", "cpu", A, 1.0)
    [charge] = [c for c in host.take(domain(128), busy_s=2.0) if c.source == IDLE]
    assert charge.bucket.joules_measured == pytest.approx(8)


def test_the_lowest_power_outlives_a_sampler(host: Meters) -> None:
    other = uuid.uuid4()
    host.take(domain(0), sampler=other, later_s=10)
    host.book.host_worked("here", "cpu", A, 1.0)
    charges = host.take(domain(100), busy_s=1.0, sampler=other)
    assert by_run(charges, IDLE) == pytest.approx({A: 20})
    assert by_run(charges, "cpu") == pytest.approx({A: 80})


def test_the_whole_platform_is_shown_and_charged_to_nobody(plane: Plane) -> None:
    host = Meters(plane)
    host.take(domain(0, PSYS))
    host.take(domain(20, PSYS))
    host.book.host_worked("here", "cpu", A, 2.0)
    assert host.take(domain(120, PSYS), busy_s=2.0) == []
    row = host.row("psys-0")
    assert (row.idle_j, row.runs_j, row.other_j) == pytest.approx((40, 0, 80))


def test_memory_that_is_measured_is_divided_like_a_package(plane: Plane) -> None:
    host = Meters(plane)
    host.take(domain(0, DRAM))
    host.take(domain(2, DRAM))
    host.book.host_worked("here", "cpu", A, 2.0)
    charges = host.take(domain(12, DRAM), busy_s=4.0)
    assert by_run(charges, "dram") == pytest.approx({A: 4})
    assert by_run(charges, IDLE) == pytest.approx({A: 2})


def test_a_gpu_is_divided_by_seconds_of_training_on_its_host(plane: Plane) -> None:
    host = Meters(plane)
    host.take(domain(0, GPU))
    host.take(domain(20, GPU))
    host.book.host_worked("here", "cpu", A, 100.0)
    host.book.host_trained("here", A, 1.0)
    host.book.host_trained("here", B, 3.0)
    host.book.host_trained("elsewhere", A, 100.0)
    charges = host.take(domain(120, GPU), busy_s=100.0)
    assert by_run(charges, "gpu") == pytest.approx({A: 20, B: 60})
    assert by_run(charges, IDLE) == pytest.approx({A: 5, B: 15})
    assert by_run(charges, "cpu") == {}


def test_a_new_sampler_counts_nothing_at_first(host: Meters) -> None:
    host.book.host_worked("here", "cpu", A, 1.0)
    other = uuid.uuid4()
    assert host.take(domain(10**6), busy_s=1.0, sampler=other, later_s=10) == []
    assert host.row().joules == pytest.approx(20)
    assert host.take(domain(10**6 + 50), busy_s=2.0, sampler=other) == []
    assert host.row().joules == pytest.approx(70), "and from then on what it adds"


def test_a_second_sampler_is_ignored_while_the_first_one_is_heard_of(host: Meters) -> None:
    other = uuid.uuid4()
    for counted_j in (120, 220, 320):
        host.book.host_worked("here", "cpu", A, 1.0)
        assert host.take(domain(5000 + counted_j), sampler=other, later_s=1) == []
        charges = host.take(domain(counted_j), later_s=1)
        assert by_run(charges, "cpu") == pytest.approx({A: 80})
    assert host.row().joules == pytest.approx(320), "as the first one says"


def test_counters_that_go_back_charge_nothing(host: Meters) -> None:
    host.book.host_worked("here", "cpu", A, 1.0)
    assert host.take(domain(5), busy_s=1.0) == []
    assert host.row().joules == pytest.approx(20)
    host.book.host_worked("here", "cpu", A, 1.0)
    assert by_run(host.take(domain(105), busy_s=2.0), "cpu") == pytest.approx({A: 80})


def test_a_meter_that_was_started_anew_charges_nothing_although_it_counted_more(
    plane: Plane,
) -> None:
    book = EnergyBook()
    book.take_drive(DRIVE, reading(0, period_s=0), 0.0)
    book.take_drive(DRIVE, reading(10, period_s=10), 10.0)
    book.drive_worked("drive", A, 1.0)
    assert book.take_drive(DRIVE, reading(30, period_s=2), 12.0) == []


def test_a_figure_that_is_obtained_otherwise_is_not_taken_from_the_one_before(
    host: Meters,
) -> None:
    host.book.host_worked("here", "cpu", A, 1.0)
    assert host.take(domain(50, how=MODELLED, idle_w=1.0), busy_s=1.0) == []
    missing = DomainReading(
        name="package-0", domain=Domain.PACKAGE, reading=reading(None, Provenance.UNAVAILABLE)
    )
    assert host.take(missing) == []
    assert host.take(domain(10**6)) == []
    assert host.row().joules == pytest.approx(20)


def test_of_a_modelled_host_only_the_idle_part_is_charged(plane: Plane) -> None:
    host = Meters(plane)
    host.take(domain(0, how=MODELLED, idle_w=6.0), domain(0, DRAM, MODELLED))
    host.book.host_worked("here", "cpu", A, 3.0)
    host.book.host_worked("here", "cpu", B, 1.0)
    charges = host.take(domain(44, how=MODELLED, idle_w=6.0), domain(7, DRAM, MODELLED), busy_s=4.0)
    assert {charge.source for charge in charges} == {IDLE}
    assert by_run(charges, IDLE) == pytest.approx({A: 9, B: 3})
    assert all(not charge.bucket.joules_measured for charge in charges)
    row = host.row()
    assert (row.idle_j, row.runs_j, row.other_j) == pytest.approx((12, 32, 0))
    assert host.row("dram-0").joules == pytest.approx(7)


def test_hosts_are_told_apart(host: Meters) -> None:
    host.take(domain(0), host="there", sampler=uuid.uuid4())
    host.book.host_worked("there", "cpu", A, 1.0)
    assert host.take(domain(100), busy_s=1.0) == []
    with host.plane.database.session() as session:
        assert [row.host for row in energy.hosts(session)] == ["here"]


def test_work_of_hosts_that_nobody_samples_is_not_gathered_for_ever() -> None:
    book = EnergyBook()
    for epoch in range(100):
        book.host_worked("here", "cpu", (A[0], epoch), 1.0)
        book.host_trained("", (A[0], epoch), 1.0)
        book.drive_worked("drive", (A[0], epoch), 1.0)
    assert not book._hosts
    assert not book._drive_work


STEPS = st.lists(
    st.tuples(
        st.floats(-50, 500),
        st.floats(0.5, 12),
        st.floats(0, 10),
        st.dictionaries(st.sampled_from([A, B]), st.floats(0, 5)),
    ),
    min_size=1,
    max_size=12,
)
"""Joules since the last sample, seconds, busy seconds, and the work of runs."""


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
def test_all_parts_together_are_what_was_counted(
    plane: Plane, steps: list[tuple[float, float, float, dict[tuple[uuid.UUID, int], float]]]
) -> None:
    with plane.database.session() as session:
        session.execute(delete(HostEnergy))
    host = Meters(plane)
    level, busy_s, counted = 1000.0, 0.0, 0.0
    charged: dict[str, float] = defaultdict(float)
    host.take(domain(level))
    for passed_j, seconds, busy, work in steps:
        for run, cpu_s in work.items():
            host.book.host_worked("here", "cpu", run, cpu_s)
        level = max(0.0, level + passed_j)
        busy_s += busy
        counted += max(0.0, passed_j)
        for charge in host.take(domain(level), busy_s=busy_s, later_s=seconds):
            assert joules(charge.bucket) >= 0
            charged[charge.source] += joules(charge.bucket)
    with plane.database.session() as session:
        rows = energy.hosts(session)
    assert sum(row.joules for row in rows) == pytest.approx(counted)
    for row in rows:
        assert min(row.idle_j, row.runs_j, row.other_j) >= 0
        assert row.idle_j + row.runs_j + row.other_j == pytest.approx(row.joules)
        assert charged["cpu"] == pytest.approx(row.runs_j)
        assert charged[IDLE] <= row.idle_j * (1 + 1e-9) + 1e-9


# A drive


def test_a_drive_that_is_measured_is_divided_by_busy_seconds() -> None:
    book = EnergyBook()
    assert book.take_drive(DRIVE, reading(0), 0.0) == []
    assert book.take_drive(DRIVE, reading(10), 5.0) == [], "2 W with nobody at work"
    book.drive_worked("drive", A, 3.0)
    book.drive_worked("drive", B, 1.0)
    charges = book.take_drive(DRIVE, reading(60), 10.0)
    assert by_run(charges, "csd") == pytest.approx({A: 30, B: 10})
    assert by_run(charges, IDLE) == pytest.approx({A: 7.5, B: 2.5})
    assert book.is_drive_measured("drive", 20.0)
    assert not book.is_drive_measured("drive", 26.0)
    assert not book.is_drive_measured("other", 10.0)


def test_a_drive_that_is_modelled_is_charged_for_its_idle_watts_only() -> None:
    drive = Drive("drive", slots=2, idle_w=4.0)
    book = EnergyBook()
    book.take_drive(drive, reading(0, MODELLED), 0.0)
    book.drive_worked("drive", A, 6.0)
    book.drive_worked("drive", B, 2.0)
    charges = book.take_drive(drive, reading(100, MODELLED), 10.0)
    assert {charge.source for charge in charges} == {IDLE}
    assert by_run(charges, IDLE) == pytest.approx({A: 18, B: 6}), "6 s on which no slot worked"
    assert all(not charge.bucket.joules_measured for charge in charges)
    assert not book.is_drive_measured("drive", 10.0)


def test_a_drive_whose_idle_watts_nobody_knows_charges_none() -> None:
    book = EnergyBook()
    book.take_drive(DRIVE, reading(0, MODELLED), 0.0)
    book.drive_worked("drive", A, 1.0)
    assert by_run(book.take_drive(DRIVE, reading(9, MODELLED), 10.0), IDLE) == {A: 0}


# In a server


def tell(plane: Plane, *domains: DomainReading, busy_s: float = 0.0) -> None:
    """A sample reaches the server."""
    body = sample(*domains, busy_s=busy_s)
    ask(
        plane,
        lambda board, session, now: board.charge(
            session, board.energy.take_sample(session, body, now), now
        ),
    )


def make(plane: Plane, prong: Prong = Prong.CPU) -> None:
    """One batch is made, with one CPU second and two seconds in all."""
    wait_until(lambda: plane.sent)
    leases = take_sent(plane)
    claim(plane, prong, leases[0][1])
    commit(plane, prong, leases[0][1])
    plane.sent[:] = [(each, [lease]) for each, lease in leases[1:]] + plane.sent


def charged(plane: Plane, run: uuid.UUID, source: str = "cpu") -> tuple[float, float]:
    """What a run was charged, measured and modelled."""
    later(plane, 1)
    with plane.database.session() as session:
        bucket = figures.totals(session, [run])[run][source].bucket
    return bucket.joules_measured, bucket.joules_modelled


def later(plane: Plane, seconds: float) -> None:
    """Time passes, and devices live."""

    def beat(board: Any, *_: object) -> None:
        for device in board.devices.values():
            device.last_seen_at = plane.now

    plane.now += seconds
    ask(plane, beat)
    settle(plane)


def test_a_batch_is_charged_by_the_meter_or_by_the_model_and_never_by_both(
    either_plane: Plane, images: Path
) -> None:
    plane = either_plane
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", batch_size=10)
    make(plane)
    assert charged(plane, run) == (0, 10), "no meter yet: one CPU second at 10 W"
    tell(plane, domain(0))
    later(plane, 1)
    tell(plane, domain(5))
    make(plane)
    later(plane, 1)
    tell(plane, domain(5 + 45), busy_s=1.0)
    assert charged(plane, run) == pytest.approx((40, 10)), "45 J, of which 5 are idle"
    later(plane, 20)
    make(plane)
    assert charged(plane, run) == pytest.approx((40, 20)), "the meter fell silent"
    tell(plane, domain(1050), busy_s=21.0)
    assert charged(plane, run) == pytest.approx((40, 20)), "what the model charged stays so"
    make(plane)
    later(plane, 1)
    tell(plane, domain(1100), busy_s=22.0)
    measured, modelled = charged(plane, run)
    assert modelled == pytest.approx(20)
    assert measured > 40, "and it is read again"


def test_a_run_that_ended_since_its_last_batch_is_charged_too(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", batch_size=10)
    tell(plane, domain(0))
    later(plane, 1)
    tell(plane, domain(5))
    make(plane)
    plane.dispatcher.change_state(run, RunState.CANCELLED).result(10)
    later(plane, 1)
    tell(plane, domain(50), busy_s=1.0)
    assert charged(plane, run) == pytest.approx((40, 0))
    assert charged(plane, run, IDLE) == pytest.approx((5, 0))


def test_memory_is_charged_by_the_model_until_it_is_measured(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", batch_size=10)
    make(plane)
    tell(plane, domain(0, DRAM))
    later(plane, 1)
    tell(plane, domain(1, DRAM))
    make(plane)
    later(plane, 1)
    tell(plane, domain(5, DRAM), busy_s=1.0)
    assert charged(plane, run, "dram") == pytest.approx((3, 0)), "its worker says no peak"
    assert charged(plane, run)[1] == pytest.approx(20), "packages are modelled as before"


def test_training_is_charged_on_the_host_of_its_rank(plane: Plane, images: Path) -> None:
    run = new_run(plane, images)
    attach(plane, run, who := Attach(session=SESSION, host="here"))
    begin(plane, run, who)
    tell(plane, domain(0, GPU))
    later(plane, 1)
    tell(plane, domain(10, GPU))
    account = TrainerAccount(number=1, spent_s={Spending.TRAINING: 1.0, Spending.CSD: 5.0})
    request = FeedRequest(
        rank=0, session=SESSION, epoch=0, received=0, consumed=0, want=0, account=account
    )
    send(plane, run, request).result(10)
    later(plane, 1)
    tell(plane, domain(110, GPU))
    assert charged(plane, run, "gpu") == pytest.approx((90, 0))
    assert charged(plane, run, IDLE) == pytest.approx((10, 0))


def test_batches_of_a_drive_that_is_measured_are_not_charged_by_the_model(
    plane: Plane, images: Path
) -> None:
    incarnation = register(plane, Prong.CSD, kind=DeviceKind.CSD)
    run = new_run(plane, images, strategy="csd", batch_size=10)

    def beat(counted_j: float) -> None:
        body = Heartbeat(incarnation=incarnation, energy=reading(counted_j))
        ask(plane, lambda board, s, now: devices.heartbeat(board, s, "csd", body, now))

    make(plane, Prong.CSD)
    beat(100)
    later(plane, 1)
    beat(103)
    make(plane, Prong.CSD)
    later(plane, 1)
    beat(113)
    assert charged(plane, run, "csd") == pytest.approx((7, 20)), "the first at 10 W for 2 s"
    assert charged(plane, run, IDLE) == pytest.approx((3, 0))


# Over HTTP


@pytest.fixture
def client(plane: Plane) -> Iterator[TestClient]:
    """A server that takes samples."""
    app = FastAPI()
    app.state.context = SimpleNamespace(database=plane.database, dispatcher=plane.dispatcher)
    app.include_router(meters.router, prefix="/api/v1")
    with TestClient(app) as found:
        yield found


def test_meters_are_listed_with_what_became_of_their_joules(
    plane: Plane, client: TestClient
) -> None:
    assert client.get("/api/v1/meters").json() == []
    for counted_j, later_s in ((0, 2), (20, 2), (60, 2)):
        plane.now += later_s
        body = sample(domain(counted_j)).model_dump(mode="json")
        assert client.post("/api/v1/meters", json=body).status_code == 204
    [found] = client.get("/api/v1/meters").json()
    assert found == {
        "host": "here",
        "name": "package-0",
        "domain": "package",
        "joules": 60,
        "idle_j": 40,
        "runs_j": 0,
        "other_j": 20,
        "provenance": "measured",
        "method": "test",
        "period_s": 4,
        "updated_at": plane.now,
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"busy_s": -1},
        {"cores": 0},
        {"sampler": "me"},
        {"surprise": 1},
        {"domains": [{"name": "package-0", "domain": "package"}]},
        {
            "domains": [
                {
                    "name": "package-0",
                    "domain": "package",
                    "reading": {"joules": None, "provenance": "measured", "method": ""},
                }
            ]
        },
    ],
)
def test_a_bad_sample_is_refused(client: TestClient, wrong: dict[str, Any]) -> None:
    body = {**sample().model_dump(mode="json"), **wrong}
    assert client.post("/api/v1/meters", json=body).status_code == 422
