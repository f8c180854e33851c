"""`ddlp serve` says where it listens, and from whom it takes an address of somebody else."""

import asyncio
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.types import Message, Receive, Scope, Send

from ddlp.cli.embedded_redis import redis_command
from ddlp.cli.serve import PortTaken, config_of, listen
from ddlp.core.settings import Settings
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


def seen_from(settings: Settings, peer: str) -> tuple[str, str]:
    """The address and the scheme of a request that says it was passed on."""
    seen: list[tuple[str, str]] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append((scope["client"][0], scope["scheme"]))

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        """Nothing is answered."""

    config = config_of(settings, app)
    config.load()
    said = [(b"x-forwarded-for", b"203.0.113.7"), (b"x-forwarded-proto", b"https")]
    scope = {"type": "http", "scheme": "http", "client": (peer, 1), "headers": said}
    asyncio.run(config.loaded_app(scope, receive, send))
    [found] = seen
    return found


def test_only_a_proxy_that_is_named_says_for_whom_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    for peer in ("127.0.0.1", "10.1.2.3"):
        assert seen_from(Settings(), peer) == (peer, "http")
    named = Settings(trusted_proxies=["127.0.0.1", "10.1.0.0/16"])
    for peer in ("127.0.0.1", "10.1.2.3"):
        assert seen_from(named, peer) == ("203.0.113.7", "https")
    assert seen_from(named, "10.2.2.3") == ("10.2.2.3", "http")
