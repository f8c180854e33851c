"""A second server on a database refuses to start, and says whose it is."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ddlp.cli.embedded_redis import redis_command
from ddlp.core.exit_codes import ExitCode
from ddlp.server.database import connect
from tests.conftest import wait_until
from tests.server.conftest import clear


def environment(home: Path, broker: str, database: str) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("DDLP_")}
    own = {"HOME": str(home), "PORT": "0", "REDIS_URL": broker, "DATABASE_URL": database}
    return clean | {f"DDLP_{name}": value for name, value in own.items()}


@contextmanager
def serving(home: Path, broker: str, database: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-m", "ddlp.cli", "serve"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(home, broker, database),
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    command, url = redis_command(tmp_path)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        wait_until(Path(url.removeprefix("unix://")).exists)
        yield url
        process.terminate()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_second_server_on_a_database_is_refused_in_the_name_of_the_first(
    request: pytest.FixtureRequest, tmp_path: Path, broker: str, kind: str
) -> None:
    shared = f"sqlite:///{tmp_path}/shared.db"
    database = shared if kind == "sqlite" else request.getfixturevalue("postgres_url")
    engine = connect(database)
    request.addfinalizer(engine.dispose)
    request.addfinalizer(lambda: clear(engine))
    with serving(tmp_path / "one", broker, database) as first:
        assert first.stdout is not None
        address = first.stdout.readline().split()[-1]
        with serving(tmp_path / "two", broker, database) as second:
            assert second.stdout is not None
            assert second.stderr is not None
            assert second.stdout.readline() == "", "it serves nobody"
            said = second.stderr.read()
            assert second.wait(30) == ExitCode.REFUSED
    assert f"process {first.pid} on {socket.gethostname()}, since " in said
    assert address in said
    assert "secret" not in said
