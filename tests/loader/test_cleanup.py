"""However a local run ends, no thread, process or folder of it stays."""

import gc
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ddlp.core.client import Client
from ddlp.core.messages import Fed, FeedRequest
from ddlp.core.owned_folder import shared_memory
from ddlp.loader import DualLoader
from tests.conftest import SMALL_PIPELINE, UpProcess, wait_until
from tests.end_to_end.trainer import new_run
from tests.loader.test_local import alive

OPTIONS: dict[str, Any] = {"pipeline": SMALL_PIPELINE, "batch_size": 4, "workers": 1}
INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)
BEGIN = """
import json, os, signal, sys, threading
from ddlp.loader import DualLoader

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
interrupted = threading.Event()

def tell():
    print(json.dumps(loader._feed.worker_pids), flush=True)

def train():
    for number, _ in enumerate(loader):
        step(number)

def step(number):
    pass

loader = DualLoader.local(sys.argv[1], **json.loads(sys.argv[2]))
"""
IN_A_STEP = """
def step(number):
    if number == 2:
        tell()
        interrupted.wait()
"""
WAITING_FOR_A_BATCH = """
for pid in loader._feed.worker_pids:
    os.kill(pid, signal.SIGSTOP)
tell()
"""
OPEN = """
train()
"""
REMOTE = """
import json, signal, sys
from ddlp.loader import DualLoader

with DualLoader(sys.argv[2], sys.argv[1], normalize=json.loads(sys.argv[3])) as loader:
    batches = iter(loader)
    held = [next(batches) for _ in range(3)]
    print("ready", flush=True)
    signal.pause()
"""
CLOSED = """
with loader:
    train()
"""
STOPS_AFTER_THE_EPOCH = """
signal.signal(signal.SIGINT, lambda *_: interrupted.set())
"""


@contextmanager
def script(images: Path, *parts: str) -> Iterator[subprocess.Popen[str]]:
    """A training script that runs in a session of its own, as in a terminal."""
    words = ["-c", "".join([BEGIN, *parts]), str(images), json.dumps(OPTIONS)]
    with subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def told(process: subprocess.Popen[str]) -> list[int]:
    """The worker processes of a script, as soon as it says so."""
    assert process.stdout is not None
    pids: list[int] = json.loads(process.stdout.readline())
    return pids


def folders(pid: int) -> list[Path]:
    """The folders that a process owns, in memory and on the drive."""
    places = {shared_memory(), Path(tempfile.gettempdir())}
    return [path for place in places for path in place.glob(f"ddlp-local-{pid}-*")]


def in_memory(pid: int) -> set[Path]:
    """The files in shared memory that a process has open or mapped."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    mapped = [fields[5] for line in lines if len(fields := line.split(maxsplit=5)) == 6]
    opened = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed meanwhile
            opened.append(os.readlink(entry))
    found = {Path(name) for name in (*mapped, *opened) if name.startswith(str(shared_memory()))}
    return {path for path in found if path.exists()}


def children(pid: int) -> list[int]:
    """The child processes of a process."""
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in found for child in path.read_text().split()]


def gone(pids: list[int]) -> bool:
    return not any(alive(pid) for pid in pids)


@pytest.mark.parametrize("where", [IN_A_STEP, WAITING_FOR_A_BATCH], ids=["step", "waiting"])
@pytest.mark.parametrize("how", [CLOSED, OPEN], ids=["closed", "open"])
def test_an_interrupted_script_ends_soon_and_leaves_nothing(
    images: Path, where: str, how: str
) -> None:
    with script(images, where, how) as process:
        workers = told(process)
        assert len(folders(process.pid)) == 2
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=10)
    assert process.returncode in INTERRUPTED
    assert "KeyboardInterrupt" in errors
    assert folders(process.pid) == []
    wait_until(lambda: gone(workers))


def test_an_interruption_from_a_terminal_leaves_nothing(images: Path) -> None:
    with script(images, IN_A_STEP, CLOSED) as process:
        workers = told(process)
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=10)
    assert process.returncode in INTERRUPTED
    assert folders(process.pid) == []
    wait_until(lambda: gone(workers))


def test_workers_leave_an_interruption_from_a_terminal_to_the_trainer(images: Path) -> None:
    with script(images, IN_A_STEP, STOPS_AFTER_THE_EPOCH, CLOSED, "tell()") as process:
        workers = told(process)
        os.killpg(process.pid, signal.SIGINT)
        out, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (0, "")
    assert json.loads(out) == workers


def test_a_script_that_does_not_close_its_loader_ends_in_silence(images: Path) -> None:
    with script(images, OPEN, "tell()") as process:
        out, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
    assert folders(process.pid) == []
    wait_until(lambda: gone(json.loads(out)))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
@pytest.mark.parametrize("whole_group", [False, True], ids=["alone", "group"])
def test_a_trainer_that_is_ended_by_a_signal_leaves_nothing(
    images: Path, how: signal.Signals, whole_group: bool
) -> None:
    with script(images, IN_A_STEP, CLOSED) as process:
        workers = told(process)
        assert len(folders(process.pid)) == 2
        helpers = children(process.pid)
        assert len(helpers) == len(workers) + 1, "and the janitor"
        (os.killpg if whole_group else os.kill)(process.pid, how)
        process.communicate(timeout=10)
    assert process.returncode == -how
    wait_until(lambda: gone(helpers), timeout_s=5)
    assert folders(process.pid) == []


@pytest.mark.parametrize("normalize", [True, False], ids=["copied", "mapped"])
def test_a_trainer_of_a_server_that_is_terminated_leaves_nothing_in_memory(
    up: UpProcess, api: Client, normalize: bool
) -> None:
    run = new_run(api, strategy="cpu")
    run_id = api.get(f"/runs/{run}")["id"]
    words = ["-c", REMOTE, up.url, run, json.dumps(normalize)]
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            held = in_memory(process.pid)
            os.kill(process.pid, signal.SIGTERM)
            process.communicate(timeout=10)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGTERM
    names = (run_id, uuid.UUID(run_id).hex)
    of_the_run = {path for path in held if any(name in str(path) for name in names)}
    assert normalize or of_the_run, "it had mapped a batch"
    wait_until(lambda: not any(path.exists() for path in held - of_the_run))
    api.post(f"/runs/{run}/cancel", {})
    wait_until(lambda: not any(path.exists() for path in of_the_run))


def test_the_janitor_outlives_a_signal_to_all_processes(images: Path) -> None:
    with script(images, IN_A_STEP, CLOSED) as process:
        told(process)
        helpers = children(process.pid)
        for pid in (*helpers, process.pid):
            os.kill(pid, signal.SIGTERM)
        process.communicate(timeout=10)
    wait_until(lambda: gone(helpers), timeout_s=5)
    assert folders(process.pid) == []


def test_a_worker_at_work_as_its_trainer_dies_leaves_nothing(images: Path) -> None:
    with script(images, WAITING_FOR_A_BATCH, OPEN) as process:
        (worker,) = told(process)
        helpers = children(process.pid)
        process.kill()
        process.communicate(timeout=10)
    wait_until(lambda: not folders(process.pid), timeout_s=5)
    os.kill(worker, signal.SIGCONT)
    wait_until(lambda: gone(helpers), timeout_s=5)
    assert folders(process.pid) == []


@pytest.mark.parametrize("cyclic", [False, True], ids=["counted", "collected"])
def test_a_pass_that_nobody_holds_any_more_ends_with_all_it_had(images: Path, cyclic: bool) -> None:
    threads = set(threading.enumerate())
    loader = DualLoader.local(images, **OPTIONS)
    under_way: list[Any] = [iter(loader)]
    next(under_way[0])
    if cyclic:
        under_way.append(under_way)
    workers = loader._feed.worker_pids  # type: ignore[attr-defined]
    assert {thread.name for thread in set(threading.enumerate()) - threads} == {
        "ddlp-cpu-0",
        "ddlp-prefetch",
    }
    assert len(folders(os.getpid())) == 2
    del loader, under_way
    gc.collect()
    # A thread that takes a report at this moment may be the last to hold the run.
    wait_until(lambda: gone(workers) and not folders(os.getpid()))
    wait_until(lambda: set(threading.enumerate()) <= threads)


def test_the_thread_that_reads_ahead_may_be_the_one_that_collects_the_pass(
    images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = DualLoader.local(images, **OPTIONS)
    exchange, batches = loader._feed.exchange, loader.batches()
    dropped = threading.Event()
    ended: queue.Queue[RuntimeError | None] = queue.Queue()

    def collecting(request: FeedRequest) -> Fed:
        if request.received:
            dropped.wait(10)
            ended.put(closed(batches))
        return exchange(request)

    monkeypatch.setattr(loader._feed, "exchange", collecting)
    with loader:
        next(batches)
        dropped.set()
        assert ended.get(timeout=10) is None


def closed(batches: Any) -> RuntimeError | None:
    """End a pass; what went wrong."""
    try:
        batches.close()
    except RuntimeError as error:
        return error
    return None


def test_workers_that_cannot_be_started_leave_no_folders(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no more processes")

    monkeypatch.setenv("DDLP_CPU_STORE", str(tmp_path))
    monkeypatch.setenv("DDLP_CSD_STORE", str(tmp_path))
    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(OSError, match="no more processes"):
        DualLoader.local(images, **OPTIONS)
    assert list(tmp_path.iterdir()) == []
