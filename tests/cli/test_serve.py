"""`ddlp serve` says where it listens, so that a port of its own choice can be used."""

import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddlp.cli.embedded_redis import redis_command
from ddlp.cli.serve import PortTaken, listen
from tests.conftest import wait_until


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    """A broker that somebody else runs."""
    command, url = redis_command(tmp_path)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        wait_until(Path(url.removeprefix("unix://")).exists)
        yield url
        process.terminate()


def test_it_prints_its_address_when_it_listens(tmp_path: Path, broker: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DDLP_")}
    environment |= {"DDLP_HOME": str(tmp_path), "DDLP_PORT": "0", "DDLP_REDIS_URL": broker}
    with subprocess.Popen(
        [sys.executable, "-m", "ddlp.cli", "serve"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            assert line.startswith("DDLP serves http://127.0.0.1:")
            with urllib.request.urlopen(line.split()[-1] + "/readyz", timeout=10) as answer:
                assert answer.status == 200
        finally:
            process.terminate()
        assert process.stdout.read() == "", "one line is all it says"


def test_a_port_in_use_is_an_error_of_its_own() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(PortTaken):
        listen("127.0.0.1", taken.getsockname()[1])
