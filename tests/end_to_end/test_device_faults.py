"""Drives that are slow, stand still, die for good, join, leave, or are faster than the CPU."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ddlp.core.client import Client
from tests.conftest import UpProcess, add_fruit, wait_until
from tests.end_to_end.device_worker import DeviceWorker
from tests.end_to_end.harm import kill, once_at, pool, stopped
from tests.end_to_end.test_epoch import ONCE
from tests.end_to_end.test_worker_faults import RECOVERY_S, SLACK_S
from tests.end_to_end.trainer import new_run, train

BOTH = pytest.mark.parametrize("strategy", ["wrr", pytest.param("mte", marks=pytest.mark.long)])
SLOW = "0.003"
BROKEN = str(Path(__file__).parent / "broken")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, images: Path) -> Iterator[UpProcess]:
    """A stack without a drive, and with little room in its stores."""
    small = {"cpu_workers": "1", "cpu_window": "4", "csd_store_bytes": str(1 << 20)}
    with UpProcess(tmp_path_factory.mktemp("host"), [images], csd_devices="0", **small) as running:
        add_fruit(running, images)
        yield running


@pytest.fixture
def client(host: UpProcess) -> Iterator[Client]:
    with host.client() as found:
        yield found


def made(client: Client, run: str) -> dict[str, int]:
    """Batches of the run's epoch by prong, once it is proved that it was exact."""
    wait_until(lambda: client.get(f"/runs/{run}")["state"] == "completed")
    assert client.get(f"/runs/{run}/epochs/0/certificate")["exactly_once"]
    found: dict[str, int] = client.get(f"/runs/{run}/epochs")[0]["made"]
    return found


@BOTH
def test_an_epoch_ends_without_a_drive_that_died_for_good(
    host: UpProcess, client: Client, strategy: str
) -> None:
    with DeviceWorker(host, "mortal", csd_speed=SLOW) as worker:
        run = new_run(client, strategy=strategy, batch_size=1)
        [account] = train(host, run, once_at(5, lambda: kill(worker.process.pid)), prefetch=2)
        assert account.samples == ONCE
        assert account.longest_wait_s < RECOVERY_S + SLACK_S
        assert made(client, run)["cpu"] > 60
        wait_until(lambda: not worker.is_live(), 30)


def test_a_drive_that_joins_in_the_middle_of_an_epoch_takes_its_share(
    host: UpProcess, client: Client
) -> None:
    joined: list[DeviceWorker] = []
    run = new_run(client, strategy="wrr", batch_size=1)
    join = once_at(5, lambda: joined.append(DeviceWorker(host, "joining")))
    [account] = train(host, run, join, prefetch=2)
    assert account.samples == ONCE
    assert made(client, run)["csd"] > 0
    joined[0].leave()


def test_a_drive_that_leaves_in_the_middle_of_an_epoch_is_not_missed(
    host: UpProcess, client: Client
) -> None:
    with DeviceWorker(host, "leaving") as worker:
        run = new_run(client, strategy="wrr", batch_size=1)
        [account] = train(host, run, once_at(5, worker.leave), prefetch=2)
        assert account.samples == ONCE
        assert made(client, run)["cpu"] > 0


@pytest.fixture
def dawdling(tmp_path: Path, images: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UpProcess]:
    """A stack without a drive whose CPU needs far longer for a batch than any noise lasts."""
    monkeypatch.setenv("PYTHONPATH", BROKEN)
    monkeypatch.setenv("BROKEN", "dawdle")
    with UpProcess(tmp_path, [images], csd_devices="0", cpu_workers="1", cpu_window="4") as running:
        add_fruit(running, images)
        yield running


def test_drives_faster_than_the_cpu_take_the_larger_share(dawdling: UpProcess) -> None:
    sound = {"BROKEN": ""}
    with (
        dawdling.client() as client,
        DeviceWorker(dawdling, "fast-0", variables=sound, csd_speed="1"),
        DeviceWorker(dawdling, "fast-1", variables=sound, csd_speed="1"),
    ):
        # The split of mte follows from the paces that the run before it left.
        for strategy in ("wrr", "mte"):
            run = new_run(client, strategy=strategy, batch_size=1)
            [account] = train(dawdling, run)
            assert account.samples == ONCE
            assert made(client, run)["csd"] > 60


@pytest.fixture(scope="module")
def slow(host: UpProcess) -> Iterator[DeviceWorker]:
    """A drive a hundred times slower than the emulated one is by default."""
    with DeviceWorker(host, "slow", csd_speed=SLOW) as worker:
        yield worker


@BOTH
def test_a_drive_a_hundred_times_slower_holds_up_nothing(
    host: UpProcess, client: Client, slow: DeviceWorker, strategy: str
) -> None:
    run = new_run(client, strategy=strategy)
    [account] = train(host, run)
    assert account.samples == ONCE
    assert made(client, run)["cpu"] > 10


@BOTH
def test_an_epoch_ends_while_its_drive_stands_still(
    host: UpProcess, client: Client, slow: DeviceWorker, strategy: str
) -> None:
    run = new_run(client, strategy=strategy, batch_size=1)
    with ExitStack() as until_the_end:
        harm = once_at(5, lambda: until_the_end.enter_context(stopped(*pool(slow.process.pid))))
        [account] = train(host, run, harm, prefetch=2)
        assert made(client, run)["cpu"] > 60
    assert account.samples == ONCE
    assert account.longest_wait_s < RECOVERY_S + SLACK_S
    again = new_run(client, strategy="csd", batch_size=41)
    [account] = train(host, again)
    assert account.samples == ONCE
    assert made(client, again) == {"cpu": 0, "csd": 3}
