"""A worker's device: made of the settings, and announced only while its driver is well."""

import uuid
from pathlib import Path
from typing import Any

import pytest

from ddlp.core.energy import EnergyReading
from ddlp.core.errors import InvalidInput
from ddlp.core.messages import DeviceRegister, Heartbeat, Message
from ddlp.core.seal import Seal
from ddlp.core.settings import Settings
from ddlp.core.types import DeviceKind, Prong, Provenance
from ddlp.workers import device as module
from ddlp.workers.csd.driver import Health
from ddlp.workers.csd.emulated import EmulatedCsd
from ddlp.workers.csd.host import HostCpu
from ddlp.workers.csd.usage import Usage
from ddlp.workers.device import Presence, WorkerDevice
from ddlp.workers.intake import Intake


def test_the_cpu_prong_is_the_host(tmp_path: Path) -> None:
    found = WorkerDevice.from_settings(Settings(home=tmp_path, cpu_workers=3), Prong.CPU, None)
    assert (found.kind, found.slots) == (DeviceKind.HOST, 3)
    assert isinstance(found.driver, HostCpu)
    assert found.started() == found


def test_the_csd_prong_is_what_its_driver_describes(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, csd_profile="arm-quad", device_name="drive")
    found = WorkerDevice.from_settings(settings, Prong.CSD, None)
    assert (found.name, found.kind, found.slots) == ("drive", DeviceKind.EMULATED_CSD, 4)
    assert isinstance(found.driver, EmulatedCsd)
    assert found.store == found.driver.store
    assert found.power.active_w == 9 / 4
    assert WorkerDevice.from_settings(settings, Prong.CSD, 8).power.active_w == 9 / 8


class Driver(HostCpu):
    """A driver whose health and energy are told to it."""

    ok = True
    broken = False

    def health(self) -> Health:
        if type(self).broken:
            raise RuntimeError("no answer from the drive")
        return Health(type(self).ok, "as told")

    def energy(self, busy_s: float, idle_s: float) -> EnergyReading:
        if type(self).broken:
            raise RuntimeError("no answer from the drive")
        return EnergyReading(joules=5, provenance=Provenance.MEASURED, method="as told")


class Server:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[Message] = []
        self.answer: dict[str, Any] = {}

    def post(self, path: str, body: Message | None = None) -> Any:
        if body is None:
            return {"key": "secret"}
        self.told.append(body)
        return self.answer


class Steps:
    """Lets a thread's loop go round so many times."""

    def __init__(self, rounds: int) -> None:
        self._left = rounds

    def wait(self, _: float) -> bool:
        self._left -= 1
        return self._left == 0


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()
    monkeypatch.setattr(module, "Client", lambda *_, **__: found)
    return found


class Consumer:
    """Keeps what Celery's consumer would be asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def call_soon(self, what: Any, queue: str) -> None:
        what(queue)

    def add_task_queue(self, queue: str) -> None:
        self.asked.append(("take", queue))

    def cancel_task_queue(self, queue: str) -> None:
        self.asked.append(("leave", queue))


def presence(
    tmp_path: Path,
    kind: type[Driver],
    rounds: int,
    intake: Intake | None = None,
    stuck: bool = False,
) -> Presence:
    settings = Settings(home=tmp_path, cpu_store=str(tmp_path / "store"))
    device = module.replace(
        WorkerDevice.from_settings(settings, Prong.CPU, 1), driver=kind(settings)
    )

    class Calm:
        def stuck(self) -> bool:
            return stuck

    tap = intake or Intake("cpu", Seal("before"))
    found = Presence(device, "http://server:1", Calm(), Usage(1, 1), tap)  # type: ignore[arg-type]
    found._stopping = Steps(rounds)  # type: ignore[assignment]
    return found


def test_it_registers_and_then_says_what_it_used(tmp_path: Path, server: Server) -> None:
    presence(tmp_path, type("Well", (Driver,), {}), rounds=2).run()
    register, beat = server.told
    assert isinstance(register, DeviceRegister)
    assert isinstance(beat, Heartbeat)
    assert isinstance(beat.incarnation, uuid.UUID)
    assert beat.energy is not None
    assert beat.energy.joules == 5


@pytest.mark.parametrize("trouble", [{"ok": False}, {"broken": True}])
def test_a_device_that_is_not_well_is_not_announced(
    tmp_path: Path, server: Server, trouble: dict[str, bool]
) -> None:
    presence(tmp_path, type("Ill", (Driver,), trouble), rounds=2).run()
    assert server.told == []


def test_a_refusal_is_told_once_while_it_lasts(
    tmp_path: Path, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise InvalidInput("serve it at an address of this host")

    server.post = refuse  # type: ignore[method-assign]
    presence(tmp_path, type("Well", (Driver,), {}), rounds=5).run()
    [record] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "the server refuses this device: serve it at an address" in record.getMessage()


def test_one_without_a_figure_of_energy_can_work(tmp_path: Path, server: Server) -> None:
    kind = type("Dumb", (Driver,), {"energy": lambda *_: 1 / 0})
    presence(tmp_path, kind, rounds=2).run()
    [_, beat] = server.told
    assert isinstance(beat, Heartbeat)
    assert beat.energy is None


def test_a_drained_device_leaves_its_queue_to_others_and_comes_back(
    tmp_path: Path, server: Server
) -> None:
    well = type("Well", (Driver,), {})
    intake, consumer = Intake("cpu", Seal("before")), Consumer()
    intake.attach(consumer)
    server.answer = {"drained": True}
    # Messages wait in the queue that it leaves: that is no reason to start anew.
    presence(tmp_path, well, rounds=4, intake=intake, stuck=False).run()
    assert consumer.asked == [("leave", "cpu")]
    assert not intake.is_open
    presence(tmp_path, well, rounds=3, intake=intake, stuck=True).run()
    server.answer = {"drained": False}
    presence(tmp_path, well, rounds=3, intake=intake).run()
    assert consumer.asked == [("leave", "cpu"), ("take", "cpu")]
    assert intake.is_open


def test_a_reading_that_cannot_be_told_costs_one_sign_of_life_and_not_the_device(
    tmp_path: Path, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    readings: list[Any] = ["five joules", None, None]
    kind = type("Odd", (Driver,), {"energy": lambda *_: readings.pop(0)})
    presence(tmp_path, kind, rounds=4).run()
    assert [type(told) for told in server.told] == [DeviceRegister, Heartbeat, Heartbeat]
    assert "the device cannot be described to the server" in caplog.text
