"""A dataset is packed by the workers of a real stack, whatever dies meanwhile, and used."""

import json
import os
import signal
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from ddlp.core.client import Client
from ddlp.core.errors import Conflict, InvalidInput, NotFound
from ddlp.core.messages import PACK_MARK
from ddlp.core.queue import PACK, create_celery
from ddlp.core.seal import Seal, fetch_key
from tests.cli.test_up import ddlp
from tests.conftest import UpProcess, wait_until
from tests.core.records.making import NEEDS_KERNEL
from tests.end_to_end.conftest import Traps
from tests.end_to_end.harm import broker_url, kill, pool, stopped
from tests.end_to_end.test_epoch import ONCE
from tests.end_to_end.trainer import new_run, train

pytestmark = NEEDS_KERNEL

SHARDS = 8


def pack(client: Client, **fields: Any) -> str:
    """Have the shared dataset packed under a name of its own."""
    name = f"p-{uuid.uuid4().hex[:8]}"
    info = client.post("/datasets/fruit/pack", {"name": name, **fields})
    assert (info["state"], info["packing"]["shards"]) == ("packing", SHARDS)
    return name


def finished(client: Client, name: str) -> dict[str, Any]:
    """A dataset once it is ready."""
    wait_until(lambda: client.get(f"/datasets/{name}")["state"] not in ("packing", "scanning"))
    info: dict[str, Any] = client.get(f"/datasets/{name}")
    assert info["state"] == "ready", info["reason"]
    origin = client.get("/datasets/fruit")
    assert (info["version"], info["classes"]) == (origin["version"], origin["classes"])
    assert (info["kind"], info["samples"], info["packing"]["records"]) == ("packed", 123, 123)
    assert len(list(Path(info["uri"]).glob("*.ddlp"))) == SHARDS
    return info


@contextmanager
def removed(client: Client, name: str) -> Iterator[str]:
    """A packed dataset that goes in the end, and its shards with it."""
    yield name
    place = Path(client.get(f"/datasets/{name}")["uri"])
    client.delete(f"/datasets/{name}?keep_runs=true")
    assert not place.exists()


def page(stack: UpProcess, path: str) -> str:
    """What a browser is given."""
    request = urllib.request.Request(f"{stack.url}/{path}", headers={"Accept": "text/html"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def test_originals_and_records_give_the_same_bytes_and_certificates(
    victim: UpProcess, client: Client
) -> None:
    with removed(client, pack(client)) as name:
        info = finished(client, name)
        assert info["packing"]["origin"] == "fruit"
        assert "123 as records · 0 as they were" in page(victim, f"datasets/{name}")
        assert client.post("/datasets/fruit/pack", {"name": name})["state"] == "ready"
        found = {}
        for dataset in ("fruit", name):
            run = new_run(client, dataset=dataset, strategy="cpu", seed=5)
            [account] = train(victim, run)
            assert account.samples == ONCE
            wait_until(lambda run=run: client.get(f"/runs/{run}")["state"] == "completed")
            assert ddlp("verify", run, url=victim.url).returncode == 0
            certificate = client.get(f"/runs/{run}/epochs/0/certificate")
            found[certificate["storage"]] = (certificate, account, client.get(f"/runs/{run}"))
    plain, packed = found["folder"], found["packed"]
    assert plain[1].pixels == packed[1].pixels
    assert plain[1].labels == packed[1].labels
    differ = {key for key in plain[0] if plain[0][key] != packed[0][key]}
    assert differ == {"run", "storage", "sessions", "previous", "digest"}
    assert (plain[2]["storage"], packed[2]["storage"]) == ("folder", "packed")


def test_the_drive_packs_next_to_the_data(victim: UpProcess, client: Client) -> None:
    idle = stopped(*pool(victim.children()["cpu"]))
    with idle, removed(client, pack(client, on="csd")) as name:
        packing = finished(client, name)["packing"]
        assert (packing["on"], packing["emulated"]) == ("csd", True)
        assert "fruit, by the drives (csd, emulated)" in page(victim, f"datasets/{name}")


@pytest.mark.parametrize("moment", ["after-claim", "before-report"])
def test_a_process_killed_in_the_middle_of_a_shard_loses_nothing(
    client: Client, traps: Traps, moment: str
) -> None:
    traps.set(moment)
    with removed(client, pack(client)) as name:
        finished(client, name)
    assert traps.sprung(moment)


def test_messages_that_come_twice_or_late_do_no_harm(
    victim: UpProcess, client: Client, traps: Traps
) -> None:
    """One process stands still on its shard while all messages come again, and then goes on."""
    traps.set("after-claim", "SIGSTOP")
    queue = create_celery(broker_url(victim), Seal(fetch_key(client)))
    with removed(client, pack(client)) as name:
        processes = pool(victim.children()["cpu"])
        wait_until(lambda: any(map(is_still, processes)))
        [still] = filter(is_still, processes)
        try:
            packing = mark_of(client, name)
            for shard in 2 * list(range(SHARDS)):
                body = {"packing": packing, "shard": shard}
                queue.send_task(PACK, args=[body], queue="cpu", ignore_result=True)
            wait_until(
                lambda: client.get(f"/datasets/{name}")["packing"]["shards_done"] == SHARDS - 1
            )
            wait_until(lambda: not waiting_messages(victim))
            seen = client.get(f"/datasets/{name}")
            assert (seen["state"], seen["packing"]["shards_done"]) == ("packing", SHARDS - 1)
        finally:
            os.kill(still, signal.SIGCONT)
        finished(client, name)
        for shard in range(SHARDS):
            body = {"packing": packing, "shard": shard}
            queue.send_task(PACK, args=[body], queue="cpu", ignore_result=True)
        run = new_run(client, dataset=name, strategy="cpu")
        [account] = train(victim, run)
        assert account.samples == ONCE
        wait_until(lambda: client.get(f"/runs/{run}")["state"] == "completed")
    queue.close()


def test_all_who_ask_at_once_get_the_same(victim: UpProcess, client: Client) -> None:
    name = f"p-{uuid.uuid4().hex[:8]}"

    def ask() -> tuple[str, str]:
        with victim.client() as asking:
            info = asking.post("/datasets/fruit/pack", {"name": name})
        return info["name"], info["uri"]

    with stopped(*pool(victim.children()["cpu"])), ThreadPoolExecutor(6) as threads:
        found = {future.result() for future in [threads.submit(ask) for _ in range(6)]}
    assert len(found) == 1
    with removed(client, name):
        assert finished(client, name)["packing"]["forecast"]["samples"] == 123


def is_still(process: int) -> bool:
    """Whether a process was stopped."""
    return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


def mark_of(client: Client, name: str) -> str:
    """The number of a packing under way."""
    return (Path(client.get(f"/datasets/{name}")["uri"]) / PACK_MARK).read_text()


def waiting_messages(stack: UpProcess) -> int:
    """Messages that no process of the CPU's worker has taken."""
    with Redis.from_url(broker_url(stack)) as broker:
        return int(broker.llen("cpu"))  # type: ignore[arg-type]


def test_a_killed_worker_loses_nothing(victim: UpProcess, client: Client) -> None:
    worker = victim.children()["cpu"]
    processes = pool(worker)
    with stopped(*processes), removed(client, pack(client)) as name:
        kill(*processes, worker)
        finished(client, name)


def test_a_killed_server_goes_on_where_it_was(victim: UpProcess, client: Client) -> None:
    with removed(client, pack(client, on="csd")) as name:
        with stopped(*pool(victim.children()["csd"])):
            server = victim.children()["serve"]
            kill(server)
            wait_until(lambda: victim.children().get("serve", server) != server)
            assert client.get(f"/datasets/{name}")["state"] == "packing"
            assert '<progress id="scan" max="100" value="0"' in page(victim, f"datasets/{name}")
            assert '<span class="chip state-packing">packing</span>' in page(victim, "datasets")
            with pytest.raises(Conflict, match=f"fruit is used by the packing of {name}"):
                client.delete("/datasets/fruit?keep_runs=true")
        finished(client, name)


def test_one_that_is_removed_meanwhile_leaves_nothing(victim: UpProcess, client: Client) -> None:
    with stopped(*pool(victim.children()["cpu"])):
        name = pack(client)
        place = Path(client.get(f"/datasets/{name}")["uri"])
        assert place.is_dir()
        client.delete(f"/datasets/{name}?keep_runs=true")
    with pytest.raises(NotFound):
        client.get(f"/datasets/{name}")
    with removed(client, pack(client)) as other:
        finished(client, other)
    assert not place.exists()


def test_the_command_packs_forecasts_and_unpacks(
    victim: UpProcess, client: Client, tmp_path: Path
) -> None:
    said = ddlp("dataset", "pack", "fruit", "--forecast", url=victim.url)
    assert "123 samples" in said.stdout
    assert "on 2 processes" in said.stdout
    made = ddlp("dataset", "pack", "fruit", "--max-side", "30", "--json", url=victim.url)
    info = json.loads(made.stdout)
    assert (info["name"], info["state"], info["kind"]) == ("fruit-packed", "ready", "packed")
    assert info["packing"]["lossy"]
    assert info["version"] != client.get("/datasets/fruit")["version"]
    out = tmp_path / "out"
    done = ddlp("dataset", "unpack", "fruit-packed", "--into", str(out), "--json", url=victim.url)
    assert json.loads(done.stdout)["files"] == 123
    assert ddlp("dataset", "delete", "fruit-packed", "--yes", url=victim.url).returncode == 0
    with pytest.raises(InvalidInput, match="quality: "):
        client.post("/datasets/fruit/pack", {"quality": 101})
    with pytest.raises(InvalidInput, match="colour: "):
        client.get("/datasets/fruit/forecast?colour=red")
