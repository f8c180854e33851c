"""Files are damaged, late workers report, trainers and scans are cut off: nobody is misled."""

import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
import xxhash

from ddlp.core.client import Client
from ddlp.core.errors import DdlpError
from ddlp.core.store import path_of
from tests.conftest import UpProcess, make_images, wait_until
from tests.end_to_end.harm import is_over, kill, once_at
from tests.end_to_end.test_epoch import ONCE
from tests.end_to_end.trainer import new_run, train


def files_of(client: Client, run: str) -> Iterator[Path]:
    """The finished batches of a run that lie in the stores."""
    name = f"ddlp-run-{client.get(f'/runs/{run}')['id']}"
    stores = {path_of(device["store"]) for device in client.get("/devices")}
    for store in stores:
        yield from sorted((store / name).glob("0*"))


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2))])
def test_damaged_and_missing_files_are_noticed_and_made_again(
    victim: UpProcess, client: Client, seed: int
) -> None:
    chance = random.Random(seed)
    run = new_run(client, batch_size=1)
    wait_until(lambda: len(list(files_of(client, run))) > 6)
    harmed = chance.sample(list(files_of(client, run)), 6)
    harmed[0].unlink()
    flip_a_bit(harmed[1], chance)
    cut_short(harmed[2], chance)
    swap(*harmed[3:5])
    change_version(harmed[5])
    [account] = train(victim, run)
    assert account.samples == ONCE
    wait_until(lambda: client.get(f"/runs/{run}")["state"] == "completed")
    certificate = client.get(f"/runs/{run}/epochs/0/certificate")
    assert certificate["exactly_once"]
    names = {int(path.name.split("-")[1]) for path in harmed}
    again = {
        index
        for maker in certificate["makers"]
        if maker["attempt"] > 1
        for index in range(maker["first"], maker["last"] + 1)
    }
    assert names <= again


def flip_a_bit(path: Path, chance: random.Random) -> None:
    raw = bytearray(path.read_bytes())
    raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
    path.write_bytes(raw)


def cut_short(path: Path, chance: random.Random) -> None:
    os.truncate(path, chance.randrange(path.stat().st_size))


def swap(one: Path, other: Path) -> None:
    """Two whole batches, each under the name of the other."""
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def change_version(path: Path) -> None:
    """A file of another version of the format, whole by its own account."""
    raw = bytearray(path.read_bytes())
    struct.pack_into("<I", raw, 8, 99)
    struct.pack_into("<Q", raw, 4088, xxhash.xxh3_64_intdigest(raw[:4088]))
    path.write_bytes(raw)


def test_a_late_worker_is_refused(victim: UpProcess, client: Client) -> None:
    run = new_run(client)
    info = client.get(f"/runs/{run}")
    client.post(f"/runs/{run}/cancel")
    lease = {"run": info["id"], "epoch": 0, "index": 0, "token": 1}
    claimed = client.post("/leases/claim", {"device": "csd0", "process": 1, "leases": [lease]})
    made = {"lease": lease, "nbytes": 1, "checksum": 1, "seconds": 1, "cpu_s": 1}
    reported = client.post("/leases/report", {"device": "csd0", "made": [made]})
    assert claimed["granted"] == []
    for [denied] in (claimed["denied"], reported["denied"]):
        assert "is over; drop the work" in denied["reason"]
    assert client.get(f"/runs/{run}")["state"] == "cancelled"


def test_a_worker_with_a_stale_token_is_refused(victim: UpProcess, client: Client) -> None:
    run = new_run(client, batch_size=1)
    lease = {"run": client.get(f"/runs/{run}")["id"], "epoch": 0, "index": 0, "token": 10**6}
    made = {"lease": lease, "nbytes": 1, "checksum": 1, "seconds": 1, "cpu_s": 1}
    reported = client.post("/leases/report", {"device": "csd0", "made": [made]})
    assert [denied["lease"]["token"] for denied in reported["denied"]] == [10**6]
    [account] = train(victim, run)
    assert account.samples == ONCE


def test_a_trainer_learns_that_its_run_was_cancelled(victim: UpProcess, client: Client) -> None:
    run = new_run(client, batch_size=1)

    def cancel() -> None:
        with victim.client() as other:
            other.post(f"/runs/{run}/cancel")

    with pytest.raises(DdlpError, match="was cancelled"):
        train(victim, run, once_at(3, cancel), prefetch=2)
    with pytest.raises(DdlpError, match="it cannot become running"):
        client.post(f"/runs/{run}/resume")


def scan_child(server: int) -> int:
    """The process in which a server scans."""
    lists = Path(f"/proc/{server}/task").glob("*/children")
    [child] = [int(number) for children in lists for number in children.read_text().split()]
    return child


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


@pytest.mark.long
def test_a_scan_that_a_killed_server_was_at_begins_anew(tmp_path: Path) -> None:
    home, many = tmp_path / "home", make_many(tmp_path / "data", 1500)
    with (
        UpProcess(home, [many], cpu_workers="1", csd_devices="0") as stack,
        stack.client() as client,
    ):
        begin_scan(client, many)
        server = stack.children()["serve"]
        child = scan_child(server)
        kill(server)
        wait_until(lambda: is_over(child))
        wait_until(lambda: client.get("/datasets/data")["state"] == "ready", 60)
        assert client.get("/datasets/data")["samples"] == 1500
        assert [path.suffix for path in (home / "indexes").iterdir()] == [".idx"]


@pytest.mark.long
def test_a_scan_that_a_server_ended_begins_anew_at_its_next_start(tmp_path: Path) -> None:
    home, many = tmp_path / "home", make_many(tmp_path / "data", 5000)
    with (
        UpProcess(home, [many], cpu_workers="1", csd_devices="0") as stack,
        stack.client() as client,
    ):
        begin_scan(client, many)
        assert stack.stop() == 0
    assert list((home / "indexes").iterdir()) == []
    with (
        UpProcess(home, [many], cpu_workers="1", csd_devices="0") as stack,
        stack.client() as client,
    ):
        wait_until(lambda: client.get("/datasets/data")["progress"]["done"])
