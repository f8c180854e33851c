"""RAPL through a daemon: both forms of its interface, over a real socket."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ddlp.core.errors import Unavailable
from ddlp.core.meters import zeusd
from ddlp.core.types import Domain, Provenance
from tests.core.meters.fake_host import FakeClock, FakePowercap, read_all
from tests.core.meters.fake_zeusd import Cpu, FakeZeusd, served


def cpu(cpu_uj: int | None, dram_uj: int | None = None) -> Cpu:
    return {"cpu_energy_uj": cpu_uj, "dram_energy_uj": dram_uj}


@pytest.fixture(params=[False, True], ids=["now", "before"])
def daemon(request: pytest.FixtureRequest) -> FakeZeusd:
    return FakeZeusd(cpu(5_000_000, 1_000_000), cpu(0, 0), old=request.param)


@pytest.fixture
def path(daemon: FakeZeusd, tmp_path: Path) -> Iterator[Path]:
    with served(daemon, tmp_path / "zeusd.sock") as path:
        yield path


def test_packages_and_memory_are_counted_from_where_they_stood(
    daemon: FakeZeusd, path: Path, tmp_path: Path
) -> None:
    clock = FakeClock()
    meters = zeusd.find(path, tmp_path / "none", clock)
    assert [(meter.name, meter.domain) for meter in meters] == [
        ("package-0", Domain.PACKAGE),
        ("dram-0", Domain.DRAM),
        ("package-1", Domain.PACKAGE),
        ("dram-1", Domain.DRAM),
    ]
    daemon.cpus = [cpu(65_000_000, 3_000_000), cpu(7_000_000, 4_000_000)]
    clock.now_s += 2
    now = read_all(meters)
    joules = {name: reading.joules for name, reading in now.items()}
    assert joules == {
        "package-0": pytest.approx(60),
        "dram-0": pytest.approx(2),
        "package-1": pytest.approx(7),
        "dram-1": pytest.approx(4),
    }
    assert now["package-0"].provenance is Provenance.MEASURED
    assert now["package-0"].period_s == 2
    assert f"zeusd at {path}" in now["package-0"].method


def test_the_form_that_the_daemon_has_is_used(
    daemon: FakeZeusd, path: Path, tmp_path: Path
) -> None:
    meter = zeusd.find(path, tmp_path)[0]
    daemon.asked.clear()
    meter.read()
    form = "POST /cpu/0/get_index_energy" if daemon.old else "GET /cpu/get_cumulative_energy"
    assert daemon.asked == [form]


def test_memory_that_is_not_counted_has_no_meter(
    daemon: FakeZeusd, path: Path, tmp_path: Path
) -> None:
    daemon.cpus = [cpu(1)]
    assert [meter.name for meter in zeusd.find(path, tmp_path)] == ["package-0"]


def test_the_platform_is_known_by_its_name_in_powercap(
    daemon: FakeZeusd, path: Path, tmp_path: Path
) -> None:
    tree = FakePowercap(tmp_path / "powercap")
    tree.unreadable_zone("intel-rapl:0", "package-0")
    tree.unreadable_zone("intel-rapl:1", "psys")
    daemon.cpus = [cpu(1, 1), cpu(1)]
    found = [(meter.name, meter.domain) for meter in zeusd.find(path, tree.root)]
    assert found == [
        ("package-0", Domain.PACKAGE),
        ("dram-0", Domain.DRAM),
        ("psys", Domain.PSYS),
    ]


def test_a_daemon_that_fails_for_a_while_leaves_a_gap(
    daemon: FakeZeusd, path: Path, tmp_path: Path
) -> None:
    clock = FakeClock()
    daemon.cpus = [cpu(0)]
    (meter,) = zeusd.find(path, tmp_path, clock)
    daemon.status = 500
    clock.now_s += 2
    failed = meter.read()
    assert (failed.joules, failed.provenance) == (None, Provenance.UNAVAILABLE)
    assert "answers 500" in failed.method
    daemon.status = 200
    for uj in (90_000_000, 94_000_000):
        daemon.cpus = [cpu(uj)]
        clock.now_s += 2
        now = meter.read()
    assert (now.joules, now.period_s) == (pytest.approx(4), 2)
    assert "in 1 gaps" in now.method


def test_a_daemon_that_began_anew_adds_nothing_by_falling(
    daemon: FakeZeusd, path: Path, tmp_path: Path
) -> None:
    clock = FakeClock()
    daemon.cpus = [cpu(900_000_000)]
    (meter,) = zeusd.find(path, tmp_path, clock)
    for uj in (100_000_000, 103_000_000):
        daemon.cpus = [cpu(uj)]
        clock.now_s += 2
        now = meter.read()
    assert now.joules == pytest.approx(3)


def test_a_daemon_that_ends_is_unavailable(daemon: FakeZeusd, tmp_path: Path) -> None:
    with served(daemon, tmp_path / "gone.sock") as path:
        meter = zeusd.find(path, tmp_path)[0]
    now = meter.read()
    assert now.provenance is Provenance.UNAVAILABLE
    assert "does not answer" in now.method


@pytest.mark.parametrize("text", ["not JSON", "[]", '{"zero": {}}', '{"0": 5}', "{}"])
def test_an_answer_that_is_not_known_is_an_error(tmp_path: Path, text: str) -> None:
    daemon = FakeZeusd(cpu(1))
    daemon.text = text
    with served(daemon, tmp_path / "zeusd.sock") as path, pytest.raises(Unavailable, match="zeusd"):
        zeusd.find(path, tmp_path)


@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_refusal_is_an_error_with_its_remedy(tmp_path: Path, status: int) -> None:
    daemon = FakeZeusd(cpu(1))
    daemon.status = status
    with (
        served(daemon, tmp_path / "zeusd.sock") as path,
        pytest.raises(Unavailable, match=f"answers {status}; enable its cpu-read"),
    ):
        zeusd.find(path, tmp_path)


def test_without_a_socket_it_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="does not answer"):
        zeusd.find(tmp_path / "none.sock", tmp_path)
