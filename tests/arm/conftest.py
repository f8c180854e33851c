"""A drive with an ARM processor: an aarch64 userland under qemu-user, reached over TCP alone."""

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from PIL import Image

from ddlp.cli.child import Child
from ddlp.cli.embedded_redis import redis_command
from ddlp.core.client import Client
from ddlp.core.errors import Unavailable
from ddlp.core.queue import check_broker
from tests import end_to_end
from tests.conftest import UpProcess, add_dataset, wait_until
from tests.core.pipeline.making import encoded, smooth
from tests.end_to_end.conftest import Traps

ARM = Path(__file__).parents[2] / ".arm"
QEMU = "qemu-aarch64-static"
START_S = 90.0
"""What an emulated worker may take until it is registered; a few seconds on an idle machine."""

WAYS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("jpg", "RGB", "JPEG", {"subsampling": "4:2:0"}),
    ("jpg", "RGB", "JPEG", {"subsampling": "4:2:2", "quality": 93}),
    ("jpg", "RGB", "JPEG", {"subsampling": "4:4:4", "progressive": True}),
    ("jpg", "RGB", "JPEG", {"subsampling": "4:2:0", "progressive": True}),
    ("jpg", "L", "JPEG", {}),
    ("jpg", "CMYK", "JPEG", {}),
    ("png", "RGB", "PNG", {}),
    ("png", "P", "PNG", {}),
    ("png", "RGBA", "PNG", {}),
    ("webp", "RGB", "WEBP", {"quality": 80}),
    ("tif", "RGB", "TIFF", {}),
]
"""Ending, mode, format and options: every decoder that a device brings along has work."""


class ArmDevice:
    """A real `ddlp worker` of the emulated userland; it knows two addresses and a folder."""

    def __init__(self, stack: UpProcess, name: str, redis_url: str, folder: Path) -> None:
        self.name = name
        self.store = folder / "store"
        self.traps = Traps(folder / "traps")
        self.traps.folder.mkdir()
        self._stack = stack
        environment = {
            "PATH": str(ARM / "venv" / "bin"),
            "DDLP_URL": stack.url,
            "DDLP_REDIS_URL": redis_url,
            "DDLP_HOME": str(folder),
            "DDLP_CSD_DRIVER": "agent",
            "DDLP_CSD_STORE": str(self.store),
            "DDLP_CSD_ACTIVE_W": "7",
            "DDLP_STORE_QUOTA_BYTES": str(64 << 20),
            "PYTHONPATH": str(Path(end_to_end.__file__).parent / "traps"),
            "TRAPS": str(self.traps.folder),
        }
        # One process: what it loses nobody else can make.
        options = ["--prong", "csd", "--slots", "1", "--name", name]
        command = [str(ARM / "venv/bin/ddlp"), "worker", *options]
        self._worker = Child(name, command, folder / "logs", environment)

    @property
    def pid(self) -> int:
        """The process of the emulator that runs the worker."""
        return self._worker.pid

    def is_live(self) -> bool:
        """Whether the server counts on it; an error if it has ended."""
        self._worker.check_started()
        with self._stack.client() as client:
            return any(
                device["live"] for device in client.get("/devices") if device["name"] == self.name
            )

    def __enter__(self) -> Self:
        try:
            wait_until(self.is_live, START_S)
        except BaseException:
            self.leave()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """End it as its owner does."""
        self._worker.terminate()
        self._worker.wait()


@pytest.fixture(scope="session")
def arm_python() -> Path:
    """The emulated Python; tests of it are skipped, with the reason, where there is none."""
    if shutil.which(QEMU) is None:
        pytest.skip(f"{QEMU} is not installed; make test-arm installs it")
    if not (ARM / ".venv-done").exists():
        pytest.skip("there is no ARM userland; scripts/arm-userland makes it")
    return ARM / "venv" / "bin" / "python"


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """45 pictures of many kinds and sizes, some of them turned by EXIF."""
    root = tmp_path_factory.mktemp("arm-data") / "pictures"
    for number in range(45):
        ending, mode, kind, options = WAYS[number % len(WAYS)]
        image = smooth(50 + 13 * number % 150, 160 - 7 * number % 110).convert(mode)
        if kind == "JPEG":
            turned = Image.Exif()
            turned[0x0112] = 1 + number % 8
            options = {**options, "exif": turned}
        path = root / f"class{number % 3}" / f"{number:03d}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(image, kind, **options))
    return root


def _answers(redis_url: str) -> bool:
    try:
        check_broker(redis_url)
    except Unavailable:
        return False
    return True


@pytest.fixture(scope="module")
def redis_url(arm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that listens on TCP, as one for several hosts does."""
    folder = tmp_path_factory.mktemp("arm-broker")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    [program, *_], _ = redis_command(Path())
    command = [program, "--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", str(folder)]
    broker = Child("redis", command, folder / "logs", dict(os.environ))
    try:
        url = f"redis://127.0.0.1:{port}/0"
        wait_until(lambda: _answers(url))
        yield url
    finally:
        broker.terminate()
        broker.wait()


@pytest.fixture(scope="module")
def host(
    tmp_path_factory: pytest.TempPathFactory, pictures: Path, redis_url: str
) -> Iterator[UpProcess]:
    """A stack without a drive of its own."""
    home = tmp_path_factory.mktemp("arm-host")
    alone = {"cpu_workers": "1", "csd_devices": "0", "redis_url": redis_url}
    patient = {"device_timeout_s": "30"}  # an emulated device on a busy machine is no dead one
    with UpProcess(home, [pictures.parent], **alone, **patient) as running:
        with running.client() as client:
            add_dataset(client, pictures, "pictures")
        yield running


@pytest.fixture
def client(host: UpProcess) -> Iterator[Client]:
    with host.client() as found:
        yield found


@pytest.fixture(scope="module")
def device(
    host: UpProcess, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ArmDevice]:
    """The drive, registered and waiting for work."""
    with ArmDevice(host, "arm0", redis_url, tmp_path_factory.mktemp("arm-drive")) as found:
        yield found
