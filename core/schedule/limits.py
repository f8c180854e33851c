"""The bounds a run is held to: windows, deadlines, attempts and bad samples."""

import math
from dataclasses import dataclass, field
from fractions import Fraction

from ddlp.core.types import Prong


@dataclass(frozen=True)
class Limits:
    """Every number that bounds what a run may have under way."""

    queue_per_slot: int = 2
    """Leases in a prong's queue for each worker slot that serves it."""
    stored: dict[Prong, int] = field(default_factory=lambda: {Prong.CPU: 16, Prong.CSD: 64})
    """Batches of a prong that may be under way or lie in its store, unconsumed."""
    queued_s: float = 5.0
    """How long a lease may wait for a worker to claim it, beyond what is queued before it."""
    unknown_s: float = 60.0
    """What a batch may take on a prong that has not made one yet."""
    lease_floor_s: float = 10.0
    """A claimed lease lasts at least this long."""
    lease_factor: float = 10.0
    """A claimed lease lasts this many times what its prong needs for a batch."""
    failures: int = 3
    """Errors at one batch before the run is given up."""
    losses: int = 12
    """Attempts at one batch that may be lost (late, or with their worker) before that."""
    calibration_batches: int = 10
    """Batches a prong makes before `mte` fixes its split."""
    sample_s: float = 30.0
    """What one sample may take: added to the lease of a batch that is made with care."""
    bad_share: float = 0.01
    """Share of an epoch's samples that may be bad before the run is given up."""

    def bad_allowed(self, samples: int) -> int:
        """How many of an epoch's samples may be bad.

        The share is of the whole epoch, so that the order in which batches are made does not decide
        whether a run fails; a single bad sample only does where the share is 0.
        """
        if self.bad_share <= 0:
            return 0
        share = Fraction(str(self.bad_share))  # as it was written: as a float, 0.29 of 100 is 28
        return max(1, math.floor(share * samples))
