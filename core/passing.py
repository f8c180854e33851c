"""Decides which errors of the operating system may pass: they say nothing of a file or a sample.

Such an error is waited out for a while (`core/patience.py`). It never counts as damage by itself;
only a drive that goes on refusing one file alone may have lost that file.
"""

import errno
import os

_DESCRIPTORS = "raise the limit of open files (ulimit -n), or of the host (fs.file-max)"
_MEMORY = "free memory on this host, or give its container more"
_DRIVE = "look at the drive and its mount (dmesg)"
_MOUNT = "look at the mount and at the host that serves it"
_BUSY = "look at what else runs on this host"

_OWN = {
    errno.EMFILE: _DESCRIPTORS,
    errno.ENFILE: _DESCRIPTORS,
    errno.ENOMEM: _MEMORY,
    errno.ENOBUFS: _MEMORY,
    errno.EAGAIN: _BUSY,
}
_REMEDIES = {
    **_OWN,
    errno.EINTR: _BUSY,
    errno.EBUSY: _BUSY,
    errno.ENOLCK: _BUSY,
    errno.EIO: _DRIVE,
    errno.EREMOTEIO: _DRIVE,
    errno.ESTALE: _MOUNT,
    errno.ETIMEDOUT: _MOUNT,
    errno.ENOTCONN: _MOUNT,
    errno.ECONNRESET: _MOUNT,
    errno.ECONNREFUSED: _MOUNT,
    errno.EHOSTDOWN: _MOUNT,
    errno.EHOSTUNREACH: _MOUNT,
    errno.ENETDOWN: _MOUNT,
    errno.ENETUNREACH: _MOUNT,
}
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_PERHAPS_LOST = frozenset({errno.EIO, errno.EREMOTEIO})


def is_passing(error: BaseException) -> bool:
    """Whether what failed may work another time, with the same file."""
    return isinstance(error, OSError) and error.errno in _REMEDIES


def is_own(error: BaseException) -> bool:
    """Whether this process or host has run out of something: no other one is to blame."""
    return isinstance(error, OSError) and error.errno in _OWN


def is_full(error: BaseException) -> bool:
    """Whether there is no room: that passes when others make some, not by itself."""
    return isinstance(error, OSError) and error.errno in _FULL


def is_perhaps_lost(error: OSError) -> bool:
    """Whether a drive also answers so where it has lost a file."""
    return error.errno in _PERHAPS_LOST


def failed_words(error: OSError, call: str, place: object) -> str:
    """Which call failed on what, and with which error."""
    number = error.errno or 0
    name = errno.errorcode.get(number, "an unknown error")
    return f"{call} of {place} failed with {name} ({error.strerror or os.strerror(number)})"


def remedy(error: OSError) -> str:
    """What to do about an error that does not pass."""
    return _REMEDIES[error.errno or 0]
