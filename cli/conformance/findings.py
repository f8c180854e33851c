"""What a check found: it passed, it failed, or it could not be made; and a sentence on it."""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How a check ended; only one of these is a pass."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class Finding:
    """One check of a device."""

    check: str
    outcome: Outcome
    found: str
    """What was seen, and what to do where it was not well."""


def passed(check: str, found: str) -> Finding:
    """The device keeps this part of the contract."""
    return Finding(check, Outcome.PASSED, found)


def failed(check: str, found: str) -> Finding:
    """The device breaks this part of the contract."""
    return Finding(check, Outcome.FAILED, found)


def not_checked(check: str, why: str) -> Finding:
    """Nobody knows; that is no pass."""
    return Finding(check, Outcome.NOT_CHECKED, why)
