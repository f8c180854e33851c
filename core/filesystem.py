"""What lies behind a path: which filesystem, how much room, and whether it can be read directly."""

import errno
import mmap
import os
import re
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from ddlp.core.passing import is_passing

MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})
_MOUNTS = Path("/proc/self/mountinfo")
_PROBE_BYTES = 4096
_NO_DIRECT = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS})


@dataclass(frozen=True)
class Filesystem:
    """A mounted filesystem."""

    kind: str
    place: Path

    @property
    def in_memory(self) -> bool:
        """Whether its files are pages of this host: then a map is the file itself."""
        return self.kind in MEMORY


def nearest(path: Path) -> Path:
    """The path, or the nearest folder above it that is there."""
    return next((place for place in (path, *path.parents) if place.exists()), Path("/"))


def filesystem_at(path: Path, mounts: Path = _MOUNTS) -> Filesystem:
    """The filesystem that a path lies on, or would."""
    real = os.path.realpath(nearest(path))
    best = Filesystem("unknown", Path("/"))
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError as error:
        if is_passing(error):
            raise
        return best
    for line in lines:
        fields, _, rest = line.partition(" - ")
        place = Path(_unescaped(fields.split()[4]))
        if os.path.commonpath([real, place]) == str(place) and len(str(place)) >= len(
            str(best.place)
        ):
            best = Filesystem(rest.split()[0], place)
    return best


def free_bytes(path: Path) -> int:
    """Room where a path is, or would be made."""
    return shutil.disk_usage(nearest(path)).free


def direct_refusal(folder: Path) -> str | None:
    """Why files in a folder cannot be read past the page cache; None where they can.

    Found by doing it: filesystems differ in whether they refuse to open, or to read. An error that
    says nothing of them is raised.
    """
    there = nearest(folder)
    probe = there / f".ddlp-probe-{os.getpid()}-{os.urandom(4).hex()}"
    kind = filesystem_at(there).kind
    try:
        with mmap.mmap(-1, _PROBE_BYTES) as memory:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_DIRECT
            descriptor = os.open(probe, flags, 0o600)
            try:
                os.pwrite(descriptor, memory, 0)
                os.preadv(descriptor, [memory], 0)
            finally:
                os.close(descriptor)
    except OSError as error:
        if is_passing(error):
            raise
        return f"{kind} at {there} takes no O_DIRECT ({error.strerror})"
    finally:
        probe.unlink(missing_ok=True)
    return None


def direct_read_refusal(path: Path) -> str | None:
    """Why a file cannot be read past the page cache; None where it can.

    Raises where it cannot be read at all.
    """
    try:
        with mmap.mmap(-1, _PROBE_BYTES) as memory:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
            try:
                os.preadv(descriptor, [memory], 0)
            finally:
                os.close(descriptor)
    except OSError as error:
        if error.errno not in _NO_DIRECT:
            raise
        found = filesystem_at(path)
        return f"{found.kind} at {found.place} takes no O_DIRECT ({error.strerror})"
    return None


def other_writers(status: os.stat_result) -> str | None:
    """Who else may write to a file beside its reader's user and root; None where nobody may.

    An access control list shows as rights of the group.
    """
    if status.st_uid not in (os.geteuid(), 0):
        return f"its files are another user's (uid {status.st_uid})"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write to its files (mode {stat.S_IMODE(status.st_mode):04o})"
    return None


def _unescaped(text: str) -> str:
    """A path as mountinfo writes it: spaces and the like are octal."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
