"""All that a run's schedule has in its head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ddlp.core.errors import Refused
from ddlp.core.mishap import Mishap
from ddlp.core.plan import RunPlan
from ddlp.core.schedule.batch import Batch
from ddlp.core.schedule.epoch import EpochSchedule
from ddlp.core.schedule.fleet import Fleet
from ddlp.core.schedule.limits import Limits
from ddlp.core.schedule.reports import Changes, Void
from ddlp.core.schedule.strategies import Strategy
from ddlp.core.sessions import Checkpoint, Joined
from ddlp.core.types import End, EpochState, Prong

_REST_S = 0.5
_LONGEST_REST_S = 15.0
NO_DEVICES: Mapping[str, Prong] = {}


@dataclass(frozen=True)
class Rest:
    """A prong whose store is full gets nothing for a while."""

    until: float
    rest_s: float
    reason: str


@dataclass
class ScheduleState:
    """Epochs, devices and tokens of one run, and what changed since it was last written down."""

    plan: RunPlan
    strategy: Strategy
    limits: Limits = field(default_factory=Limits)
    epochs: dict[int, EpochSchedule] = field(default_factory=dict)
    next_token: int = 1
    next_epoch: int = 0
    rank_epoch: list[int] = field(default_factory=list)
    sessions: dict[int, Joined] = field(default_factory=dict)
    """The session of each rank, how it comes to its next epoch, and the checkpoint before it."""
    checkpoint: Checkpoint | None = None
    """The last state that is known to have been taken."""
    _doomed: dict[tuple[int, int], str] = field(default_factory=dict)
    """Batches that cannot be made, with the reason; the run fails when one of them is due."""
    _dirty: dict[tuple[int, int], Batch] = field(default_factory=dict)
    _void: list[Void] = field(default_factory=list)
    _mishaps: dict[tuple[int, int], tuple[Mishap, ...]] = field(default_factory=dict)
    _held: dict[tuple[str, int], list[Batch]] = field(default_factory=dict)
    """What each process of a device has claimed, in the order in which it makes it."""

    def __post_init__(self) -> None:
        self.room = dict(self.limits.stored)
        """Batches of a prong that its store has proved to hold; at most what the limits say."""
        self.resting: dict[Prong, Rest] = {}
        self.drained: list[str] = []
        """Devices that would serve it if they were not told to rest."""
        self.fleet = Fleet(self.plan.batch_size)
        if not self.rank_epoch:
            self.rank_epoch = [0] * self.plan.world_size

    def changes(self) -> Changes:
        """What changed since the last call."""
        epochs = [epoch for epoch in self.epochs.values() if epoch.changed]
        for epoch in epochs:
            epoch.changed = False
        changed = Changes(list(self._dirty.values()), epochs, self._void, self._mishaps)
        self._dirty = {}
        self._void, self._mishaps = [], {}
        over = {n for n, epoch in self.epochs.items() if epoch.state is not EpochState.OPEN}
        for number in over:
            del self.epochs[number]
        self._doomed = {at: why for at, why in self._doomed.items() if at[0] not in over}
        for line in self._held.values() if over else ():
            line[:] = [batch for batch in line if batch.epoch not in over]
        return changed

    def set_devices(
        self, devices: Mapping[str, tuple[Prong, int]], drained: Mapping[str, Prong] = NO_DEVICES
    ) -> None:
        """Which devices serve the run now, with their prong and worker slots.

        Those that are drained finish what they hold, and serve it no further.
        """
        prongs = self.strategy.prongs
        self.fleet.set_devices({name: d for name, d in devices.items() if d[0] in prongs})
        self.drained = sorted(name for name, prong in drained.items() if prong in prongs)

    def find(self, epoch: int, index: int) -> Batch | None:
        """A batch that is under way."""
        schedule = self.epochs.get(epoch)
        return schedule.under_way.get(index) if schedule else None

    def in_hand(self, epoch: int, index: int, token: int) -> Batch:
        """A batch that is being made under a token, as its first lease or as a second one."""
        batch = self.find(epoch, index)
        if batch is None or not batch.state.in_flight or token not in batch.tokens:
            raise Refused(
                f"token {token} for batch {index} of epoch {epoch} is not valid any more; drop it"
            )
        return batch

    def open_epochs(self) -> list[EpochSchedule]:
        """The epochs that are not over, the oldest first."""
        return [epoch for epoch in self.epochs.values() if epoch.state is EpochState.OPEN]

    def wanted(self, epoch: EpochSchedule) -> list[End]:
        """From which end the next batch is dealt: the first of these that has one ready."""
        if epoch.position >= epoch.segment.full:
            return [End.HEAD]  # short batches come last, in their order
        return self.strategy.wanted(epoch, self.fleet.rates())

    def is_doomed(self, batch: Batch) -> bool:
        """Whether a batch cannot be made."""
        return (batch.epoch, batch.index) in self._doomed

    def note_doom(self, batch: Batch, reason: str) -> None:
        """Give a batch up: the run fails once everything before it was delivered."""
        self._doomed.setdefault((batch.epoch, batch.index), reason)

    @property
    def expected_failure(self) -> str | None:
        """Why the run will fail, should training come to it."""
        return next(iter(self._doomed.values()), None)

    @property
    def doom(self) -> str | None:
        """Why the run cannot go on: a batch that cannot be made is due."""
        for (number, index), reason in self._doomed.items():
            epoch = self.epochs.get(number)
            batch = epoch.under_way.get(index) if epoch is not None else None
            if epoch is not None and batch is not None and self._is_due(epoch, batch):
                return reason
        return None

    def _is_due(self, epoch: EpochSchedule, batch: Batch) -> bool:
        """Whether nothing can be delivered to some rank before a batch."""
        ranks = [rank for rank, number in enumerate(self.rank_epoch) if number == epoch.number]
        if batch.state.in_flight or not ranks:
            return False  # another attempt may succeed, or nobody asks for it yet
        if batch.position is not None:
            step, rank = divmod(batch.position - epoch.segment.position, epoch.segment.world_size)
            return rank in ranks and epoch.acknowledged[rank] >= step
        due = [index for end in self.wanted(epoch) if (index := epoch.next(end)) is not None]
        coming = [found for index in due if (found := epoch.under_way.get(index)) is not None]
        blocked = batch.index in due and all(self.is_doomed(found) for found in coming)
        return blocked and all(epoch.acknowledged[r] >= epoch.dealt_to(r) for r in ranks)

    def new_token(self) -> int:
        """A fencing token above all before it."""
        self.next_token += 1
        return self.next_token - 1

    def note(self, batch: Batch) -> None:
        """Remember that a batch changed."""
        self._dirty[batch.epoch, batch.index] = batch

    def rest(self, prong: Prong, stored: int, reason: str, now: float) -> None:
        """A prong's store is full: give it nothing for a while, longer each time."""
        before = self.resting.get(prong)
        rest_s = _REST_S if before is None else min(_LONGEST_REST_S, 2 * before.rest_s)
        self.resting[prong] = Rest(now + rest_s, rest_s, reason)
        self.room[prong] = min(self.room[prong], stored)

    @property
    def held_up(self) -> str | None:
        """Why nothing is made, or less than could be, in words; it goes on by itself."""
        prongs = self.strategy.prongs
        resting = self.fleet.resting(prongs)
        if not self.fleet.alive(prongs) and not resting:
            wanted = " or ".join(prongs)
            if self.drained:
                are = "is" if len(self.drained) == 1 else "are"
                return (
                    f"no device works for {wanted}: {', '.join(self.drained)} {are} drained; "
                    f"give it work again with: ddlp device resume {self.drained[0]}"
                )
            start = f"ddlp worker --prong {prongs[0]}"
            return f"no live device serves {wanted}; start one with: {start}"
        told = [f"{prong} rests: {rest.reason}" for prong, rest in self.resting.items()]
        told += [f"device {name} fails and rests: {m.reason}" for name, m in resting.items()]
        return "; ".join(told) or None

    @property
    def stands_still(self) -> bool:
        """Whether nothing is made for now, of whatever device."""
        return bool(self.resting) or not self.fleet.alive(self.strategy.prongs)

    def set_stored(self, stored: Mapping[Prong, int]) -> None:
        """Hold the run to other windows from now on; what is under way is let finish.

        A store that has proved to hold less than it may goes on from what it has proved.
        """
        before = self.limits.stored
        self.limits = replace(self.limits, stored=dict(stored))
        for prong, most in stored.items():
            proved = self.room[prong] < before[prong]
            self.room[prong] = min(most, self.room[prong]) if proved else most

    def found_room(self, prong: Prong) -> None:
        """A batch of a prong was stored: it may store more again."""
        if prong in self.resting:
            del self.resting[prong]
        self.room[prong] = min(self.limits.stored[prong], self.room[prong] + 1)

    def keep_void(self, void: list[Void]) -> None:
        """Remember attempts again that nobody has cleared away yet."""
        self._void = [*void, *self._void]

    def note_void(self, batch: Batch, device: str | None, token: int) -> None:
        """Remember that an attempt counts no more."""
        if device is not None:
            self._void.append(Void(device, batch.epoch, batch.index, token))
