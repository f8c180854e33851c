"""Decides how an emulated device is held to its share of the host, and holds it there.

The kernel does it best: a control group (cgroup) with a CPU quota, of version 2 or 1, that the
worker moves into before its processes are forked, so that all of them share the quota. Where no
group can be made each process sleeps instead, so that a batch takes as long as it would on the
slower processor (duty-cycling). Which one it is, is found out by doing it: written, and read back.
"""

import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from ddlp.core.errors import InvalidInput
from ddlp.core.passing import is_passing
from ddlp.core.process import is_alive

_PREFIX = "ddlp-csd-"
_PERIOD_US = 100_000
LEAST_HOST_CORES = 0.05
"""With less than this a worker under a quota could not even say in time that it lives."""
_REMOVE_S = 2.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Share:
    """What a device may use of its host: so many cores, each of a fraction of a host core."""

    cores: int
    speed: float
    slots: int
    """Processes that make batches on it."""

    def __post_init__(self) -> None:
        if self.cores < 1 or self.slots < 1 or not 0 < self.speed <= 1:
            raise InvalidInput(
                f"{self.cores} cores, {self.slots} processes and a speed of {self.speed} are no "
                "share; give at least one of each and a speed above 0 and at most 1"
            )

    @property
    def host_cores(self) -> float:
        """All of it together, in cores of the host."""
        return self.cores * self.speed

    @property
    def quota_us(self) -> int:
        """CPU time in a period."""
        return round(self.host_cores * _PERIOD_US)


class Throttle(Protocol):
    """What holds a tree of processes to a share."""

    @property
    def speed(self) -> float:
        """How much of a core one process may use before it has to sleep by itself; 1 is all."""

    def in_words(self) -> str:
        """How the device is held, and to what."""

    def broken(self) -> str | None:
        """Why it does not hold any more, if so."""

    def release(self) -> None:
        """Hold it no longer, and leave nothing behind."""


@dataclass(frozen=True)
class DutyCycle:
    """Processes that sleep by themselves after each batch."""

    share: Share
    why: str = ""
    """Why there is no quota."""

    @property
    def speed(self) -> float:
        """A core's; where more processes than cores work, they share what there is."""
        return self.share.speed * min(1.0, self.share.cores / self.share.slots)

    def in_words(self) -> str:
        """How the device is held, and to what."""
        why = f" ({self.why})" if self.why else ""
        return f"duty-cycled: a process sleeps until it has used {self.speed:.3g} of a core{why}"

    def broken(self) -> str | None:
        """It cannot break."""
        return None

    def release(self) -> None:
        """Nothing was done."""


@dataclass(frozen=True)
class Cgroup(ABC):
    """A group of processes with one CPU quota, made for one worker and named after it."""

    share: Share
    group: Path
    pid: int
    home: Path
    """The group that the worker came from."""

    kind: ClassVar[str]

    @property
    def speed(self) -> float:
        """The quota is the device's: where it has several cores, none may use all of it."""
        return 1.0 if self.share.cores == 1 else self.share.speed

    def in_words(self) -> str:
        """How the device is held, and to what."""
        return f"held to {self.share.host_cores:.3g} host cores by a {self.kind} quota"

    def enter(self) -> None:
        """Make the group, have the kernel confirm its quota, and move the worker into it."""
        self.confirm()
        (self.group / "cgroup.procs").write_text(str(self.pid))

    def confirm(self) -> None:
        """Make the group, and have the kernel say the quota that was asked for."""
        self.group.mkdir(exist_ok=True)
        self._write_quota()
        if not self._is_set():
            raise OSError(f"{self.group} did not take its quota")

    def broken(self) -> str | None:
        """Why it does not hold any more, if so."""
        try:
            members = (self.group / "cgroup.procs").read_text().split()
            if self._is_set() and str(self.pid) in members:
                return None
        except OSError as error:
            if is_passing(error):
                return None  # that says nothing of the group
            return f"its cgroup {self.group} cannot be read ({error.strerror})"
        return f"its cgroup {self.group} was changed by someone else; start the worker anew"

    def release(self) -> None:
        """Move back and remove the group, once the last of its processes has ended."""
        try:
            (self.home / "cgroup.procs").write_text(str(self.pid))
        except OSError as error:
            log.warning("%s cannot be left (%s); the next worker removes it", self.group, error)
            return
        self.remove()

    def remove(self) -> None:
        """Remove the group; it takes a moment until the kernel has forgotten its processes."""
        deadline = time.monotonic() + _REMOVE_S
        while self.group.exists():
            try:
                _remove(self.group)
            except OSError as error:
                if time.monotonic() > deadline:
                    log.warning("%s stays (%s); the next worker removes it", self.group, error)
                    return
                time.sleep(0.02)

    @abstractmethod
    def _write_quota(self) -> None: ...

    @abstractmethod
    def _is_set(self) -> bool: ...


class CgroupV2(Cgroup):
    """`cpu.max` of the unified hierarchy."""

    kind = "cgroup v2"

    def _write_quota(self) -> None:
        (self.group / "cpu.max").write_text(f"{self.share.quota_us} {_PERIOD_US}")

    def _is_set(self) -> bool:
        found = (self.group / "cpu.max").read_text().split()
        return found == [str(self.share.quota_us), str(_PERIOD_US)]


class CgroupV1(Cgroup):
    """`cpu.cfs_quota_us` of the cpu hierarchy."""

    kind = "cgroup v1"

    def _write_quota(self) -> None:
        (self.group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
        (self.group / "cpu.cfs_quota_us").write_text(str(self.share.quota_us))

    def _is_set(self) -> bool:
        period = (self.group / "cpu.cfs_period_us").read_text().strip()
        quota = (self.group / "cpu.cfs_quota_us").read_text().strip()
        return (quota, period) == (str(self.share.quota_us), str(_PERIOD_US))


def hold(share: Share, proc: Path = Path("/proc/self"), pid: int | None = None) -> Throttle:
    """Hold this process, and all that it starts from now on, to a share of the host."""
    found = _first(share, proc, pid or os.getpid(), moving=True)
    log.info("%s", found.in_words())
    return found


def would_hold(share: Share, proc: Path = Path("/proc/self")) -> str:
    """How a device would be held, tried without moving anything."""
    found = _first(share, proc, os.getpid(), moving=False)
    if isinstance(found, Cgroup):
        found.remove()
    return found.in_words()


def _first(share: Share, proc: Path, pid: int, moving: bool) -> Throttle:
    """The first way that works; what does not work says why."""
    if share.host_cores < LEAST_HOST_CORES:
        return DutyCycle(share, "a quota so small would leave the worker no time to say it lives")
    why = "no cgroup with a CPU quota is mounted"
    for cgroup in _candidates(share, proc, pid):
        sweep(cgroup.group.parent)
        try:
            if moving:
                cgroup.enter()
            else:
                cgroup.confirm()
        except OSError as error:
            why = f"{cgroup.kind} cannot be used: {error}"
            cgroup.remove()
        else:
            return cgroup
    return DutyCycle(share, why)


def sweep(parent: Path) -> None:
    """Remove the groups of workers that are no more; the kernel keeps those with processes."""
    for group in parent.glob(f"{_PREFIX}*"):
        owner = group.name.removeprefix(_PREFIX)
        if owner.isascii() and owner.isdigit() and not is_alive(int(owner)):
            try:
                _remove(group)
            except OSError as error:
                log.info("%s stays: %s", group, error)


def _remove(group: Path) -> None:
    """A group's files go with it."""
    os.rmdir(group)


def _candidates(share: Share, proc: Path, pid: int) -> Iterator[Cgroup]:
    name = f"{_PREFIX}{pid}"
    try:
        mounts = _mounts(proc)
        own = _own_groups(proc)
    except OSError:  # no Linux, or no /proc
        return
    for mount in mounts:
        at = own.get("cpu" if mount.version == 1 else "", "/")
        home = mount.folder / at.removeprefix(mount.root).lstrip("/")
        if home.name == name:  # this very worker, started anew
            home = home.parent
        if not home.is_dir():
            home = mount.folder
        if mount.version == 1:
            yield CgroupV1(share, home / name, pid, home)
            continue
        for parent in _parents(home, mount.folder):
            yield CgroupV2(share, parent / name, pid, home)


def _parents(home: Path, top: Path) -> Iterator[Path]:
    """Groups whose members may have a quota: one's own, or the one around a login's scope.

    A service manager follows a service by its group, so that is not left.
    """
    around = [] if home == top or home.suffix == ".service" else [home.parent]
    for group in (home, *around):
        try:
            controllers = (group / "cgroup.subtree_control").read_text().split()
        except OSError:
            continue
        if "cpu" in controllers:
            yield group


@dataclass(frozen=True)
class _Mount:
    version: int
    root: str
    folder: Path


def _mounts(proc: Path) -> list[_Mount]:
    """Where hierarchies with a CPU quota are mounted, the newer kind first."""
    found = []
    for line in (proc / "mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        root, folder = before.split()[3:5]
        kind, *_, options = after.split()
        if kind == "cgroup2":
            found.append(_Mount(2, root, Path(folder)))
        elif kind == "cgroup" and "cpu" in options.split(","):
            found.append(_Mount(1, root, Path(folder)))
    return sorted(found, key=lambda mount: -mount.version)


def _own_groups(proc: Path) -> dict[str, str]:
    """This process's group by controller; the unified hierarchy has an empty name."""
    groups: dict[str, str] = {}
    for line in (proc / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        groups |= dict.fromkeys(controllers.split(","), path)
    return groups
