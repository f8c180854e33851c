"""Ways to do harm to a stack."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.conftest import UpProcess


def once_at(step: int, action: Callable[[], None]) -> Callable[[int], None]:
    """Do something at one step of the epoch."""

    def at_step(now: int) -> None:
        if now == step:
            action()

    return at_step


def pool(worker: int) -> list[int]:
    """The processes of a worker's pool."""
    children = Path(f"/proc/{worker}/task/{worker}/children").read_text().split()
    return [int(child) for child in children]


def kill(*processes: int) -> None:
    """End processes as the kernel does when memory runs out.

    One that ended since it was listed is as dead as the others: the first to be killed may take
    others with it, and a worker that starts has helpers that live for a moment.
    """
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


@contextmanager
def stopped(*processes: int) -> Iterator[None]:
    """Have processes stand still for a while."""
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)


def stand_still(seconds: float, *processes: int) -> None:
    """Have processes stand still for so long."""
    with stopped(*processes):
        time.sleep(seconds)


def broker_url(stack: UpProcess) -> str:
    """Where the embedded broker listens."""
    environment = Path(f"/proc/{stack.children()['serve']}/environ").read_bytes().split(b"\0")
    [url] = [entry for entry in environment if entry.startswith(b"DDLP_REDIS_URL=")]
    return url.decode().partition("=")[2]


def is_over(process: int) -> bool:
    """Whether a process ended; what is left of one until it is waited for has no command."""
    command = Path(f"/proc/{process}/cmdline")
    return not command.exists() or not command.read_bytes()
