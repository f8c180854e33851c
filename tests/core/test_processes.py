"""A process is named so that another one on the machine can tell whether it lives."""

import os
import signal
import subprocess
import sys

import pytest

from ddlp.core import processes
from ddlp.core.processes import ProcessName, is_dead, this_process

_NAME_ME = """
from ddlp.core.processes import this_process
name = this_process()
print(name.number, name.place, flush=True)
input()
"""


class Other:
    """Another process, which says how it is named and waits to be told to end."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _NAME_ME],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        number, place = self.process.stdout.readline().split()
        self.name = ProcessName(int(number), place)

    @property
    def is_dead(self) -> bool:
        return is_dead(self.name.place, self.name.number)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


def test_the_process_that_asks_lives() -> None:
    name = this_process()
    assert name.number == os.getpid()
    assert not is_dead(name.place, name.number)


def test_a_process_lives_until_it_ends_also_by_a_signal() -> None:
    other = Other()
    try:
        assert not other.is_dead
        os.kill(other.process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, other.process.pid, os.WEXITED | os.WNOWAIT)
        assert other.is_dead, "a zombie is dead"
    finally:
        other.end()
    assert other.is_dead


def test_a_number_that_was_given_to_another_process_since_is_dead() -> None:
    name = this_process()
    earlier = name.place.rpartition("/")[0] + "/1"
    assert is_dead(earlier, name.number)


@pytest.mark.parametrize(
    "place",
    ["", "another-boot/pid:[1]/123", "/", "another-boot/pid:[1]/"],
)
def test_of_a_process_elsewhere_it_is_never_known(place: str) -> None:
    assert not is_dead(place, 2**22 + 1)


@pytest.mark.parametrize("missing", ["number", "start"])
def test_what_was_never_said_is_never_known(missing: str) -> None:
    name = this_process()
    namespace = name.place.rpartition("/")[0]
    if missing == "number":
        assert not is_dead(name.place, 0)
    else:
        assert not is_dead(f"{namespace}/", 2**22 + 1)


def test_where_a_machine_tells_nothing_a_process_is_named_by_its_number_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setattr(processes, "_BOOT", processes.Path(f"{tmp_path}/none"))
    monkeypatch.setattr(processes, "_started", lambda number: None)
    assert this_process().place == "/"
    assert not is_dead("/", os.getpid())
