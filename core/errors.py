"""The one exception tree; every message says what happened, with which value, and what to do.

DdlpError
├── InvalidInput        the caller's value cannot be used              422, exit 2
│   ├── NotAllowed      it lies outside what the operator allowed      403, exit 7
│   ├── Malformed       the request cannot be understood               400
│   ├── WrongMethod     what is there does not do that                 405
│   ├── Unsupported     the request's form is not taken                415
│   ├── TooLarge        the request is larger than what is taken       413
│   │   └── HeadTooLarge  its address and headers are                  431
│   ├── TooSlow         the request did not arrive in time             408
│   └── KeyRefused      no key, or one that is unknown or revoked      401, exit 7
│       └── TooMany     too many keys were shown in vain               429, exit 7
├── NotFound            no such dataset, run, device or epoch          404, exit 5
├── Conflict            the state does not allow it now                409, exit 6
│   └── Refused         a stale fencing token                          409
│       ├── Held        a living process may be at work on it          409
│       └── Resting     the device failed lately: not now              409
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
    kind = "internal-error"
    """Stands in the answers of the server, and stays as it is."""
    exit_code = ExitCode.FAILED


class InvalidInput(DdlpError):
    """The caller's value cannot be used."""

    status = 422
    kind = "invalid-input"
    exit_code = ExitCode.USAGE


class Malformed(InvalidInput):
    """The request cannot be understood, or is meant for somebody else."""

    status = 400
    kind = "malformed-request"


class NotAllowed(InvalidInput):
    """The value lies outside what the operator allowed."""

    status = 403
    kind = "not-allowed"
    exit_code = ExitCode.DENIED


class WrongMethod(InvalidInput):
    """There is something at the address, but it cannot be asked to do that."""

    status = 405
    kind = "wrong-method"


class Unsupported(InvalidInput):
    """The request's form is not taken."""

    status = 415
    kind = "unsupported-media-type"


class TooLarge(InvalidInput):
    """The request is larger than what is taken."""

    status = 413
    kind = "too-large"


class HeadTooLarge(TooLarge):
    """The address and the headers of a request are larger than what is taken."""

    status = 431
    kind = "head-too-large"


class TooSlow(InvalidInput):
    """The request did not arrive in time."""

    status = 408
    kind = "too-slow"


class KeyRefused(InvalidInput):
    """There is no key, or one that is not known or was revoked."""

    status = 401
    kind = "key-refused"
    exit_code = ExitCode.DENIED


class TooMany(KeyRefused):
    """Too many keys that are not known were shown."""

    status = 429
    kind = "too-many-attempts"


class NotFound(DdlpError):
    """There is no such thing."""

    status = 404
    kind = "not-found"
    exit_code = ExitCode.NOT_FOUND


class Conflict(DdlpError):
    """The current state does not allow it."""

    status = 409
    kind = "conflict"
    exit_code = ExitCode.REFUSED


class Refused(Conflict):
    """The fencing token is stale: the work was given to someone else, or is no longer wanted."""

    kind = "stale-token"


class Held(Refused):
    """Another process of the same device has the lease; if it is dead, that can be said."""

    def __init__(self, message: str, process: int) -> None:
        super().__init__(message)
        self.process = process


class Resting(Refused):
    """The device failed lately, and gets no work until it has rested."""

    def __init__(self, message: str, rest_s: float) -> None:
        super().__init__(message)
        self.rest_s = rest_s


class BadSample(DdlpError):
    """One encoded sample cannot be decoded."""

    status = 422
    kind = "bad-sample"


class DamagedBatch(DdlpError):
    """A batch file fails its checks and must be made again."""


class MissingBatch(DamagedBatch):
    """A batch file is not there any more."""


class Unavailable(DdlpError):
    """A service or package that is needed is not there."""

    status = 503
    kind = "unavailable"
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
    kind = "timeout"
    exit_code = ExitCode.TIMEOUT


def is_bug(error: Exception) -> bool:
    """Whether code raised what neither the system nor DDLP does: it will do so again."""
    return not isinstance(error, DdlpError | OSError | MemoryError)


def from_status(status: int, message: str) -> DdlpError:
    """The error that a server reported with this HTTP status."""
    by_status: dict[int, type[DdlpError]] = {
        400: Malformed,
        401: KeyRefused,
        403: NotAllowed,
        404: NotFound,
        405: WrongMethod,
        408: TooSlow,
        409: Conflict,
        413: TooLarge,
        415: Unsupported,
        422: InvalidInput,
        429: TooMany,
        431: HeadTooLarge,
        503: Unavailable,
        504: WaitTimeout,
    }
    return by_status.get(status, DdlpError)(message)
