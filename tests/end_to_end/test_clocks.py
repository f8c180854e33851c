"""Workers whose clocks are wrong by hours work as well as others, and it is shown."""

from pathlib import Path

import pytest

from ddlp.core.client import Client
from ddlp.core.types import Prong
from tests.conftest import UpProcess, wait_until
from tests.end_to_end.clock_shim import ahead, build, compiler
from tests.end_to_end.device_worker import DeviceWorker
from tests.end_to_end.test_epoch import ONCE
from tests.end_to_end.trainer import new_run, train

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.skipif(compiler() is None, reason="there is no C compiler to build the shim with"),
]


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("clock"))


@pytest.mark.parametrize("prong", Prong)
@pytest.mark.parametrize("seconds", [1000, 7200, 400 * 86_400, -1000, -7200])
def test_a_worker_whose_clock_is_wrong_swallows_nothing(
    victim: UpProcess, client: Client, shim: Path, seconds: int, prong: Prong
) -> None:
    others = [d["name"] for d in client.get("/devices") if d["live"] and d["prong"] == prong]
    name = f"{prong}-off-by{seconds}"
    store = {f"{prong}_store": str(shim.parent / name)}
    with DeviceWorker(victim, name, prong.value, ahead(shim, seconds), **store):
        for other in others:
            client.post(f"/devices/{other}/drain")
        try:
            run = new_run(client, strategy=prong.value)
            [account] = train(victim, run, prefetch=2)
        finally:
            for other in others:
                client.post(f"/devices/{other}/resume")
        assert account.samples == ONCE
        assert account.longest_wait_s < 5, "no lease waited to be given out again"
        [mine] = [d for d in client.get("/devices") if d["name"] == name]
        assert mine["clock_ahead_s"] == pytest.approx(seconds, abs=3)
    wait_until(lambda: client.get(f"/runs/{run}")["state"] == "completed")
