"""A database that takes no writes: the server says so, and everybody gets the same error."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from ddlp.core.client import Client
from ddlp.core.errors import Unavailable
from ddlp.core.exit_codes import ExitCode
from ddlp.server.database import connect
from tests.cli.test_second_server import broker, environment, serving
from tests.conftest import SMALL_PIPELINE, wait_until
from tests.server.conftest import clear

__all__ = ["broker"]


def ready(url: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=20) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_it_is_not_ready_while_every_write_is_locked_out(tmp_path: Path, broker: str) -> None:
    database = f"sqlite:///{tmp_path}/ddlp.db"
    engine = connect(database)
    with serving(tmp_path / "home", broker, database) as server:
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        assert ready(url)[0] == 200
        with engine.connect() as holder:
            holder.exec_driver_sql("begin immediate")
            wait_until(lambda: ready(url)[0] == 503)
            assert "takes no writes (database is locked)" in ready(url)[1]["database"]
            holder.exec_driver_sql("rollback")
        wait_until(lambda: ready(url) == (200, dict.fromkeys(ready(url)[1], "ok")))
    engine.dispose()


def test_the_same_database_error_is_always_the_same_status(
    request: pytest.FixtureRequest, tmp_path: Path, broker: str, postgres_url: str
) -> None:
    engine = connect(postgres_url)
    request.addfinalizer(engine.dispose)
    request.addfinalizer(lambda: clear(engine))
    impatient = f"{postgres_url}&options=-c%20lock_timeout=200"
    with serving(tmp_path / "home", broker, impatient) as server:
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        with engine.connect() as holder:
            holder.execute(text("lock table runs, pipelines, devices in access exclusive mode"))
            with Client(url, patience_s=0, key="") as client:
                for ask in (
                    lambda: client.get("/runs"),
                    lambda: client.post("/pipelines", {"name": "x", **SMALL_PIPELINE}),
                    lambda: client.post("/runs/x/cancel"),
                ):
                    with pytest.raises(Unavailable, match=r"did not take it \(.*lock timeout") as e:
                        ask()
                    assert "[SQL" not in str(e.value)
            command = [sys.executable, "-m", "ddlp.cli", "run", "list", "--url", url]
            env = environment(tmp_path / "home", broker, impatient)
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
            assert done.returncode == ExitCode.UNREACHABLE
            holder.rollback()
