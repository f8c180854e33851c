"""A janitor: a tiny process that removes the folders of its owner once that is dead.

A process that is killed cannot clean up after itself. The janitor is a child in a session of its
own, so that a signal to the owner's process group does not reach it. It is run as a plain file,
with the standard library alone, and sleeps until its owner ends.

Its standard input lists the folders, each ended by a zero byte. The owner's workers hold the other
end of it too, so that its end says that nobody is left who could write into the folders.
"""

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

_GLANCE_S = 0.5
_STRAGGLERS_S = 60.0
"""How long processes that outlive the owner are waited for."""


class Janitor:
    """The janitor as its owner sees it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # whoever reads the owner's output need not wait for it
            bufsize=0,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The janitor's process id."""
        return self._process.pid

    @property
    def lifeline(self) -> int:
        """A descriptor for each process that writes into the folders to hold as long as it runs."""
        assert self._process.stdin is not None
        return self._process.stdin.fileno()

    def watch(self, folder: Path) -> None:
        """Have a folder removed once this process is dead."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it was killed: the next start sweeps
            self._process.stdin.write(os.fsencode(folder) + b"\0")

    def dismiss(self) -> None:
        """End it: the folders are gone already."""
        self._process.kill()
        self._process.wait(timeout=10)
        assert self._process.stdin is not None
        self._process.stdin.close()


def keep(owner: int) -> None:
    """Wait for the end of the process `owner`, then remove its folders until nobody is left."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    listed, ended = b"", False
    while not ended and os.getppid() == owner:
        said, ended = _listen(_GLANCE_S)
        listed += said
    deadline = time.monotonic() + _STRAGGLERS_S
    while not ended and time.monotonic() < deadline:
        _remove(listed)
        said, ended = _listen(_GLANCE_S)
        listed += said
    _remove(listed)


def _listen(patience_s: float) -> tuple[bytes, bool]:
    """What arrives on standard input within a while, and whether that has ended."""
    if not select.select([0], [], [], patience_s)[0]:
        return b"", False
    said = os.read(0, 65536)
    return said, not said


def _remove(listed: bytes) -> None:
    for folder in filter(None, listed.split(b"\0")):
        shutil.rmtree(os.fsdecode(folder), ignore_errors=True)


if __name__ == "__main__":
    keep(int(sys.argv[1]))
