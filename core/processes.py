"""Names processes so that another one on the same machine can tell whether they still live."""

import os
from dataclasses import dataclass
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class ProcessName:
    """A process: its number, and where and since when that number means it."""

    number: int
    place: str


def this_process() -> ProcessName:
    """The process that asks."""
    number = os.getpid()
    return ProcessName(number, f"{_namespace()}/{_started(number) or ''}")


def is_running(place: str, number: int) -> bool:
    """Whether a process is known to live; of one on another machine that is never known."""
    namespace, _, started = place.rpartition("/")
    if not number or not started or not namespace or namespace != _namespace():
        return False
    return _started(number) == started


def is_dead(place: str, number: int) -> bool:
    """Whether a process is known to have ended; of one on another machine that is never known."""
    namespace, _, started = place.rpartition("/")
    if not number or not started or namespace != _namespace():
        return False
    return _started(number) != started


def _namespace() -> str:
    """Where process numbers mean the same: this boot of this machine, and this container."""
    try:
        return f"{_BOOT.read_text().strip()}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _started(number: int) -> str | None:
    """When a process began, in ticks since the boot; None for one that is gone or a zombie."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]
