"""What devices and workers say to the server, and what it gives them to do."""

import uuid
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field

from ddlp.core.energy import EnergyReading, PowerModel
from ddlp.core.messages.base import Bytes, Count, Message, Name, Seconds
from ddlp.core.mishap import Mishap
from ddlp.core.plan import RunPlan
from ddlp.core.schedule.reports import Death, Grant
from ddlp.core.stages import StageTimes
from ddlp.core.types import (
    BadPolicy,
    DeviceHealth,
    DeviceKind,
    Prong,
    Provenance,
)
from ddlp.core.urls import SERVED, check_served


class RoomInfo(Message):
    """How full a store is; null where it has no end, or nobody knows."""

    used_bytes: Bytes | None = None
    free_bytes: Bytes | None = Field(
        None, description="What it would still take, by its quota and by its filesystem."
    )


MOST_RUNS = 65_536
"""Runs that one heartbeat tells of."""

ServedAddress = Annotated[str, Field(max_length=4096, pattern=SERVED), AfterValidator(check_served)]


class DeviceRegister(Message):
    """A device that offers to produce batches."""

    name: Name
    prong: Prong
    kind: DeviceKind
    slots: int = Field(ge=1, le=4096)
    host: str = Field(max_length=255)
    incarnation: uuid.UUID = Field(description="New at every start: tells a restart from a repeat.")
    engine: str = Field(max_length=64)
    store: str = Field(max_length=4096, description="Where it writes: file:///… or s3://…")
    serves: ServedAddress | None = Field(
        None, description="Address at which it serves its store, as http://HOST:PORT."
    )
    store_key: str | None = Field(
        None, max_length=128, description="What tokens for single batches are made from."
    )
    room: RoomInfo = RoomInfo()
    power: PowerModel
    clock_s: float | None = Field(
        None, ge=0, le=1e11, description="Its host's clock when this was sent: seconds since 1970."
    )


class WattsInfo(Message):
    """What something draws now, and how that is known."""

    watts: float | None = Field(ge=0, description="Null where it is not known.")
    provenance: Provenance
    method: str


class DeviceRest(Message):
    """A device fails at the work of a run, and is given none of it for a while."""

    run: str
    failures: int = Field(description="In a row.")
    rest_s: float = Field(description="Seconds until it is tried again.")
    reason: str = Field(description="Why its last attempt failed.")


class DeviceInfo(Message):
    """A registered device."""

    name: str
    prong: Prong
    kind: DeviceKind
    emulated: bool
    slots: int
    host: str
    engine: str
    store: str
    serves: str | None
    room: RoomInfo
    power: PowerModel
    energy: EnergyReading | None = Field(
        None, description="What it has used since its start, as it said last."
    )
    live: bool
    last_seen_at: float
    registered_at: float | None = Field(None, description="When it first registered.")
    clock_ahead_s: float | None = Field(
        None,
        description="Seconds that its host's clock was ahead of the server's when it registered "
        "last, to within the way of the message; negative: behind. Nothing depends on it.",
    )
    drained_at: float | None = Field(
        None, description="Since when it is given no work, because somebody said so."
    )
    health: DeviceHealth = DeviceHealth.LIVE
    health_words: str = Field("", description="The same as a sentence.")
    holds: int | None = Field(None, description="Batches that it is at.")
    dropped_messages: int | None = Field(
        None, description="Unsigned messages that its worker dropped since it was started."
    )
    images_per_s: float | None = Field(
        None, description="What it made over the last seconds; null while it makes nothing."
    )
    images_made: int | None = Field(None, description="For all runs that are kept.")
    busy: float | None = Field(
        None, ge=0, le=1, description="Share of its slots' last seconds spent making batches."
    )
    runs: list[str] = Field([], description="Active runs that it works for, or is counted on by.")
    rests: list[DeviceRest] = Field([], description="Runs at whose work it fails.")
    draws: WattsInfo = Field(
        default_factory=lambda: WattsInfo(
            watts=None, provenance=Provenance.UNAVAILABLE, method="nobody has said"
        ),
        description="What it draws now.",
    )


class Heartbeat(Message):
    """A device's sign of life."""

    incarnation: uuid.UUID
    room: RoomInfo | None = Field(None, description="If it has looked since it last said so.")
    stored: dict[uuid.UUID, Seconds] = Field(
        {},
        max_length=MOST_RUNS,
        description="Runs of which something lies in its store: seconds since that changed.",
    )
    energy: EnergyReading | None = Field(None, description="What it has used since its start.")
    dropped_messages: int = Field(
        0, ge=0, le=2**53, description="Unsigned messages that it dropped since its start."
    )


class QueueKey(Message):
    """The secret with which messages to workers are signed."""

    key: str


class Attempt(Message):
    """An attempt at a batch that counts no more."""

    run: uuid.UUID
    epoch: int
    index: int
    token: int


class Orders(Message):
    """What a device is to do: clear what the server cannot reach out of its store, or rest."""

    over: list[uuid.UUID] = Field([], description="Runs of which nothing is needed any more.")
    discard: list[Attempt] = Field([], description="Attempts that count no more.")
    drained: bool = Field(False, description="Finish what is at hand, and take nothing new.")


class WorkSpec(Message):
    """What a worker must know of a run to make any of its batches."""

    run: uuid.UUID
    index_path: Path
    dataset_version: str
    transforms: list[dict[str, Any]]
    pipeline_hash: str
    plan: RunPlan
    on_bad: BadPolicy = BadPolicy.FAIL
    cure: str = Field("", description="What to do about a file that changed since the scan.")


class Lease(Message):
    """One batch given to one device until a deadline; also the body of a Celery message."""

    run: uuid.UUID
    epoch: Count
    index: Count
    token: int = Field(ge=1, lt=2**63)
    places: tuple[tuple[Bytes, Bytes], ...] = Field(
        (),
        max_length=65_536,
        description="Where its samples lie in the epoch's order, as [first, last + 1).",
    )
    losses: Count = Field(
        0, description="Attempts at this batch of which nothing was heard any more."
    )

    @classmethod
    def of(cls, run: uuid.UUID, grant: Grant) -> Self:
        """What a device must know of a batch that it is to make."""
        return cls(
            run=run,
            epoch=grant.epoch,
            index=grant.index,
            token=grant.token,
            places=grant.places,
            losses=grant.losses,
        )


class Claim(Message):
    """A process of a device starts on the leases of one message, to make them in this order."""

    device: Name
    process: int = Field(ge=1, lt=2**31, description="Its number on its host.")
    leases: list[Lease] = Field(min_length=1, max_length=256)
    dead: int | None = Field(
        None, ge=1, lt=2**31, description="A process of the device that held them, and has died."
    )
    death: Death | None = Field(None, description="How that one died, where somebody saw it.")


class Granted(Message):
    """A lease that a process may start on, as it stands now."""

    lease: Lease
    lasts_s: float = Field(description="After this many seconds it is given to someone else.")


class Denied(Message):
    """A lease, or a report on one, that is not taken: drop it."""

    lease: Lease
    reason: str
    process: int | None = Field(
        None, description="The process of the same device that holds it; it may have died."
    )
    rest_s: float | None = Field(
        None, description="The device failed lately: such work is for others for so long."
    )


class Claimed(Message):
    """What became of a claim."""

    granted: list[Granted]
    denied: list[Denied]


class Commit(Message):
    """A device has finished a lease."""

    lease: Lease
    nbytes: Bytes
    checksum: int = Field(ge=0, lt=2**64)
    seconds: Seconds
    cpu_s: Seconds
    bad: list[Mishap] = Field(
        [], max_length=65_536, description="The samples of it that could not be used."
    )
    times: StageTimes = Field(StageTimes(), description="Where the seconds went.")
    ended_s: Seconds = Field(
        0, description="When it was finished, by a clock of the worker that never steps."
    )


class Failure(Message):
    """A device could not finish a lease."""

    lease: Lease
    reason: str = Field(max_length=2000)
    permanent: bool = Field(False, description="Trying again cannot help.")
    bug: bool = Field(
        False,
        description="Code raised an error that is none of the system's: time will not heal it.",
    )
    no_room: bool = Field(False, description="The device's store is full.")


class Reports(Message):
    """What a device has to say of several leases at once."""

    device: Name
    sent_s: Seconds = Field(
        0, description="When this was sent, by the same clock as the commits' ended_s."
    )
    made: list[Commit] = Field([], max_length=1024)
    failed: list[Failure] = Field([], max_length=1024)


class Reported(Message):
    """What came too late: another attempt won, or the run is over."""

    denied: list[Denied]
