"""A child ends with its parent, however that ends."""

import os
import select
import signal
import subprocess
import sys

import pytest

from ddlp.core.process import is_alive

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can tie two processes")

CHILD = """
import os, signal, sys
from ddlp.core.process import die_with_parent

die_with_parent(int(sys.argv[1]) or os.getppid(), signal.Signals(int(sys.argv[2])))
print(os.getpid(), flush=True)
signal.pause()
"""
PARENT = f"""
import signal, subprocess, sys

child = subprocess.Popen([sys.executable, "-c", {CHILD!r}, "0", sys.argv[1]])
signal.pause()
"""


@LINUX
@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_ends_when_its_parent_is_killed(sig: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(sig.value)], stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    with parent.stdout as output:
        child = int(output.readline())
        assert is_alive(child)
        parent.kill()
        parent.wait()
        # The child holds the other end of the pipe: the pipe ends when the child does.
        ended, _, _ = select.select([output], [], [], 20)
        if not ended:
            os.kill(child, signal.SIGKILL)
        assert ended
        assert output.read() == b""


@LINUX
def test_a_child_whose_parent_ended_before_it_could_ask_ends_too() -> None:
    somebody_else = 1 if os.getpid() != 1 else 2
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(somebody_else), str(signal.SIGTERM.value)],
        stdout=subprocess.DEVNULL,
        timeout=20,
    )
    assert child.returncode == -signal.SIGTERM


def test_this_process_is_alive() -> None:
    assert is_alive(os.getpid())


def test_a_process_of_somebody_else_is_alive() -> None:
    assert is_alive(1)


@pytest.mark.parametrize("number", [2**31, 10**20])
def test_a_number_that_no_process_can_have_is_not_alive(number: int) -> None:
    assert not is_alive(number)


def test_a_process_that_ended_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert not is_alive(child.pid)
