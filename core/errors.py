"""The one exception tree; every message says what happened, with which value, and what to do.

DdlpError
├── InvalidInput        the caller's value cannot be used              422, exit 2
│   ├── NotAllowed      it lies outside what the operator allowed      403, exit 7
│   ├── Unsupported     the request's form is not taken                415
│   └── KeyRefused      no key, or one that is unknown or revoked      401, exit 7
├── NotFound            no such dataset, run, device or epoch          404, exit 5
├── Conflict            the state does not allow it now                409, exit 6
│   └── Refused         a stale fencing token                          409
│       └── Held        a living process may be at work on it          409
├── BadSample           one encoded sample cannot be decoded
├── DamagedBatch        a batch file fails its checks
│   └── MissingBatch    it is not there any more
├── Unavailable         a needed service or package is not there       503, exit 3
│   ├── NoRoom          a store is full
│   └── SystemFault     the operating system refused, and may not another time
└── WaitTimeout         a wait ran into its deadline                   504, exit 4
"""

from ddlp.core.exit_codes import ExitCode


class DdlpError(Exception):
    """The root of everything DDLP raises on purpose."""

    status = 500
    exit_code = ExitCode.FAILED


class InvalidInput(DdlpError):
    """The caller's value cannot be used."""

    status = 422
    exit_code = ExitCode.USAGE


class NotAllowed(InvalidInput):
    """The value lies outside what the operator allowed."""

    status = 403
    exit_code = ExitCode.DENIED


class Unsupported(InvalidInput):
    """The request's form is not taken."""

    status = 415


class KeyRefused(InvalidInput):
    """There is no key, or one that is not known or was revoked."""

    status = 401
    exit_code = ExitCode.DENIED


class NotFound(DdlpError):
    """There is no such thing."""

    status = 404
    exit_code = ExitCode.NOT_FOUND


class Conflict(DdlpError):
    """The current state does not allow it."""

    status = 409
    exit_code = ExitCode.REFUSED


class Refused(Conflict):
    """The fencing token is stale: the work was given to someone else, or is no longer wanted."""


class Held(Refused):
    """Another process of the same device has the lease; if it is dead, that can be said."""

    def __init__(self, message: str, process: int) -> None:
        super().__init__(message)
        self.process = process


class BadSample(DdlpError):
    """One encoded sample cannot be decoded."""

    status = 422


class DamagedBatch(DdlpError):
    """A batch file fails its checks and must be made again."""


class MissingBatch(DamagedBatch):
    """A batch file is not there any more."""


class Unavailable(DdlpError):
    """A service or package that is needed is not there."""

    status = 503
    exit_code = ExitCode.UNREACHABLE


class NoRoom(Unavailable):
    """A store is full."""


class SystemFault(Unavailable):
    """The operating system refused what it may grant another time: no file and no sample is bad."""

    def __init__(
        self,
        message: str,
        call: str = "a system call",
        remedy: str = "try again",
        *,
        perhaps_lost: bool = False,
        final: bool = False,
    ) -> None:
        super().__init__(message)
        self.call = call
        self.remedy = remedy
        self.perhaps_lost = perhaps_lost
        """Whether the file may be lost, and nothing else."""
        self.final = final
        """Whether it was waited for as long as it may be."""


class WaitTimeout(DdlpError):
    """A wait ran into its deadline."""

    status = 504
    exit_code = ExitCode.TIMEOUT


def from_status(status: int, message: str) -> DdlpError:
    """The error that a server reported with this HTTP status."""
    by_status: dict[int, type[DdlpError]] = {
        400: InvalidInput,
        401: KeyRefused,
        403: NotAllowed,
        404: NotFound,
        409: Conflict,
        415: Unsupported,
        422: InvalidInput,
        503: Unavailable,
        504: WaitTimeout,
    }
    return by_status.get(status, DdlpError)(message)
