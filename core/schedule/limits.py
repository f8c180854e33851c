"""The bounds a run is held to: windows, deadlines, attempts and bad samples."""

import math
from dataclasses import dataclass, field
from fractions import Fraction

from ddlp.core.types import BadPolicy, Prong

_USUAL_SHARE = 0.001
_USUAL_FEW = 10
_LARGEST_SHARE = 0.1


@dataclass(frozen=True)
class Limits:
    """Every number that bounds what a run may have under way."""

    queue_per_slot: int = 2
    """Messages in a prong's queue, or worked on, for each worker slot that serves it."""
    message_s: float = 0.6
    """How much work one message carries; at least one batch."""
    message_leases: int = 32
    """How many leases one message carries at the most."""
    stored: dict[Prong, int] = field(default_factory=lambda: {Prong.CPU: 16, Prong.CSD: 64})
    """Batches of a prong that may be under way or lie in its store, not yet dealt."""
    queued_s: float = 5.0
    """How long a lease may wait for a worker to claim it, beyond what is queued before it."""
    unknown_s: float = 60.0
    """What a batch may take on a device that has not made one yet."""
    lease_floor_s: float = 10.0
    """A claimed lease lasts at least this long."""
    lease_factor: float = 10.0
    """A claimed lease lasts this many times what its device needs for a batch."""
    lease_growth: int = 8
    """An attempt after one that was late lasts twice as long, up to this many times."""
    failures: int = 3
    """Errors at one batch before the run is given up, and then only if they went on for long."""
    failing_s: float = 10.0
    """How long a batch must fail on several devices that make others meanwhile."""
    all_failing_s: float = 60.0
    """How long it must fail where no device is known to work."""
    kills: int = 3
    """Workers that one batch may crash before it is isolated."""
    losses: int = 12
    """Attempts at one batch that may outlast their lease before the run is given up."""
    calibration_batches: int = 10
    """Batches a device makes before `mte` and `bounded` fix what they fix."""
    overdue_factor: float = 3.0
    """A batch that a rank waits for is raced when it has taken this many times what it should."""
    overdue_floor_s: float = 1.0
    """It is not raced before it has taken this long."""
    sample_s: float = 30.0
    """What one sample may take: added to the lease of a batch that is made with care."""
    on_bad: BadPolicy = BadPolicy.FAIL
    """Whether a batch that kills its workers ends the run, or is left out."""
    bad_share: float = 0.01
    """Share of an epoch's samples that may be bad before the run is given up."""

    def bad_allowed(self, samples: int) -> int:
        """How many of an epoch's samples may be bad."""
        return bad_allowed(self.bad_share, samples)


def bad_allowed(share: float, samples: int) -> int:
    """How many of so many samples may be bad.

    The share is of the whole epoch, so that the order in which batches are made does not decide
    whether a run fails; a single bad sample only does where the share is 0.
    """
    if share <= 0:
        return 0
    exact = Fraction(str(share))  # as it was written: as a float, 0.29 of 100 is 28
    return max(1, math.floor(exact * samples))


def usual_bad_share(samples: int) -> float:
    """The share that may be bad by default: one in a thousand, or ten samples if that is more.

    Of a small dataset ten would be a large part: there it is a tenth at the most.
    """
    if samples < 1:
        return _USUAL_SHARE
    few = math.ceil(Fraction(_USUAL_FEW, samples) * 10**6) / 10**6
    return max(_USUAL_SHARE, min(few, _LARGEST_SHARE))
