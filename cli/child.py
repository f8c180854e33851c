"""A child process of `ddlp up`: started with a log, revived when it dies, ended with its parent."""

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from ddlp.cli.output import fail
from ddlp.core.errors import Unavailable
from ddlp.core.private import make_private_file
from ddlp.core.process import die_with_parent

_REST_S = 1.0
_STOP_S = 8.0
_OURS = "ddlp: "
_POINTER = "(Background on this error at"  # SQLAlchemy's last line says nothing of the cause


class Child:
    """One part of the stack."""

    def __init__(
        self, name: str, command: list[str], logs: Path, environment: dict[str, str]
    ) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.log = logs / f"{name}.log"
        make_private_file(self.log)
        self._command = command
        self._environment = environment
        self._started_at = 0.0
        self._log_start_bytes = 0
        self._process = self._spawn()

    @classmethod
    def of_ddlp(
        cls, name: str, arguments: list[str], logs: Path, environment: dict[str, str]
    ) -> Self:
        """A child that runs one of our own commands."""
        return cls(name, [sys.executable, "-m", "ddlp.cli", *arguments], logs, environment)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def check_started(self) -> None:
        """Raise with what it said if it has ended already."""
        if self._process.poll() is not None:
            said = last_words(self._said())
            raise Unavailable(f"the {self.name} part ended at its start: {said} (log: {self.log})")

    def revive(self) -> None:
        """Start it again if it has died, at most once a second."""
        status = self._process.poll()
        if status is None or time.monotonic() - self._started_at < _REST_S:
            return
        fail(
            f"the {self.name} part ended with status {status}; starting it again (log: {self.log})"
        )
        self._process = self._spawn()

    def terminate(self) -> None:
        """Ask it to end."""
        if self._process.poll() is None:
            self._process.terminate()

    def wait(self) -> None:
        """Wait for its end, and make one when it takes too long."""
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _said(self) -> list[str]:
        with self.log.open("rb") as log:
            log.seek(self._log_start_bytes)
            return log.read().decode(errors="replace").splitlines()

    def _spawn(self) -> "subprocess.Popen[bytes]":
        self._started_at = time.monotonic()
        with self.log.open("ab") as log:
            self._log_start_bytes = log.tell()
            return subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
                preexec_fn=functools.partial(die_with_parent, os.getpid(), signal.SIGTERM),
            )


def last_words(lines: list[str]) -> str:
    """The line that says why a process ended: its own last error, or the last of a traceback."""
    ours = [line.removeprefix(_OURS) for line in lines if line.startswith(_OURS)]
    others = [line for line in lines if line.strip() and not line.startswith(_POINTER)]
    return (ours or others or ["it said nothing"])[-1]
