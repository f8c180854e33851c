"""Where the ranks of one host meet: a folder whose path follows from what all of them know.

BASE/ddlp-UID-JOB-HASH/lock      held by the process that serves the ranks, as long as it lives
BASE/ddlp-UID-JOB-HASH/socket    where the ranks attach
BASE/ddlp-UID-JOB-HASH/order     the arguments of rank 0, for ranks that gave others
"""

import fcntl
import hashlib
import json
import os
import shutil
import socket
import stat
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ddlp.core.errors import Conflict, InvalidInput

_JOB = (
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "GROUP_RANK",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
)
"""Variables that tell one job from another and are alike for all ranks of a host."""
_MOST_BYTES = 107
"""The longest path that a socket can have."""
_GLANCE_S = 0.05

_met: Counter[tuple[str, int]] = Counter()
_met_lock = threading.Lock()
_attached: set[Path] = set()
"""Where this process has found the others."""


@dataclass(frozen=True)
class Meeting:
    """The folder in which the ranks of a run meet."""

    folder: Path
    job: str = ""
    """What the places of its job have in their names; empty where nobody tells jobs apart."""

    @property
    def address(self) -> Path:
        """Where the ranks attach."""
        return self.folder / "socket"

    @property
    def order(self) -> Path:
        """Where the arguments of rank 0 stand."""
        return self.folder / "order"

    def attached(self) -> None:
        """Note that this process has found the others here."""
        _attached.add(self.folder)

    def elsewhere(self) -> list[str]:
        """The arguments with which this job is served at places that this process has not found."""
        if not self.job:
            return []
        places = sorted(set(self.folder.parent.glob(f"ddlp-{os.getuid()}-{self.job}-*")))
        found = []
        for place in (Meeting(folder) for folder in places if folder not in _attached):
            with suppress(OSError):  # it has just ended
                _check_private(place.folder)
                if place.is_served:
                    found.append(place.order.read_text())
        return found

    @property
    def is_served(self) -> bool:
        """Whether a process answers here."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
            return trial.connect_ex(str(self.address)) == 0

    def take(self, patience_s: float) -> "Taken":
        """Become the one process that serves the ranks; a dead one's place is taken over."""
        deadline = time.monotonic() + patience_s
        while True:
            lock = self._open_lock()
            if _try_lock(lock) and _is_at(lock, self.folder / "lock"):
                return Taken(self, lock, self._listen())
            os.close(lock)
            if time.monotonic() > deadline:
                raise Conflict(
                    f"another run with the same arguments is served at {self.folder}; end it, or "
                    "give each job a MASTER_PORT of its own, as torchrun does"
                )
            time.sleep(_GLANCE_S)

    def _open_lock(self) -> int:
        while True:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            _check_private(self.folder)
            try:
                return os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            except FileNotFoundError:  # the one before us has just removed the folder
                continue

    def _listen(self) -> socket.socket:
        self.address.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self.address))
        listener.listen(64)
        return listener


@dataclass(frozen=True)
class Taken:
    """A meeting place as the process that serves it holds it."""

    meeting: Meeting
    lock: int
    listener: socket.socket

    def leave(self) -> None:
        """Remove the folder; nobody attaches any more."""
        self.listener.close()
        shutil.rmtree(self.meeting.folder, ignore_errors=True)
        os.close(self.lock)


def meeting_of(run: str, rank: int, environment: Mapping[str, str] = os.environ) -> Meeting:
    """Where a rank of this process meets the others for its next run with these arguments.

    The first, the second … run with equal arguments get places of their own, so that a training
    and a validation loader never mix.
    """
    with _met_lock:
        ordinal = _met[run, rank]
        _met[run, rank] += 1
    job = {name: environment[name] for name in _JOB if environment.get(name)}
    name = f"ddlp-{os.getuid()}-{_digest(job)}-{_digest([job, run, ordinal], 24)}"
    for base in _bases(environment):
        meeting = Meeting(base / name, _digest(job) if job else "")
        if len(os.fsencode(meeting.address)) <= _MOST_BYTES:
            return meeting
    raise AssertionError("the last base is short")


def _digest(known: object, digits: int = 8) -> str:
    text = json.dumps(known, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def _bases(environment: Mapping[str, str]) -> list[Path]:
    """Folders for the place, the best first."""
    runtime = environment.get("XDG_RUNTIME_DIR")
    usable = runtime and os.path.isabs(runtime) and os.access(runtime, os.W_OK)
    first = [Path(runtime)] if runtime and usable else []
    return [*first, Path(tempfile.gettempdir()), Path("/tmp")]


def _check_private(folder: Path) -> None:
    """Refuse a folder that somebody else could have prepared."""
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise InvalidInput(
            f"{folder} is not a folder of this user alone; remove it, or set TMPDIR to a folder "
            "that only you can write to"
        )


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(lock: int, path: Path) -> bool:
    """Whether a path still leads to the file that was opened there."""
    try:
        return os.path.samestat(os.fstat(lock), os.stat(path))
    except FileNotFoundError:
        return False
