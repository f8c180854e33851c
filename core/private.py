"""Folders and files that only their own user can read: homes, databases, logs, stores.

What DDLP makes is private. A folder that somebody else made, or made for others, keeps its mode:
that is how a store is shared with trainers of another user. Its group may then read the files in
it, but nobody else than their user writes to them.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

_OTHERS = 0o077
_LOOK = stat.S_IRGRP | stat.S_IXGRP


def make_private_folder(folder: Path) -> None:
    """Make a folder that only this user can enter, or close one of theirs to others."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    close_to_others(folder)


def make_home(home: Path) -> None:
    """Make a home folder, or close the one that is there; one that holds other things is left."""
    is_ours = not home.exists() or not any(home.iterdir()) or _is_home(home)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if is_ours:
        close_to_others(home)


def make_private_file(file: Path) -> None:
    """Make an empty file that only this user can read, or close one of theirs to others."""
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    close_to_others(file)


def close_to_others(path: Path) -> None:
    """Take the rights of others to what is this user's; a shared place, such as /tmp, is left."""
    found = path.stat()
    is_shared = found.st_uid != os.geteuid() or found.st_mode & stat.S_ISVTX
    if found.st_mode & _OTHERS and not is_shared:
        with suppress(OSError):  # a filesystem without modes
            path.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)


def shares_with_group(folder: Path) -> bool:
    """Whether a folder lets its group list and enter it."""
    return folder.stat().st_mode & _LOOK == _LOOK


def let_group_look(folder: Path) -> None:
    """Let a folder's group list and enter it, whatever the umask was when it was made."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & _LOOK != _LOOK:
        with suppress(OSError):  # a filesystem without modes
            folder.chmod(mode | _LOOK)


def _is_home(folder: Path) -> bool:
    return any((folder / name).exists() for name in ("lock", "ddlp.db", "index-copies"))
