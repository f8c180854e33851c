"""A local worker process as its owner sees it."""

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from ddlp.core.local_worker import Hello, Report
from ddlp.core.messages import Lease
from ddlp.core.patience import Patience
from ddlp.core.schedule import UNKNOWN, Death
from ddlp.core.types import Prong


class WorkerProcess:
    """Sends leases to a child process; a thread hands its reports on."""

    def __init__(
        self,
        hello: Hello,
        prong: Prong,
        lifeline: int,
        on_report: Callable[["WorkerProcess", Report], None],
        on_exit: Callable[["WorkerProcess"], None],
    ) -> None:
        self.name = hello.device
        self.prong = prong
        self.hello = hello
        self.outstanding = 0
        self.killed = False
        self._on_report = on_report
        self._on_exit = on_exit
        self._process = Patience().call("start", f"worker {self.name}", partial(_start, lifeline))
        self._write(hello.model_dump_json())
        threading.Thread(target=self._listen, name=f"ddlp-{self.name}", daemon=True).start()

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def send(self, lease: Lease) -> None:
        """Queue one more lease with the child."""
        self.outstanding += 1
        self._write(lease.model_dump_json())

    @property
    def death(self) -> Death:
        """How the child ended; one that was ended here died of nothing that it did."""
        return UNKNOWN if self.killed else Death(self._process.poll())

    def kill(self) -> None:
        """End the child at once."""
        self.killed = True
        self._process.kill()

    def close(self) -> None:
        """Let the child end; what it is working on is of no use any more."""
        self._process.kill()
        self._process.wait(timeout=10)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                _close_quietly(pipe.close)

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass  # it has died: the listening thread reports that

    def _listen(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                self._on_report(self, Report.model_validate_json(line))
        except ValueError:
            pass  # the pipe was closed, or the child died in the middle of a line
        self._on_exit(self)


def _start(lifeline: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "ddlp.core.local_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(lifeline,),  # the janitor sees from it whether somebody may still write
        process_group=0,  # an interruption from a terminal is for the trainer
    )


def _close_quietly(close: Callable[[], None]) -> None:
    with suppress(BrokenPipeError):
        close()
