"""An emulated device is what its profile says, is held to it, and never hides what it is."""

from pathlib import Path

import pytest

from ddlp.core.settings import Settings
from ddlp.core.types import DeviceKind, Provenance
from ddlp.workers.csd import emulated
from ddlp.workers.csd.emulated import EmulatedCsd
from ddlp.workers.csd.throttle import DutyCycle, Share


class Held(DutyCycle):
    """A throttle that can break and be released."""

    problem: str | None = None
    released = False

    def broken(self) -> str | None:
        return self.problem

    def release(self) -> None:
        type(self).released = True


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> type[Held]:
    kind = type("AnyHeld", (Held,), {})
    monkeypatch.setattr(emulated, "hold", lambda share: kind(share))
    return kind


def device(tmp_path: Path, **settings: object) -> EmulatedCsd:
    return EmulatedCsd.from_settings(Settings(home=tmp_path, **settings))  # type: ignore[arg-type]


def test_it_says_that_it_is_emulated_and_what(tmp_path: Path) -> None:
    found = device(tmp_path, csd_profile="arm-quad")
    described = found.describe()
    assert described.kind is DeviceKind.EMULATED_CSD
    assert described.emulated
    assert described.model.startswith("emulated CSD arm-quad: 4 cores")
    assert (described.cores, described.profile) == (4, "arm-quad")
    assert found.store.folder == tmp_path / "csd"


def test_its_watts_are_the_profiles_by_core_with_their_source(tmp_path: Path) -> None:
    power = device(tmp_path, csd_profile="arm-quad").describe().power
    assert (power.active_w, power.idle_w) == (9 / 4, 5)
    assert power.source.startswith("profile arm-quad: assumed")


def test_it_is_held_while_it_is_started(tmp_path: Path, held: type[Held]) -> None:
    found = device(tmp_path, csd_speed=0.2)
    assert not found.health().ok
    pace = found.start(slots=2)
    assert pace.speed == 0.1, "two processes on one core"
    assert pace.link_bytes_per_s == 1e9, "each has its part of the link"
    assert found.health().ok
    assert "0.1 of a core" in found.health().reason
    found.stop()
    assert held.released
    found.stop()


def test_one_that_runs_free_is_not_well(tmp_path: Path, held: type[Held]) -> None:
    found = device(tmp_path)
    found.start(slots=1)
    held.problem = "its cgroup is gone"
    assert found.health() == emulated.Health(False, "its cgroup is gone")


def test_what_the_host_cannot_give_is_said(
    tmp_path: Path, held: type[Held], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    found = device(tmp_path, csd_profile="arm-quad", csd_speed=0.9)
    found.start(slots=4)
    assert found.health().ok
    assert found.health().reason.endswith(
        "this host has only 2 cores, so it is slower than its profile"
    )


def test_its_energy_is_modelled_from_busy_and_idle_time(tmp_path: Path) -> None:
    reading = device(tmp_path).energy(busy_s=10, idle_s=4)
    assert reading.joules == 10 * 7 + 4 * 5
    assert reading.provenance is Provenance.MODELLED
    assert "emulated, profile default" in reading.method


def test_a_share_is_made_of_the_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Share] = []

    def hold(share: Share) -> DutyCycle:
        asked.append(share)
        return DutyCycle(share)

    monkeypatch.setattr(emulated, "hold", hold)
    device(tmp_path, csd_profile="arm-quad").start(slots=3)
    assert asked == [Share(cores=4, speed=0.2, slots=3)]
