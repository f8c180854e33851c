"""One batch of an epoch on its way from lease to consumption."""

from dataclasses import dataclass

from ddlp.core.types import BatchState, Prong


@dataclass
class Batch:
    """What is known of a batch from its first lease on; consumed ones leave the memory."""

    epoch: int
    index: int
    prong: Prong
    token: int
    leased_at: float
    deadline: float
    state: BatchState = BatchState.QUEUED
    attempt: int = 1
    failures: int = 0
    """Attempts that ended with an error."""
    losses: int = 0
    """Attempts of which nothing was heard any more."""
    device: str | None = None
    location: str | None = None
    nbytes: int = 0
    checksum: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    samples: int = 0
    """How many it holds, once it is made; fewer than planned where bad ones were left out."""
    bad: int = 0
    """How many of those planned could not be used when it was made last."""
    ready_at: float | None = None
    rank: int | None = None
    step: int | None = None
    consumed_at: float | None = None
    reason: str | None = None
