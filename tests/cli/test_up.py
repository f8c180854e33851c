"""`ddlp up` as a user runs it: it starts, it ends, and it says what is wrong in one line."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from ddlp.cli.embedded_redis import redis_command
from ddlp.cli.up import csd_words
from ddlp.core.exit_codes import ExitCode
from ddlp.core.settings import Settings
from ddlp.server.database import connect, migrate
from tests.conftest import UpProcess, add_fruit, wait_until
from tests.end_to_end.trainer import new_run, train


def ddlp(*arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    """Run a command as a user does."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DDLP_")}
    environment |= {f"DDLP_{name.upper()}": value for name, value in settings.items()}
    return subprocess.run(
        [sys.executable, "-m", "ddlp.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        check=False,
    )


def everything_of(home: Path) -> list[str]:
    """Processes that belong to a home folder, by what /proc says of them."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            environment = (entry / "environ").read_bytes() if entry.name.isdigit() else b""
            command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        mark = str(home).encode()
        if mark in environment.split(b"PYTEST_CURRENT_TEST")[0] or mark in command:
            found.append(f"{entry.name} {command.decode()!r}")
    return found


@pytest.mark.parametrize(
    "how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGKILL]
)
def test_all_parts_end_with_it_however_it_ends(tmp_path: Path, how: signal.Signals) -> None:
    store = Settings(home=tmp_path / "home").cpu_store_address.path
    with UpProcess(tmp_path / "home", [tmp_path]) as running:
        assert sorted(running.children()) == ["cpu", "csd", "serve", "valkey-server"]
        status = running.stop(how)
    assert status == (-signal.SIGKILL if how is signal.SIGKILL else 0)
    wait_until(lambda: everything_of(tmp_path / "home") == [])
    assert not store.exists()


def test_no_csd_is_started_and_nothing_is_written_to_the_drive_unless_asked_for(
    tmp_path: Path, images: Path
) -> None:
    with UpProcess(tmp_path / "home", [images], cpu_workers="1", csd_devices="") as running:
        assert sorted(running.children()) == ["cpu", "serve", "valkey-server"]
        add_fruit(running, images)
        with running.client() as client:
            assert [device["prong"] for device in client.get("/devices")] == ["cpu"]
            run = new_run(client, strategy="wrr")
            assert len(train(running, run)[0].samples) == 123
        assert not (tmp_path / "home" / "csd").exists()


def test_where_an_emulated_csd_writes_is_said(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, csd_devices=1)
    assert csd_words(settings) == f"1 emulated CSD writes decoded batches to file://{tmp_path}/csd"
    two = settings.model_copy(update={"csd_devices": 2})
    assert csd_words(two).startswith("2 × emulated CSD write decoded")


def test_a_second_one_on_the_same_folder_says_so(up: UpProcess) -> None:
    second = ddlp("up", "--home", str(up.home), "--port", "0")
    assert second.returncode == ExitCode.REFUSED
    assert f"already running on {up.home} at {up.url}" in second.stderr
    assert second.stderr.count("\n") == 1


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        answer = ddlp("up", "--home", str(tmp_path / "home"), "--port", port)
    assert answer.returncode == 3
    assert f"port {port} of 127.0.0.1 cannot be used (Address already in use)" in answer.stderr
    assert answer.stderr.count("\n") == 1


@pytest.mark.parametrize("place", ["file", "file/below", "taken"])
def test_a_home_that_cannot_be_used_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "taken" / "lock").mkdir(parents=True)
    answer = ddlp("up", "--home", str(tmp_path / place), "--port", "0")
    assert answer.returncode == 2
    assert answer.stderr.startswith(f"ddlp: {tmp_path / place} cannot be used as a home folder (")
    assert answer.stderr.endswith("with --home or DDLP_HOME\n")
    assert answer.stderr.count("\n") == 1


def test_a_damaged_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "ddlp.db").write_bytes(b"no database" * 1000)
    answer = ddlp("up", "--home", str(tmp_path / "home"), "--port", "0")
    assert answer.returncode == 3
    assert "file is not a database" in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_a_broker_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    answer = ddlp(
        "up", "--home", str(tmp_path / "home"), "--port", "0", redis_url="redis://127.0.0.1:1/0"
    )
    assert answer.returncode == 3
    assert "the broker at redis://127.0.0.1:1/0 cannot be reached" in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_a_database_of_a_newer_version_is_named_and_left_alone(tmp_path: Path) -> None:
    engine = connect(f"sqlite:///{tmp_path}/home/ddlp.db")
    migrate(engine)
    with engine.begin() as connection:
        connection.execute(text("update alembic_version set version_num = '9999'"))
    engine.dispose()
    answer = ddlp("up", "--home", str(tmp_path / "home"), "--port", "0")
    assert answer.returncode == 3
    assert "newer version of DDLP (revision 9999)" in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert everything_of(tmp_path / "home") == []


def test_it_does_not_listen_beyond_loopback(tmp_path: Path) -> None:
    answer = ddlp("up", "--home", str(tmp_path / "home"), "--port", "0", host="0.0.0.0")
    assert answer.returncode == ExitCode.DENIED
    assert "would open the server to the network without any key" in answer.stderr


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    answer = ddlp("up", "--home", str(tmp_path / "home"), csd_speed="fast")
    assert answer.returncode == 2
    assert answer.stderr.startswith("ddlp: DDLP_CSD_SPEED='fast'")


def test_commands_without_a_server_say_how_to_start_one(tmp_path: Path) -> None:
    answer = ddlp("run", "list", url="http://127.0.0.1:1", home=str(tmp_path))
    assert answer.returncode == 3
    assert "start the server with: ddlp up" in answer.stderr


@pytest.fixture
def own_services(tmp_path: Path, postgres_url: str) -> Iterator[dict[str, str]]:
    """A database and a broker that somebody else runs."""
    server = connect(postgres_url)
    with server.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("create database ddlp_up"))
    server.dispose()
    command, url = redis_command(tmp_path)
    broker = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    yield {
        "database_url": postgres_url.replace("/postgres?", "/ddlp_up?"),
        "redis_url": url,
    }
    broker.terminate()
    broker.wait(10)


def test_it_uses_the_services_that_the_settings_name(
    tmp_path: Path, images: Path, own_services: dict[str, str]
) -> None:
    with UpProcess(tmp_path / "home", [images], **own_services) as running:
        assert "valkey-server" not in running.children()
        add_fruit(running, images)
        with running.client() as client:
            run = new_run(client, strategy="wrr", epochs=2)
            accounts = train(running, run)
            assert all(set(account.samples.values()) == {1} for account in accounts)
            assert all(len(account.samples) == 123 for account in accounts)
            wait_until(lambda: client.get(f"/runs/{run}")["state"] == "completed")
        verified = ddlp("verify", run, "--json", url=running.url)
        assert '"exactly_once": true' in verified.stdout
    assert not (tmp_path / "home" / "ddlp.db").exists()
