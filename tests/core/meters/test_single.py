"""One process of a host samples, whatever becomes of it, and its joules are counted once."""

import json
import logging
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ddlp.core.messages.energy import HostSample
from ddlp.core.meters import OnePerHost, Sampling
from tests.core.meters.fake_host import FakePowercap

ROOT = Path(__file__).parents[3]
SAMPLE = HostSample(host="h", sampler=uuid.uuid4(), period_s=0, busy_s=0, cores=1)


class FakeMeters:
    def sample(self) -> HostSample:
        return SAMPLE


def sampling(lock: OnePerHost, send: Callable[[HostSample], object]) -> Sampling:
    return Sampling(lock, FakeMeters, send, period_s=0.001)


def test_the_lock_is_had_once_and_given_back(tmp_path: Path) -> None:
    one, other = OnePerHost(str(tmp_path)), OnePerHost(str(tmp_path))
    assert one.try_take()
    assert one.try_take()
    assert (one.held, other.try_take(), other.held) == (True, False, False)
    one.close()
    assert not one.held
    assert other.try_take()
    other.close()


def test_each_server_has_a_sampler_of_its_own(tmp_path: Path) -> None:
    one, other = OnePerHost(f"http://a{tmp_path}"), OnePerHost(f"http://b{tmp_path}")
    assert one.try_take()
    assert other.try_take()
    one.close()
    other.close()


def test_meters_are_made_when_the_lock_is_had_and_not_before(tmp_path: Path) -> None:
    held, made, got = OnePerHost(str(tmp_path)), [], []
    assert held.try_take()

    def make() -> FakeMeters:
        made.append(1)
        return FakeMeters()

    waiting = Sampling(OnePerHost(str(tmp_path)), make, got.append)
    waiting.tick()
    assert (made, got) == ([], [])
    held.close()
    waiting.tick()
    waiting.tick()
    assert (made, got) == ([1], [SAMPLE, SAMPLE])
    waiting.stop()


def test_samples_that_cannot_be_sent_are_lost_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    got: list[HostSample] = []
    answers = iter([OSError("no route"), ValueError("odd"), None, OSError("again")])

    def send(sample: HostSample) -> None:
        answer = next(answers)
        if answer is not None:
            raise answer
        got.append(sample)

    thread = sampling(OnePerHost(str(tmp_path)), send)
    for _ in range(4):
        thread.tick()
    assert got == [SAMPLE]
    warned = [line.message for line in caplog.records if line.levelno == logging.WARNING]
    assert warned == [
        "a sample of this host's energy is lost: no route",
        "a sample of this host's energy is lost: again",
    ]
    thread.stop()


def test_who_cannot_make_meters_leaves_the_lock_to_others(tmp_path: Path) -> None:
    def fail() -> FakeMeters:
        raise OSError("no meters")

    lock, other = OnePerHost(str(tmp_path)), OnePerHost(str(tmp_path))
    Sampling(lock, fail, lambda _: None).tick()
    assert other.try_take()
    other.close()


def test_a_thread_samples_until_it_is_stopped(tmp_path: Path) -> None:
    lock, several = OnePerHost(str(tmp_path)), threading.Semaphore(0)
    thread = sampling(lock, lambda _: several.release())
    assert thread.daemon
    thread.start()
    for _ in range(3):
        assert several.acquire(timeout=30)
    thread.stop()
    assert not thread.is_alive()
    assert not lock.held


FORKER = """
import os, sys
from pathlib import Path
from ddlp.core.meters import OnePerHost

lock = OnePerHost(sys.argv[1])
taken = lock.try_take()
if os.fork() == 0:
    print(taken, lock.held, flush=True)
sys.stdin.read()
"""


def test_a_forked_child_does_not_hold_the_lock_beyond_its_parent(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKER, str(tmp_path)]
    pipe = subprocess.PIPE
    # Parent and child live until their input is closed, which happens when this block is left.
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "True False\n"
        lock = OnePerHost(str(tmp_path))
        assert not lock.try_take()
        parent.kill()
        parent.wait()
        assert lock.try_take()
        lock.close()


class Receiver:
    """What a server is for samplers: it adds up what each of them said last."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(60)
        self.seen: set[int] = set()
        self.senders: list[int] = []
        self._last_j: dict[str, float] = {}

    def receive_until(self, done: Callable[[], bool]) -> None:
        while not done():
            body = json.loads(self._socket.recv(65536))
            self.seen.add(body["pid"])
            if "sample" in body:
                sample = HostSample.model_validate(body["sample"])
                (package,) = (part for part in sample.domains if part.name == "package-0")
                self._last_j[str(sample.sampler)] = package.reading.joules or 0.0
                if body["pid"] not in self.senders:
                    self.senders.append(body["pid"])

    @property
    def joules(self) -> float:
        return sum(self._last_j.values())

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    made = Receiver(tmp_path / "receiver.sock")
    yield made
    made.close()


def test_of_eight_processes_one_samples_and_another_takes_over_when_it_is_killed(
    tmp_path: Path, receiver: Receiver
) -> None:
    counter = FakePowercap(tmp_path / "powercap").zone("intel-rapl:0", "package-0", 1_000_000)

    def count(uj: int) -> None:
        """In one step: no process reads half of it."""
        new = counter.with_name("new")
        new.write_text(str(uj))
        new.replace(counter)

    command = [sys.executable, "-m", "tests.core.meters.sampler_process"]
    with ExitStack() as stack:
        processes = {}
        for _ in range(8):
            process = subprocess.Popen([*command, str(receiver.path), str(tmp_path)], cwd=ROOT)
            stack.callback(process.wait)
            stack.callback(process.kill)
            processes[process.pid] = process

        receiver.receive_until(lambda: receiver.seen == set(processes) and receiver.joules == 0)
        count(5_000_000)
        receiver.receive_until(lambda: receiver.joules > 0)
        assert receiver.joules == pytest.approx(4)
        assert len(receiver.senders) == 1

        killed = processes[receiver.senders[0]]
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        receiver.receive_until(lambda: len(receiver.senders) == 2)
        count(8_000_000)
        receiver.receive_until(lambda: receiver.joules > 4.5)
        assert receiver.joules == pytest.approx(7)

        receiver.seen.clear()
        receiver.receive_until(lambda: receiver.seen == set(processes) - {killed.pid})
        assert len(receiver.senders) == 2
