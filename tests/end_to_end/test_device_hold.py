"""A real worker as an emulated device: it is held by the kernel, and leaves nothing behind."""

import signal
from pathlib import Path

import pytest

from ddlp.core.client import Client
from ddlp.workers.csd.throttle import Share, would_hold
from tests.conftest import UpProcess, wait_until
from tests.end_to_end.device_worker import DeviceWorker
from tests.end_to_end.harm import kill, pool
from tests.end_to_end.trainer import new_run, train

pytestmark = pytest.mark.skipif(
    "duty" in would_hold(Share(1, 0.3, 1)), reason="no cgroup can be written here"
)


def groups(process: int) -> str:
    """The control groups of a process."""
    return Path(f"/proc/{process}/cgroup").read_text()


def left(process: int) -> list[Path]:
    """The groups that were made for a worker, wherever they are."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    places = {Path(mount) for mount in mounts if mount.startswith("/sys/fs/cgroup")}
    return [path for place in places for path in place.glob(f"**/ddlp-csd-{process}")]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_its_processes_are_in_a_group_that_goes_with_it(up: UpProcess, how: signal.Signals) -> None:
    with DeviceWorker(up, f"held-{how.name}") as worker:
        number = worker.process.pid
        for process in (number, *pool(number)):
            assert f"ddlp-csd-{number}" in groups(process)
        worker.process.send_signal(how)
        worker.process.wait(30)
    assert left(number) == []


def test_the_group_of_a_killed_worker_is_removed_by_the_next(up: UpProcess) -> None:
    with DeviceWorker(up, "killed") as worker:
        kill(worker.process.pid)
        worker.process.wait(30)
        assert left(worker.process.pid) != []
    with DeviceWorker(up, "next"):
        wait_until(lambda: left(worker.process.pid) == [])


def test_it_says_what_energy_it_used_and_how_that_is_known(up: UpProcess, api: Client) -> None:
    train(up, new_run(api, strategy="csd"))
    [device] = [entry for entry in api.get("/devices") if entry["name"] == "csd0"]
    wait_until(lambda: _joules(api) > 0)
    assert device["energy"]["provenance"] == "modelled"
    assert "emulated, profile default" in device["energy"]["method"]
    assert (device["power"]["active_w"], device["power"]["idle_w"]) == (7.0, 5.0)


def _joules(api: Client) -> float:
    [device] = [entry for entry in api.get("/devices") if entry["name"] == "csd0"]
    return float(device["energy"]["joules"])
