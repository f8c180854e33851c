"""A device with another processor takes the same tasks, over TCP, and makes the same bytes."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ddlp.core.client import Client
from ddlp.core.dataset import DatasetIndex, scan
from ddlp.core.image.arithmetic import ARITHMETIC
from ddlp.core.records import PackOptions, pack_locally
from ddlp.loader import DualLoader
from tests.arm.conftest import QEMU, ArmDevice
from tests.conftest import UpProcess, add_dataset, wait_until
from tests.end_to_end.harm import is_over, once_at, pool
from tests.end_to_end.trainer import new_run

# Emulation is slow, and slower still on a busy machine.
pytestmark = [pytest.mark.arm, pytest.mark.timeout(600)]

WAIT_S = 120.0
BATCH_SIZE = 8
EPOCHS = 2
SEED = 7
CROP = {"name": "random-resized-crop", "size": 32}
FLOATS = {"name": "normalize", "early": True}
JITTER = {"brightness": 0.4, "contrast": 0.3, "saturation": 0.4, "hue": 0.1}
PIPELINES: dict[str, list[dict[str, Any]]] = {
    "bytes": [CROP, {"name": "flip"}, {"name": "normalize"}],
    "floats": [{"name": "resize", "size": 40}, {"name": "centre-crop", "size": 32}, FLOATS],
    "colours": [
        CROP,
        {"name": "colour-jitter", **JITTER},
        {"name": "pad-crop", "size": 32, "padding": 6},
        {"name": "grayscale", "p": 0.3},
        FLOATS,
    ],
    "reduced": [{"name": "decode", "dct_scaling": True}, CROP],
}
ENGINES = ["fused", "reference"] if find_spec("ddlp.core.image._fused") else ["reference"]
"""The host's; without a compiler it has one."""

Batches = dict[tuple[int, int], str]
"""A digest of samples, labels and pixels, by epoch and index of the batch."""


def emulated(arm_python: Path, code: str) -> Any:
    """What a piece of code prints, as JSON, on the ARM side."""
    ran = subprocess.run(
        [arm_python, "-c", code],
        env={"PATH": str(arm_python.parent)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def taken(loader: DualLoader, at_step: Callable[[int], None] = lambda _: None) -> Batches:
    """All batches of all epochs of a run."""
    found: Batches = {}
    with loader:
        while loader.epoch < loader.epochs:
            epoch = loader.epoch
            for batch in loader.batches():
                digest = hashlib.sha256()
                for tensor in (batch.samples, batch.labels, batch.images):
                    digest.update(tensor.contiguous().numpy().tobytes())
                found[epoch, batch.index] = digest.hexdigest()
                at_step(len(found))
    return found


def made_by_the_device(
    host: UpProcess,
    client: Client,
    pipeline: str,
    at_step: Callable[[int], None] = lambda _: None,
    dataset: str = "pictures",
) -> Batches:
    """A run that only the drive works for, and the proof that it did."""
    client.post("/pipelines", {"name": pipeline, "transforms": PIPELINES[pipeline]})
    plan = {"batch_size": BATCH_SIZE, "epochs": EPOCHS, "seed": SEED}
    run = new_run(client, dataset=dataset, pipeline=pipeline, strategy="csd", **plan)
    loader = DualLoader(run=run, url=host.url, prefetch=1, normalize=False, wait_timeout_s=WAIT_S)
    batches = taken(loader, at_step)
    wait_until(lambda: client.get(f"/runs/{run}")["state"] == "completed")
    epochs = client.get(f"/runs/{run}/epochs")
    assert [epoch["made"] for epoch in epochs] == [{"cpu": 0, "csd": 6}] * EPOCHS
    for epoch in range(EPOCHS):
        assert client.get(f"/runs/{run}/epochs/{epoch}/certificate")["exactly_once"]
    return batches


def made_by_the_host(pictures: Path, pipeline: str) -> Batches:
    """The same run in processes of this machine."""
    return taken(
        DualLoader.local(
            pictures,
            pipeline={"transforms": PIPELINES[pipeline]},
            strategy="cpu",
            batch_size=BATCH_SIZE,
            epochs=EPOCHS,
            seed=SEED,
            workers=1,
            normalize=False,
            wait_timeout_s=WAIT_S,
        )
    )


def test_the_userland_is_another_processors_and_has_no_kernel(arm_python: Path) -> None:
    code = """
import json, platform, subprocess, sys
from ddlp.core.image import engine_name, engine_reason
again = [sys.executable, "-c", "import platform; print(platform.machine())"]
child = subprocess.run(again, capture_output=True, text=True, check=True).stdout.strip()
print(json.dumps([platform.machine(), child, engine_name(), engine_reason()]))
"""
    machine, child, name, reason = emulated(arm_python, code)
    assert (machine, child) == ("aarch64", "aarch64")
    assert name == f"reference-{ARITHMETIC}"
    assert "the kernel cannot be used" in reason


def test_the_worker_and_its_pool_are_emulated(device: ArmDevice) -> None:
    processes = [device.pid, *pool(device.pid)]
    assert len(processes) > 1
    assert {Path(os.readlink(f"/proc/{process}/exe")).name for process in processes} == {QEMU}


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_the_device_makes_the_bytes_of_the_host(
    host: UpProcess,
    client: Client,
    device: ArmDevice,
    pictures: Path,
    monkeypatch: pytest.MonkeyPatch,
    pipeline: str,
) -> None:
    files: list[Path] = []
    look = once_at(1, lambda: files.extend(p for p in device.store.rglob("*") if p.is_file()))
    by_device = made_by_the_device(host, client, pipeline, look)
    assert files, "its batches lie elsewhere than in its store"
    assert len(set(by_device.values())) == len(by_device) == 6 * EPOCHS
    for engine in ENGINES:
        monkeypatch.setenv("DDLP_ENGINE", engine)
        assert made_by_the_host(pictures, pipeline) == by_device, engine


@pytest.fixture(scope="module")
def packed(host: UpProcess, pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The pictures as records, made by the host's kernel."""
    if ENGINES == ["reference"]:
        pytest.skip("packing needs the kernel")
    folder = pictures.parent / "pictures-packed"
    index = tmp_path_factory.mktemp("arm-packed") / "index"
    scan(pictures, index)
    made = pack_locally(DatasetIndex(index), PackOptions(), folder, processes=1)
    assert 10 < made.records < made.samples
    with host.client() as found:
        add_dataset(found, folder, "pictures-packed")
    return "pictures-packed"


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_the_device_makes_the_same_bytes_of_records(
    host: UpProcess,
    client: Client,
    device: ArmDevice,
    pictures: Path,
    packed: str,
    pipeline: str,
) -> None:
    by_device = made_by_the_device(host, client, pipeline, dataset=packed)
    assert by_device == made_by_the_host(pictures, pipeline)


def test_a_batch_whose_process_died_is_made_again_with_care_and_with_the_same_bytes(
    host: UpProcess, client: Client, device: ArmDevice, pictures: Path
) -> None:
    before = pool(device.pid)
    device.traps.set("after-claim")
    by_device = made_by_the_device(host, client, "bytes")
    assert device.traps.sprung("after-claim")
    assert set(pool(device.pid)).isdisjoint(before)
    assert by_device == made_by_the_host(pictures, "bytes")


def test_the_device_keeps_the_contract(
    host: UpProcess, device: ArmDevice, pictures: Path, redis_url: str
) -> None:
    check = ["csd", "conformance", "--name", device.name, "--data", str(pictures.parent / "check")]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DDLP_")}
    ran = subprocess.run(
        [sys.executable, "-m", "ddlp.cli", *check, "--url", host.url, "--json"],
        env={**environment, "DDLP_REDIS_URL": redis_url},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_device_that_leaves_takes_its_processes_along(
    host: UpProcess, redis_url: str, tmp_path: Path
) -> None:
    with ArmDevice(host, "arm1", redis_url, tmp_path) as leaving:
        processes = [leaving.pid, *pool(leaving.pid)]
    wait_until(lambda: all(is_over(process) for process in processes))
