"""A real device pretends nothing: measured where it can be, declared where it was, else unknown."""

import os
from pathlib import Path

import pytest

from ddlp.core.errors import InvalidInput
from ddlp.core.meters.nvme import NvmePower
from ddlp.core.settings import Settings
from ddlp.core.types import DeviceKind, Provenance
from ddlp.workers.csd.agent import AgentCsd
from ddlp.workers.csd.driver import Pace


def agent(tmp_path: Path, **settings: object) -> AgentCsd:
    return AgentCsd.from_settings(Settings(home=tmp_path, **settings))  # type: ignore[arg-type]


def test_it_is_a_csd_with_the_cores_of_its_machine(tmp_path: Path) -> None:
    found = agent(tmp_path, csd_store=str(tmp_path / "drive"))
    described = found.describe()
    assert described.kind is DeviceKind.CSD
    assert not described.emulated
    assert described.cores == os.cpu_count()
    assert described.profile is None
    assert found.store.folder == tmp_path / "drive"


def test_nothing_holds_it_back(tmp_path: Path) -> None:
    found = agent(tmp_path)
    assert found.start(slots=4) == Pace(speed=1.0, link_bytes_per_s=None)
    found.stop()


def test_energy_that_nobody_knows_is_unavailable_and_not_0(tmp_path: Path) -> None:
    found = agent(tmp_path)
    assert found.describe().power.active_w is None
    assert "DDLP_CSD_ACTIVE_W" in found.describe().power.source
    reading = found.energy(busy_s=5, idle_s=5)
    assert (reading.joules, reading.provenance) == (None, Provenance.UNAVAILABLE)
    for name in ("ACTIVE_W", "POWER_FILE", "ENERGY_FILE", "NVME"):
        assert f"DDLP_CSD_{name}" in reading.method


def test_declared_watts_give_modelled_energy(tmp_path: Path) -> None:
    found = agent(tmp_path, csd_active_w=6)
    cores = os.cpu_count() or 1
    assert found.describe().power.active_w == pytest.approx(6 / cores)
    reading = found.energy(busy_s=5, idle_s=100)
    assert (reading.joules, reading.provenance) == (30, Provenance.MODELLED)
    assert "idle time is not counted" in reading.method


def test_a_counter_gives_measured_energy(tmp_path: Path) -> None:
    counter = tmp_path / "energy1_input"
    counter.write_text("1000000")
    found = agent(tmp_path, csd_energy_file=counter, csd_active_w=6)
    found.start(slots=1)
    counter.write_text("3000000")
    reading = found.energy(busy_s=5, idle_s=5)
    assert (reading.joules, reading.provenance) == (2.0, Provenance.MEASURED)
    counter.unlink()
    assert found.energy(busy_s=5, idle_s=5).provenance is Provenance.MODELLED


def test_a_power_file_gives_measured_energy(tmp_path: Path) -> None:
    (tmp_path / "power1_input").write_text("5000000")
    found = agent(tmp_path, csd_power_file=tmp_path / "power1_input")
    found.start(slots=1)
    assert found.energy(busy_s=0, idle_s=0).provenance is Provenance.MEASURED


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("csd_power_file", "csd_energy_file"),
        ("csd_power_file", "csd_nvme"),
        ("csd_energy_file", "csd_nvme"),
    ],
)
def test_two_meters_are_one_too_many(tmp_path: Path, one: str, other: str) -> None:
    with pytest.raises(InvalidInput, match=f"DDLP_{one.upper()} and DDLP_{other.upper()} are set"):
        agent(tmp_path, **{one: tmp_path, other: tmp_path})


def test_the_drives_table_gives_modelled_energy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = NvmePower(active_w=18.0, idle_w=5.0, words="power states of a drive")
    monkeypatch.setattr(NvmePower, "of_controller", lambda _: table)
    found = agent(tmp_path, csd_nvme="/dev/nvme0", csd_active_w=6)
    power = found.describe().power
    assert power.active_w == pytest.approx(18 / (os.cpu_count() or 1))
    assert (power.idle_w, power.source) == (5.0, "power states of a drive")
    reading = found.energy(busy_s=10, idle_s=100)
    assert (reading.joules, reading.provenance) == (680, Provenance.MODELLED)


def test_a_table_that_cannot_be_read_leaves_declared_watts_or_nothing(tmp_path: Path) -> None:
    missing = tmp_path / "nvme0"
    found = agent(tmp_path, csd_nvme=missing)
    reading = found.energy(busy_s=5, idle_s=5)
    assert (reading.joules, reading.provenance) == (None, Provenance.UNAVAILABLE)
    assert f"{missing} cannot be asked" in reading.method
    assert found.describe().power.active_w is None
    declared = agent(tmp_path, csd_nvme=missing, csd_active_w=6).energy(busy_s=5, idle_s=5)
    assert (declared.joules, declared.provenance) == (30, Provenance.MODELLED)


def test_a_drive_that_cannot_be_written_to_is_not_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = agent(tmp_path, csd_store=str(tmp_path / "not" / "mounted"))
    assert found.health().ok
    monkeypatch.setattr("os.access", lambda *_: False)
    health = found.health()
    assert not health.ok
    assert health.reason.startswith(f"{tmp_path} cannot be written to; mount it")


def test_an_object_store_is_taken_as_it_is(tmp_path: Path) -> None:
    assert agent(tmp_path, csd_store="s3://bucket/batches").health().ok
