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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ddlp.core.messages import Fed, FeedRequest
from ddlp.core.owned_folder import shared_memory
from ddlp.loader import DualLoader
from tests.conftest import SMALL_PIPELINE, wait_until
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


def test_a_killed_trainer_takes_its_workers_along(images: Path) -> None:
    with script(images, IN_A_STEP, CLOSED) as process:
        workers = told(process)
        process.kill()
        process.communicate(timeout=10)
    wait_until(lambda: gone(workers))
    with DualLoader.local(images, **OPTIONS):
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
