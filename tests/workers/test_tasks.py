"""What a worker does with messages that are good, late, doubled or nonsense."""

import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddlp.core.client import Client
from ddlp.core.energy import PowerModel
from ddlp.core.queue import TASK, create_celery
from ddlp.core.seal import Seal, fetch_key
from ddlp.core.store import StoreAddress
from ddlp.core.types import DeviceKind, Prong
from ddlp.workers.device import WorkerDevice
from ddlp.workers.tasks import Bench
from tests.conftest import UpProcess, wait_until
from tests.end_to_end.trainer import new_run, train


@pytest.fixture
def bench(up: UpProcess, tmp_path: Path) -> Iterator[Bench]:
    device = WorkerDevice(
        name="csd0",
        prong=Prong.CSD,
        kind=DeviceKind.EMULATED_CSD,
        slots=1,
        store=StoreAddress.given(tmp_path),
        speed=1.0,
        power=PowerModel(active_w=1, source="test"),
    )
    found = Bench(device, up.url)
    yield found
    found._client.close()


@pytest.mark.parametrize("body", [None, 3, "x", {}, [], [{"run": "no"}], [1, 2], [{"index": -1}]])
def test_nonsense_is_dropped(bench: Bench, body: object) -> None:
    bench.handle(body)
    bench.settle()


def test_a_stale_lease_is_dropped_before_any_work(
    bench: Bench, api: Client, tmp_path: Path
) -> None:
    run = api.get(f"/runs/{new_run(api)}")
    bench.handle([{"run": run["id"], "epoch": 0, "index": 0, "token": 10**9}])
    bench.handle([{"run": str(uuid.uuid4()), "epoch": 0, "index": 0, "token": 1}])
    bench.settle()
    assert list(tmp_path.iterdir()) == []
    api.post(f"/runs/{run['name']}/cancel")


def test_nonsense_in_the_queue_does_not_stop_a_worker(up: UpProcess, api: Client) -> None:
    celery = create_celery(f"unix://{up.home}/redis/redis.sock", Seal(fetch_key(api)))
    for body in ("nonsense", {"run": "x"}, None, []):
        celery.send_task(TASK, args=[body], queue="csd", retry=False)
    celery.send_task("os.system", args=["true"], queue="csd", retry=False)
    celery.close()
    run = new_run(api, strategy="csd")
    [account] = train(up, run)
    assert set(account.samples.values()) == {1}
    wait_until(lambda: api.get(f"/runs/{run}")["state"] == "completed")


def test_a_pickled_message_is_not_opened(up: UpProcess, api: Client, tmp_path: Path) -> None:
    trap = tmp_path / "opened"
    celery = create_celery(f"unix://{up.home}/redis/redis.sock", Seal(fetch_key(api)))
    celery.conf.accept_content = ["json", "pickle"]
    celery.send_task(TASK, args=[_Trap(str(trap))], queue="csd", serializer="pickle", retry=False)
    celery.close()
    run = new_run(api, strategy="csd")
    train(up, run)
    assert not trap.exists()


class _Trap:
    """Makes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (self.path, "w")


HANG = """
import time
from ddlp.workers.tasks import ended_after

with ended_after(30):
    pass
with ended_after(0.2):
    time.sleep(30)
"""


def test_a_process_that_outlives_its_lease_is_ended() -> None:
    done = subprocess.run([sys.executable, "-c", HANG], timeout=20, check=False)
    assert done.returncode == -signal.SIGALRM
