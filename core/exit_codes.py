"""With which status a command ends, so that scripts can tell why."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Status of a command; docs/cli.md has this table."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    TIMEOUT = 4
    NOT_FOUND = 5
    REFUSED = 6
    DENIED = 7
    FAILED_CHECK = 8
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        """In words."""
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.OK: "It was done.",
    ExitCode.FAILED: "It failed for another reason, or you said no when asked.",
    ExitCode.USAGE: "The command or a value in it cannot be used.",
    ExitCode.UNREACHABLE: "The server, a service, a package or room in a store is not there.",
    ExitCode.TIMEOUT: "A wait ran into its deadline.",
    ExitCode.NOT_FOUND: "There is no such run, dataset, pipeline, device, epoch or process.",
    ExitCode.REFUSED: "The state does not allow it: a name is taken, a run is under way or over.",
    ExitCode.DENIED: "A key is missing or not good for it, or a place was not allowed.",
    ExitCode.FAILED_CHECK: "A check failed: `verify`, `run watch`, `csd conformance`.",
    ExitCode.INTERRUPTED: "Ctrl-C ended it.",
}
