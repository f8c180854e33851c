"""Things die in the middle of an epoch, and it is still exact."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis

from ddlp.core.client import Client
from ddlp.core.errors import DdlpError
from tests.conftest import UpProcess, add_dataset, add_fruit, make_images, wait_until
from tests.end_to_end.trainer import new_run, train

ONCE = Counter(dict.fromkeys(range(123), 1))


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory, images: Path) -> Iterator[UpProcess]:
    """A stack of our own to do harm to."""
    damaged = make_images(tmp_path_factory.mktemp("bad") / "fruit", 30)
    home = tmp_path_factory.mktemp("victim")
    with UpProcess(home, [images, damaged], cpu_workers="2") as running:
        add_fruit(running, images)
        with running.client() as client:
            add_dataset(client, damaged, "damaged")
        (damaged / "pear" / "0001.jpg").write_bytes(b"this is not an image")
        yield running


def once_at(step: int, action: Callable[[], None]) -> Callable[[int], None]:
    """Do something at one step of the epoch."""

    def at_step(now: int) -> None:
        if now == step:
            action()

    return at_step


def pool_child(parent: int) -> int:
    """A process of a worker's pool."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return int(children[0])


@pytest.mark.parametrize("part", ["cpu", "csd"])
def test_a_killed_pool_process_loses_nothing(victim: UpProcess, part: str) -> None:
    with victim.client() as client:
        run = new_run(client, batch_size=2)
    kill = once_at(5, lambda: os.kill(pool_child(victim.children()[part]), signal.SIGKILL))
    [account] = train(victim, run, kill)
    assert account.samples == ONCE


@pytest.mark.parametrize("part", ["cpu", "csd"])
def test_a_killed_worker_loses_nothing_and_comes_back(victim: UpProcess, part: str) -> None:
    before = victim.children()[part]
    with victim.client() as client:
        run = new_run(client, batch_size=2)
    [account] = train(victim, run, once_at(5, lambda: os.kill(before, signal.SIGKILL)))
    assert account.samples == ONCE
    wait_until(lambda: victim.children().get(part, before) != before)


def test_a_wiped_broker_loses_nothing(victim: UpProcess) -> None:
    def wipe() -> None:
        with Redis.from_url(f"unix://{victim.home}/redis/redis.sock") as redis:
            redis.flushall()

    with victim.client() as client:
        run = new_run(client, batch_size=2)
    [account] = train(victim, run, once_at(5, wipe))
    assert account.samples == ONCE


def test_a_killed_broker_comes_back_and_loses_nothing(victim: UpProcess) -> None:
    with victim.client() as client:
        run = new_run(client, batch_size=2)
    broker = victim.children()["valkey-server"]
    [account] = train(victim, run, once_at(5, lambda: os.kill(broker, signal.SIGKILL)))
    assert account.samples == ONCE


def test_a_killed_server_comes_back_and_loses_nothing(victim: UpProcess) -> None:
    with victim.client() as client:
        run = new_run(client, batch_size=2)
    server = victim.children()["serve"]
    [account] = train(victim, run, once_at(5, lambda: os.kill(server, signal.SIGKILL)))
    assert account.samples == ONCE


def test_damaged_and_missing_files_are_noticed_and_made_again(victim: UpProcess) -> None:
    with victim.client() as client:
        run = new_run(client, batch_size=2)
        run_id = client.get(f"/runs/{run}")["id"]
        stores = [Path(device["store"]) / run_id for device in client.get("/devices")]

    def harm() -> None:
        files = [path for store in stores if store.is_dir() for path in sorted(store.glob("0*"))]
        for number, path in enumerate(files[:6]):
            if number % 2:
                path.unlink(missing_ok=True)
            elif path.exists():
                flip_a_bit(path)

    [account] = train(victim, run, once_at(3, harm), prefetch=1)
    assert account.samples == ONCE


def flip_a_bit(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(5000)
        byte = file.read(1)[0]
        file.seek(5000)
        file.write(bytes([byte ^ 4]))


def test_a_file_that_was_changed_fails_the_run_with_its_name(victim: UpProcess) -> None:
    with victim.client() as client:
        run = new_run(client, dataset="damaged")
        with pytest.raises(DdlpError, match=r"pear/0001\.jpg cannot be used"):
            train(victim, run)
        info = client.get(f"/runs/{run}")
        with pytest.raises(DdlpError, match=r"is failed: .*pear/0001\.jpg cannot be used"):
            train(victim, run)
    assert info["state"] == "failed"
    assert "it was changed after it was indexed" in info["reason"]


def test_a_late_worker_is_refused(victim: UpProcess) -> None:
    with victim.client() as client:
        run = new_run(client)
        info = client.get(f"/runs/{run}")
        client.post(f"/runs/{run}/cancel")
        lease = {"run": info["id"], "epoch": 0, "index": 0, "token": 1}
        with pytest.raises(DdlpError, match="is over; drop the work"):
            client.post("/leases/claim", {"lease": lease, "device": "csd0"})
        assert client.get(f"/runs/{run}")["state"] == "cancelled"


def test_a_trainer_learns_that_its_run_was_cancelled(victim: UpProcess) -> None:
    with victim.client() as client:
        run = new_run(client, batch_size=2)

        def cancel() -> None:
            with victim.client() as other:
                other.post(f"/runs/{run}/cancel")

        with pytest.raises(DdlpError, match="was cancelled"):
            train(victim, run, once_at(3, cancel))
        with pytest.raises(DdlpError, match="it cannot become running"):
            client.post(f"/runs/{run}/resume")


def scan_child(server: int) -> int:
    """The process in which a server scans."""
    lists = Path(f"/proc/{server}/task").glob("*/children")
    [child] = [int(number) for children in lists for number in children.read_text().split()]
    return child


def is_over(process: int) -> bool:
    """Whether a process ended; what is left of one until it is waited for has no command."""
    command = Path(f"/proc/{process}/cmdline")
    return not command.exists() or not command.read_bytes()


def make_many(place: Path, count: int) -> Path:
    """Images that take a while to look at."""
    [first] = make_images(place, 1, side=1500).rglob("*.jpg")
    for number in range(1, count):
        os.link(first, first.with_name(f"{number}.jpg"))
    return place


def begin_scan(client: Client, data: Path) -> None:
    client.post("/datasets", {"uri": str(data), "name": "data", "check": "full"})
    wait_until(lambda: client.get("/datasets/data")["progress"]["done"])
    assert client.get("/datasets/data")["state"] == "scanning"


def test_a_scan_that_a_killed_server_was_at_begins_anew(tmp_path: Path) -> None:
    home, many = tmp_path / "home", make_many(tmp_path / "data", 400)
    with UpProcess(home, [many], cpu_workers="1") as stack, stack.client() as client:
        begin_scan(client, many)
        server = stack.children()["serve"]
        child = scan_child(server)
        os.kill(server, signal.SIGKILL)
        wait_until(lambda: is_over(child))
        wait_until(lambda: client.get("/datasets/data")["state"] == "ready", 60)
        assert client.get("/datasets/data")["samples"] == 400
        assert [path.suffix for path in (home / "indexes").iterdir()] == [".idx"]


def test_a_scan_that_a_server_ended_begins_anew_at_its_next_start(tmp_path: Path) -> None:
    home, many = tmp_path / "home", make_many(tmp_path / "data", 5000)
    with UpProcess(home, [many], cpu_workers="1") as stack, stack.client() as client:
        begin_scan(client, many)
        assert stack.stop() == 0
    assert list((home / "indexes").iterdir()) == []
    with UpProcess(home, [many], cpu_workers="1") as stack, stack.client() as client:
        wait_until(lambda: client.get("/datasets/data")["progress"]["done"])
