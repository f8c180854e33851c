"""`ddlp status`, `logs` and `down` beside a real `ddlp up`."""

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ddlp.cli.log_files import last_lines, new_lines
from ddlp.cli.running import end
from ddlp.core.client import Client
from ddlp.core.errors import NotFound, WaitTimeout
from ddlp.core.exit_codes import ExitCode
from ddlp.core.home_lock import lock_text, read_lock
from ddlp.core.processes import ProcessName, is_running, this_process
from tests.cli.test_up import ddlp
from tests.conftest import UpProcess, wait_until
from tests.end_to_end.trainer import new_run


def test_status_fits_server_devices_queue_and_runs_on_a_screen(up: UpProcess, api: Client) -> None:
    run = new_run(api)

    def ready() -> int:
        answer = ddlp("status", "--json", home=str(up.home))
        [mine] = [entry for entry in json.loads(answer.stdout)["runs"] if entry["name"] == run]
        return int(mine["ready"])

    wait_until(lambda: ready() > 0)
    told = ddlp("status", home=str(up.home))
    assert told.returncode == 0
    first, queue, *rest = told.stdout.splitlines()
    assert first == f"server  {up.url} is up (process {up.process.pid}; ddlp down ends it)"
    assert queue.startswith("queue   ")
    assert len(rest) < 30
    assert any(line.split()[:2] == ["csd0", "csd"] for line in rest)
    assert any(line.startswith(run) for line in rest)
    api.post(f"/runs/{run}/cancel")
    assert run not in ddlp("status", url=up.url).stdout


def test_status_without_a_server_says_how_to_start_one(tmp_path: Path) -> None:
    answer = ddlp("status", home=str(tmp_path), url="http://127.0.0.1:1")
    assert answer.returncode == ExitCode.UNREACHABLE
    assert "ddlp up" in answer.stderr


def test_down_ends_all_parts_and_says_so(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with UpProcess(home, [tmp_path], cpu_workers="1", csd_devices="") as running:
        parts = running.children()
        told = ddlp("logs", home=str(home))
        assert {line.split()[0] for line in told.stdout.splitlines()} >= {"server"}
        ended = ddlp("down", "--home", str(home), "--json")
        assert json.loads(ended.stdout) == {"ended": str(home), "process": running.process.pid}
        assert running.process.wait(10) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in parts.values())
    again = ddlp("down", "--home", str(home))
    assert again.returncode == ExitCode.NOT_FOUND
    assert f"nothing that `ddlp up` started runs on {home}" in again.stderr


@pytest.fixture
def sleeper():  # type: ignore[no-untyped-def]
    """A process that has nothing to do with DDLP."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def test_a_process_that_got_the_number_of_an_older_one_is_left_alone(
    tmp_path: Path, sleeper: "subprocess.Popen[bytes]"
) -> None:
    lock = json.loads(lock_text("http://x")) | {"pid": sleeper.pid}  # with our time of start
    (tmp_path / "lock").write_text(json.dumps(lock))
    with pytest.raises(NotFound, match="nothing that"):
        end(tmp_path)
    assert sleeper.poll() is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '{"pid": "x", "url": "u"}'])
def test_a_lock_that_says_nothing_is_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "lock").write_text(text)
    assert read_lock(tmp_path) is None
    with pytest.raises(NotFound):
        end(tmp_path)


def test_one_that_does_not_end_is_named(tmp_path: Path) -> None:
    deaf = (
        "import signal, sys; from pathlib import Path; from ddlp.core.home_lock import lock_text\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "Path(sys.argv[1]).write_text(lock_text('http://x')); print(flush=True); signal.pause()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", deaf, str(tmp_path / "lock")], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(WaitTimeout, match=f"process {process.pid} on {tmp_path}"):
            end(tmp_path, wait_s=0.1)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_only_a_process_known_to_live_runs() -> None:
    me = this_process()
    assert is_running(me.place, me.number)
    elsewhere = ProcessName(me.number, f"another{me.place}")
    assert not is_running(elsewhere.place, elsewhere.number)
    assert not is_running(me.place, 1), "it began long before"
    assert not is_running("", me.number)


def test_the_last_lines_of_each_part_are_shown(tmp_path: Path) -> None:
    for part in ("cpu", "server"):
        path = tmp_path / "logs" / f"{part}.log"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{part} {number}\n" for number in range(5)))
    told = ddlp("logs", "--lines", "2", home=str(tmp_path))
    assert told.stdout.splitlines() == [
        "cpu    | cpu 3",
        "cpu    | cpu 4",
        "server | server 3",
        "server | server 4",
    ]
    one = ddlp("logs", "server", "-n", "1", "--json", home=str(tmp_path))
    assert json.loads(one.stdout) == {"part": "server", "line": "server 4"}
    wrong = ddlp("logs", "gpu", home=str(tmp_path))
    assert wrong.returncode == ExitCode.NOT_FOUND
    assert "there are: cpu, server" in wrong.stderr


def test_following_gives_whole_lines_as_they_come(tmp_path: Path) -> None:
    path = tmp_path / "cpu.log"
    path.write_text("old\n")
    files = {"cpu": path}
    assert list(last_lines(files, 3)) == [("cpu", "old")]
    following = new_lines(files)
    with path.open("a", buffering=1) as log:
        # It reads on from where the file ends when it is first asked.
        timer = threading.Timer(0.3, lambda: log.write("one\ntwo\nhal"))
        timer.start()
        assert [next(following), next(following)] == [("cpu", "one"), ("cpu", "two")]
        timer.join()
        log.write("f\n")
        assert next(following) == ("cpu", "half")
