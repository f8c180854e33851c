"""Batches come from wherever they lie, and a store that is full holds a run up, not more."""

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ddlp.core.client import Client
from ddlp.core.errors import Conflict, NoRoom
from ddlp.core.store import StoreAddress, path_of
from ddlp.loader import DualLoader
from ddlp.loader.readers.choice import Readers
from tests.conftest import UpProcess, add_fruit, wait_until
from tests.core.store.s3_server import bucket, s3_client, s3_url
from tests.end_to_end.test_epoch import ONCE
from tests.end_to_end.trainer import new_run, train

__all__ = ["bucket", "s3_client", "s3_url"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, images: Path) -> Iterator[UpProcess]:
    """A stack whose workers serve their stores."""
    home = tmp_path_factory.mktemp("served")
    with UpProcess(home, [images], cpu_workers="1", serve_store="http://127.0.0.1:0") as stack:
        add_fruit(stack, images)
        yield stack


def reads(client: Client, run: str) -> dict[str, int]:
    """Batches that were read, by path."""
    return {read["path"]: read["batches"] for read in client.get(f"/runs/{run}")["reads"]}


def test_a_trainer_that_sees_no_file_is_served_by_the_workers(
    served: UpProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Readers, "_sees", lambda self, fed: False)
    with served.client() as client:
        run = new_run(client)
        [account] = train(served, run)
        assert account.samples == ONCE
        wait_until(lambda: client.get(f"/runs/{run}")["state"] == "completed")
        assert reads(client, run) == {"http": 16}
        name = f"ddlp-run-{client.get(f'/runs/{run}')['id']}"
        stores = [path_of(device["store"]) for device in client.get("/devices")]
        wait_until(lambda: not any((store / name).exists() for store in stores))


def test_each_path_delivers_the_same_bytes(served: UpProcess, tmp_path: Path) -> None:
    pixels = []
    with served.client() as client:
        for reader in ("auto", "mmap", "direct"):
            run = new_run(client, seed=5)
            [account] = train(served, run, reader=reader)
            pixels.append(account.pixels)
            wait_until(lambda run=run: client.get(f"/runs/{run}")["state"] == "completed")
            assert sum(reads(client, run).values()) == 16
    assert pixels[0] == pixels[1] == pixels[2]


@pytest.mark.long
def test_drives_may_write_to_an_object_store(
    bucket: StoreAddress, tmp_path: Path, images: Path
) -> None:
    settings = {"cpu_workers": "1", "csd_store": bucket.url, "store_compression": "zlib"}
    with UpProcess(tmp_path / "home", [images], **settings) as stack, stack.client() as client:
        add_fruit(stack, images)
        run = new_run(client, strategy="csd")
        [account] = train(stack, run)
        assert account.samples == ONCE
        wait_until(lambda: client.get(f"/runs/{run}")["state"] == "completed")
        assert reads(client, run) == {"s3": 16}


@contextmanager
def small_drive(folder: Path, size: str) -> Iterator[Path]:
    """A real filesystem with little room."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no filesystem can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_drive_holds_a_run_up_with_a_reason_until_there_is_room(
    tmp_path: Path, images: Path
) -> None:
    settings = {"cpu_workers": "1", "cpu_window": "2"}
    with (
        small_drive(tmp_path / "drive", "6m") as drive,
        UpProcess(tmp_path / "home", [images], csd_store=str(drive), **settings) as stack,
        stack.client() as client,
    ):
        add_fruit(stack, images)
        filler = drive / "somebody-elses"
        _use_up(filler)
        # Alone the drive would be found to be too small; once the run is there it must cope.
        run = new_run(client, strategy="wrr", batch_size=4)
        client.post(f"/runs/{run}/strategy", {"strategy": "csd"})
        wait_until(lambda: client.get(f"/runs/{run}")["held_up"])
        held_up = client.get(f"/runs/{run}")["held_up"]
        assert "csd rests: no room for another batch" in held_up
        assert "remount,size=" in held_up
        waiting: list[str] = []

        def make_room() -> None:
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline and not any("no room" in said for said in waiting):
                waiting.append(loader.waiting_for or "")
                time.sleep(0.1)
            filler.unlink()

        with DualLoader(run=run, url=stack.url, normalize=False) as loader:
            helper = threading.Thread(target=make_room)
            helper.start()
            samples = [sample for batch in loader.batches() for sample in batch.samples.tolist()]
            helper.join()
        assert sorted(samples) == sorted(ONCE)
        assert "no room for another batch" in waiting[-1]
        wait_until(lambda: client.get(f"/runs/{run}")["state"] == "completed")
        assert client.get(f"/runs/{run}")["held_up"] is None


def _use_up(filler: Path) -> None:
    with filler.open("wb") as file:
        try:
            while True:
                file.write(bytes(64 << 10))
                file.flush()
        except OSError:
            return


@pytest.mark.long
def test_a_run_that_cannot_fit_is_refused_before_it_begins(tmp_path: Path, images: Path) -> None:
    with (
        small_drive(tmp_path / "drive", "2m") as drive,
        UpProcess(tmp_path / "home", [images], cpu_workers="1", csd_store=str(drive)) as stack,
        stack.client() as client,
    ):
        add_fruit(stack, images)
        with pytest.raises(Conflict, match=r"has room for .* and needs .* DDLP_CSD_STORE"):
            new_run(client, strategy="csd", pipeline="imagenet-train", batch_size=64)
        assert new_run(client, strategy="wrr", pipeline="imagenet-train", batch_size=16)


def test_without_a_server_too_room_is_looked_for_first(
    tmp_path: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_drive(tmp_path / "memory", "2m") as memory:
        monkeypatch.setenv("DDLP_CPU_STORE", str(memory))
        with pytest.raises(NoRoom, match="--shm-size"):
            DualLoader.local(images, batch_size=64, workers=1)
        assert not list(memory.iterdir())


@pytest.mark.long
def test_two_runs_share_the_quota_of_a_store(tmp_path: Path, images: Path) -> None:
    quota = str(1 << 20)
    settings = {"cpu_workers": "1", "csd_devices": "0", "store_quota_bytes": quota}
    with UpProcess(tmp_path / "home", [images], **settings) as stack, stack.client() as client:
        add_fruit(stack, images)
        both = [new_run(client, batch_size=16, strategy="cpu") for _ in range(2)]
        store = path_of(client.get("/devices")[0]["store"])
        most = 0
        for run in both:
            with DualLoader(run=run, url=stack.url, normalize=False, prefetch=2) as loader:
                samples = []
                for batch in loader.batches():
                    samples += batch.samples.tolist()
                    most = max(most, _used(store))
                    time.sleep(0.01)
            assert sorted(samples) == sorted(ONCE)
        assert 0 < most <= 1 << 20


def _used(store: Path) -> int:
    total = 0
    for place, _, names in os.walk(store):
        for name in names:
            try:
                total += os.stat(os.path.join(place, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def test_tensors_over_files_stay_as_they_are_while_somebody_holds_them(served: UpProcess) -> None:
    """Without normalising a tensor may be the file itself: it must not be written over."""
    with served.client() as client:
        run = new_run(client, strategy="cpu", epochs=2)
        held, copies = [], []
        with DualLoader(run=run, url=served.url, normalize=False, prefetch=4) as loader:
            while loader.epoch < loader.epochs:
                for images, _ in loader:
                    held.append(images)
                    copies.append(images.clone())
    assert len(held) == 32
    assert all((a == b).all() for a, b in zip(held, copies, strict=True))


def test_extras_come_with_their_batch(served: UpProcess) -> None:
    transforms = [
        {"name": "random-resized-crop", "size": 32},
        {"name": "flip"},
        {"name": "view"},
        {"name": "normalize"},
    ]
    with served.client() as client:
        client.post("/pipelines", {"name": "with-view", "transforms": transforms})
        run = new_run(client, pipeline="with-view")
        with DualLoader(run=run, url=served.url) as loader:
            for batch in loader.batches():
                assert batch.extras["view"].shape == (len(batch.labels), 5)
                assert (batch.extras["view"][:, 2:4] > 0).all()
