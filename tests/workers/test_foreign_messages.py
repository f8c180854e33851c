"""Whoever reaches the broker without the secret can give a worker nothing to do, nor end it."""

import base64
import gzip
import json
import time
import urllib.request
from pathlib import Path
from typing import Any

from redis import Redis

from ddlp.core.client import Client
from ddlp.core.queue import TASK
from tests.conftest import UpProcess, wait_until
from tests.end_to_end.trainer import new_run, train

BOMB_BYTES = 400 << 20


def foreign(body: bytes, **headers: Any) -> bytes:
    """A message as Celery takes it, but unsigned."""
    named = {"lang": "py", "task": TASK, "id": "1", "root_id": "1", **headers}
    properties = {
        "body_encoding": "base64",
        "delivery_info": {"exchange": "", "routing_key": "csd"},
        "delivery_tag": "1",
    }
    return json.dumps(
        {
            "body": base64.b64encode(body).decode(),
            "content-type": "application/json",
            "content-encoding": "utf-8",
            "headers": named,
            "properties": properties,
        }
    ).encode()


def bomb() -> bytes:
    nothing = bytes(1 << 20)
    packed = gzip.compress(b"[[")
    packed += gzip.compress(nothing * 64) * (BOMB_BYTES // (64 << 20))
    return foreign(packed, compression="application/x-gzip")


def peak_bytes(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) << 10


def dropped(up: UpProcess) -> float:
    """Of the CSD's worker, as Prometheus sees it."""
    with urllib.request.urlopen(f"{up.url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    start = 'ddlp_dropped_messages_total{device="csd0"}'
    [found] = [line for line in lines if line.startswith(start)]
    return float(found.split()[-1])


def test_they_are_dropped_and_counted_and_the_worker_lives(up: UpProcess, api: Client) -> None:
    before, worker = dropped(up), up.children()["csd"]
    peak = peak_bytes(worker)
    hostile = [
        b"no json",
        b"\xff\xfe",
        b"[" * 50_000,
        b"7",
        b"{}",
        b'{"body": "x", "headers": null, "properties": 3}',
        foreign(b"[[], {}, {}]"),
        foreign(b"[[], {}, {}]", task="os.system"),
        bomb(),
    ]
    with Redis.from_url(f"unix://{up.home}/redis/redis.sock") as redis:
        redis.lpush("csd", *hostile)
        wait_until(lambda: not redis.llen("csd"))
        # What is not acknowledged lies in the broker too; it is looked at every few seconds.
        tags = {"a": b"no json", "b": b"[1]", "c": b"[null, null, null]"}
        redis.hset("unacked", mapping=tags)
        redis.zadd("unacked_index", dict.fromkeys(tags, time.time() - 86_400))
        wait_until(lambda: not redis.zcard("unacked_index"))
        redis.set("csd", "no list")
        wait_until(lambda: not redis.exists("csd"))
    wait_until(lambda: dropped(up) >= before + len(hostile) + 1)
    run = new_run(api, strategy="csd")
    [account] = train(up, run)
    assert set(account.samples.values()) == {1}
    wait_until(lambda: api.get(f"/runs/{run}")["state"] == "completed")
    assert up.children()["csd"] == worker, "its main process is the same"
    assert peak_bytes(worker) - peak < BOMB_BYTES / 4
    log = (up.home / "logs" / "csd0.log").read_text()
    assert 1 <= log.count("did not sign") < len(hostile)
