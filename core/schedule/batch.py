"""One batch of an epoch on its way from lease to consumption."""

from __future__ import annotations

from dataclasses import dataclass, field

from ddlp.core.schedule.failures import Failures
from ddlp.core.types import BatchState, Prong


@dataclass
class Rival:
    """A second lease of a batch: whoever commits first wins, the other is fenced off."""

    prong: Prong
    token: int
    leased_at: float
    deadline: float
    device: str | None = None
    process: int = 0


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
    """Attempts that took longer than their lease."""
    kills: int = 0
    """Attempts during which the worker crashed."""
    device: str | None = None
    location: str | None = None
    nbytes: int = 0
    checksum: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    queue_s: float = 0.0
    """From its last lease until somebody began to make it."""
    fetch_s: float = 0.0
    decode_s: float = 0.0
    transform_s: float = 0.0
    write_s: float = 0.0
    fetched_bytes: int = 0
    peak_bytes: int = 0
    samples: int = 0
    """How many it holds, once it is made; fewer than planned where bad ones were left out."""
    bad: int = 0
    """How many of those planned could not be used when it was made last."""
    bad_example: str | None = field(default=None, metadata={"kept": False})
    """One of these, and why."""
    ready_at: float | None = None
    position: int | None = None
    """Its place in the order of delivery, once it was dealt."""
    from_tail: bool = False
    """From which end it was dealt."""
    isolated: bool = False
    """It killed too many workers, and was left out."""
    reason: str | None = None
    deaths: int = field(default=0, metadata={"kept": False})
    """Attempts during which the worker was killed, or died in a way that nobody knows."""
    process: int = field(default=0, metadata={"kept": False})
    """The process of the device that makes it."""
    started_at: float | None = field(default=None, metadata={"kept": False})
    """Since when it is being made; a process makes what it holds one after the other."""
    rival: Rival | None = field(default=None, metadata={"kept": False})
    failed: Failures = field(default_factory=Failures, metadata={"kept": False})
    """Attempts that failed since it was last made."""
    damage: Failures = field(default_factory=Failures, metadata={"kept": False})
    """How often it was made and could not be read, by the device that made it."""

    def rest_s(self, device: str, now: float) -> float:
        """Seconds for which a device does not get it again."""
        return max(self.failed.rest_s(device, now), self.damage.rest_s(device, now))

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens that may commit it."""
        return (self.token,) if self.rival is None else (self.token, self.rival.token)

    @property
    def careful(self) -> bool:
        """Whether it is made with care, each sample in a process of its own."""
        return self.lost > 0

    @property
    def lost(self) -> int:
        """Attempts of which nothing was heard any more."""
        return self.losses + self.kills + self.deaths

    def promote(self) -> None:
        """The second lease takes the place of the first."""
        assert self.rival is not None
        rival, self.rival = self.rival, None
        self.token, self.device, self.process = rival.token, rival.device, rival.process
        self.leased_at, self.deadline = rival.leased_at, rival.deadline
        self.started_at = None
        self.attempt += 1
