"""Which meters a host uses, on hosts that are made of files."""

import json
import os
from pathlib import Path

import pytest

from ddlp.core.energy import EnergyReading
from ddlp.core.messages.energy import HostSample
from ddlp.core.meters import HostMeters
from ddlp.core.settings import Settings
from ddlp.core.types import Domain, Provenance
from tests.core.meters.fake_host import FakeClock, FakePowercap, FakeProc
from tests.core.meters.fake_zeusd import FakeZeusd, served
from tests.core.meters.test_nvml import FakeNvml


class Host:
    """A powercap tree, a /proc and a clock, and the meters on them."""

    def __init__(self, folder: Path) -> None:
        self.tree = FakePowercap(folder / "powercap")
        self.proc = FakeProc(folder / "proc", cores=4)
        self.clock = FakeClock()

    def meters(self, nvml: FakeNvml | None = None, **settings: object) -> HostMeters:
        chosen = Settings(powercap=self.tree.root, **settings)  # type: ignore[arg-type]
        return HostMeters(chosen, self.clock, self.proc.root, lambda: nvml)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(os, "sysconf", lambda _: 100)
    return Host(tmp_path)


def readings(sample: HostSample) -> dict[str, EnergyReading]:
    return {part.name: part.reading for part in sample.domains}


def test_a_host_with_everything(host: Host) -> None:
    package = host.tree.zone("intel-rapl:0", "package-0")
    dram = host.tree.zone("intel-rapl:0:0", "dram")
    psys = host.tree.zone("intel-rapl:1", "psys")
    nvml = FakeNvml({"energy_mj": 0})
    meters = host.meters(nvml)
    package.write_text("10000000")
    dram.write_text("2000000")
    psys.write_text("30000000")
    nvml.gpus = [{"energy_mj": 40_000}]
    host.proc.busy(300)
    host.proc.used(7)
    host.clock.now_s += 2
    sample = meters.sample()
    said = [(part.name, part.domain, part.reading.joules) for part in sample.domains]
    assert said == [
        ("package-0", Domain.PACKAGE, 10),
        ("dram-0", Domain.DRAM, 2),
        ("psys", Domain.PSYS, 30),
        ("gpu-0", Domain.GPU, 40),
    ]
    assert (sample.period_s, sample.busy_s, sample.cores, sample.used_bytes) == (2, 3, 4, 7168)
    assert sample.host == meters.host
    assert sample.sampler == meters.sample().sampler
    assert sample.sampler != host.meters().sampler


def test_a_host_with_nothing_is_modelled_and_says_why(host: Host) -> None:
    meters = host.meters(cpu_active_w=10, cpu_idle_w=2, dram_w_per_gb=0)
    host.proc.busy(300)
    host.clock.now_s += 2
    now = readings(meters.sample())
    assert now["package"].joules == 3 * 10 + 2 * 4 * 2
    assert {reading.provenance for reading in now.values()} == {Provenance.MODELLED}
    assert f"not measured: no RAPL package below {host.tree.root}" in now["package"].method
    assert f"not measured: no RAPL dram below {host.tree.root}" in now["dram"].method


def test_package_and_memory_are_chosen_apart(host: Host) -> None:
    host.tree.zone("intel-rapl:0", "package-0")
    now = readings(host.meters().sample())
    assert now["package-0"].provenance is Provenance.MEASURED
    assert now["dram"].provenance is Provenance.MODELLED


def test_rapl_that_may_not_be_read_is_modelled_and_says_why(host: Host) -> None:
    file = host.tree.unreadable_zone("intel-rapl:0", "package-0")
    now = readings(host.meters().sample())
    assert list(now) == ["package", "dram"]
    assert now["package"].provenance is Provenance.MODELLED
    assert f"not measured: {file} cannot be read" in now["package"].method


def test_one_package_that_may_not_be_read_has_all_modelled(host: Host) -> None:
    """A model of the whole host beside one measured package would count that one twice."""
    host.tree.zone("intel-rapl:0", "package-0")
    host.tree.unreadable_zone("intel-rapl:1", "package-1")
    assert list(readings(host.meters().sample())) == ["package", "dram"]


def test_the_daemon_helps_where_rapl_may_not_be_read(host: Host, tmp_path: Path) -> None:
    host.tree.unreadable_zone("intel-rapl:0", "package-0")
    host.tree.unreadable_zone("intel-rapl:1", "psys")
    both = {"cpu_energy_uj": 0, "dram_energy_uj": 0}
    daemon = FakeZeusd(both, {"cpu_energy_uj": 0, "dram_energy_uj": None})
    with served(daemon, tmp_path / "zeusd.sock") as path:
        meters = host.meters(zeusd_socket=path)
        daemon.cpus = [
            {"cpu_energy_uj": 5_000_000, "dram_energy_uj": 1_000_000},
            {"cpu_energy_uj": 9_000_000, "dram_energy_uj": None},
        ]
        host.clock.now_s += 2
        sample = meters.sample()
    said = [(part.name, part.domain, part.reading.joules) for part in sample.domains]
    assert said == [
        ("package-0", Domain.PACKAGE, 5),
        ("dram-0", Domain.DRAM, 1),
        ("psys", Domain.PSYS, 9),
    ]


def test_the_daemon_is_not_asked_for_what_rapl_says(host: Host, tmp_path: Path) -> None:
    host.tree.zone("intel-rapl:0", "package-0")
    host.tree.zone("intel-rapl:0:0", "dram")
    daemon = FakeZeusd({"cpu_energy_uj": 0, "dram_energy_uj": 0})
    with served(daemon, tmp_path / "zeusd.sock") as path:
        host.meters(zeusd_socket=path).sample()
    assert daemon.asked == []


def test_a_daemon_that_is_not_there_is_said(host: Host, tmp_path: Path) -> None:
    file = host.tree.unreadable_zone("intel-rapl:0", "package-0")
    now = readings(host.meters(zeusd_socket=tmp_path / "none.sock").sample())
    assert now["package"].provenance is Provenance.MODELLED
    assert str(file) in now["package"].method
    assert "does not answer" in now["dram"].method


def test_a_meter_that_fails_later_is_unavailable_and_others_go_on(host: Host) -> None:
    file = host.tree.zone("intel-rapl:0", "package-0")
    host.tree.zone("intel-rapl:0:0", "dram")
    meters = host.meters()
    file.unlink()
    host.clock.now_s += 2
    now = readings(meters.sample())
    assert now["package-0"].provenance is Provenance.UNAVAILABLE
    assert now["dram-0"].provenance is Provenance.MEASURED


def test_a_sample_survives_its_way_to_the_server(host: Host) -> None:
    sample = host.meters().sample()
    sent = json.dumps(sample.model_dump(mode="json"))
    assert HostSample.model_validate_json(sent) == sample


def test_this_host_can_be_sampled() -> None:
    sample = HostMeters(Settings()).sample()
    assert {Domain.PACKAGE, Domain.DRAM} <= {part.domain for part in sample.domains}
