"""What a child process owes its parent: to die with it, and to answer on a clean channel."""

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

_PR_SET_PDEATHSIG = 1
_PR_GET_PDEATHSIG = 2


def die_with_parent(parent: int, sig: signal.Signals = signal.SIGKILL) -> None:
    """Be signalled when the process `parent`, which started this one, ends (on Linux)."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, sig, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the kernel was asked
        os.kill(os.getpid(), sig)


def parent_death_signal() -> int:
    """The signal that this thread gets when its parent ends; 0 for none."""
    if not sys.platform.startswith("linux"):
        return 0
    found = ctypes.c_int(0)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_GET_PDEATHSIG, ctypes.byref(found), 0, 0, 0)
    return found.value


@contextmanager
def own_stdout() -> Iterator[BinaryIO]:
    """Standard output for this process's answers alone: whatever else prints goes to stderr."""
    with os.fdopen(os.dup(1), "wb") as channel:
        os.dup2(2, 1)
        yield channel


def oom_kills() -> int:
    """How many processes the kernel has ended for lack of memory since it started."""
    try:
        with open("/proc/vmstat") as counters:
            found = dict(line.split() for line in counters)
    except OSError:
        return 0
    return int(found.get("oom_kill", 0))


def die_first_without_memory() -> None:
    """Have the kernel end this process before others when memory runs out (on Linux)."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as adjustment:
        adjustment.write("1000")


def is_alive(pid: int) -> bool:
    """Whether a process runs under this number."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
