"""A simulated server: the real schedule, driven as the dispatcher drives it, on records in memory.

What is asked is applied, time passes, all of it is written at once, and only then are messages sent
and answers given. A crash throws the schedule away; the next one is built from the records.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ddlp.core.errors import DdlpError, Held, Refused, Resting, Unavailable
from ddlp.core.schedule import (
    Batch,
    Death,
    EpochSchedule,
    Failed,
    Grant,
    Holder,
    Made,
    Pace,
    RunSchedule,
)
from ddlp.core.schedule.strategies import Strategy
from ddlp.core.types import EpochState, Prong
from tests.core.schedule.checks import Checks
from tests.core.schedule.records import Records
from tests.core.schedule.scenario import Scenario

DEVICE_TIMEOUT_S = 10.0
T = TypeVar("T")


@dataclass
class KnownDevice:
    """A device as the server knows it."""

    prong: Prong
    slots: int
    incarnation: int
    seen_at: float
    gone: bool = False


@dataclass
class Claimed:
    """The answer to a claim: leases with their deadlines, and those held by another process."""

    granted: list[tuple[Grant, float]] = field(default_factory=list)
    held: list[tuple[Grant, int]] = field(default_factory=list)
    rests: bool = False


@dataclass(frozen=True)
class Fed:
    """The answer to a rank: copies of its batches, and whether that was all."""

    batches: list[Batch]
    done: bool


@dataclass(frozen=True)
class Where:
    """Where a rank goes on."""

    epoch: int
    step: int
    position: int
    """Batches delivered before the segment that the step is counted in."""


class Service:
    """Everything that is asked of a server, as one transaction each."""

    def __init__(
        self,
        scenario: Scenario,
        broken: type[RunSchedule],
        fault: Callable[[str], bool],
        send: Callable[[Prong, list[Grant]], None],
        discard: Callable[[int, int, int], None],
    ) -> None:
        self.scenario = scenario
        self.strategy: Strategy = scenario.strategy
        self.stored: Mapping[Prong, int] = scenario.limits.stored
        self.records = Records(scenario.plan.world_size)
        self.checks = Checks(scenario)
        self.devices: dict[str, KnownDevice] = {}
        self._schedule_class = broken
        self._fault, self._send, self._discard = fault, send, discard
        self.restart()

    def restart(self) -> None:
        """Build the schedule from nothing but the records."""
        plan = replace(self.scenario.plan, world_size=self.records.world_size)
        self.schedule = self._schedule_class(
            plan=plan,
            strategy=self.strategy,
            limits=replace(self.scenario.limits, stored=dict(self.stored)),
            epochs=self.records.open_epochs(),
            next_token=self.records.tokens,
            next_epoch=max(self.records.epochs, default=-1) + 1,
        )
        for device, (prong, pace) in self.records.paces.items():
            self.schedule.fleet.recall(device, prong, replace(pace))
        oldest = min(self.schedule.epochs, default=self.schedule.next_epoch)
        self.schedule.rank_epoch = [min(oldest, plan.epochs - 1)] * plan.world_size
        for device in self.devices.values():
            device.gone = False
        self.checks.forget_rests()

    @property
    def over(self) -> bool:
        """Whether the run has ended, as it is written down."""
        if self.records.failed is not None:
            return True
        states = [row.state for row in self.records.epochs.values()]
        closed = all(state is not EpochState.OPEN for state in states)
        return closed and len(states) >= self.scenario.plan.epochs

    def call(self, now: float, action: Callable[[], T]) -> T:
        """Do what was asked; raises `Unavailable` where the server died over it."""
        if self.over:
            raise Refused("the run is over")
        before = self.records.copy()
        error: DdlpError | None = None
        try:
            result = action()
        except DdlpError as refusal:
            error = refusal
        grants = self._advance(now)
        if self._fault("server_crashed"):
            self.records = before
            self.checks.crashed()
            self.restart()
            raise Unavailable("the server died before it wrote that down")
        self._save(grants)
        if self._fault("answer_lost"):
            self.restart()
            raise Unavailable("the server died after it wrote that down")
        for prong in Prong:
            self._send(prong, [grant for grant in grants if grant.prong is prong])
        if error is not None:
            raise error
        return result

    def _advance(self, now: float) -> list[Grant]:
        for name, device in self.devices.items():
            silent = now - device.seen_at > DEVICE_TIMEOUT_S
            if silent and not device.gone:
                self._lose(name, device.prong)
            device.gone = silent
        live = {n: (d.prong, d.slots) for n, d in self.devices.items() if not d.gone}
        self.schedule.set_devices(live)
        self.schedule.expire(now)
        self.checks.before_top_up(self.schedule)
        grants = self.schedule.top_up(now)
        self.checks.after_top_up(self.schedule, grants)
        return grants

    def _save(self, grants: list[Grant]) -> None:
        schedule = self.schedule
        self.checks.counts(schedule)
        self.records.failed = schedule.doom
        changes = schedule.changes()
        self.records.save(changes, schedule.next_token)
        self.checks.saved(changes, grants)
        for name, member in schedule.fleet.members.items():
            if member.pace.batches >= schedule.limits.calibration_batches:
                self.records.paces[name] = member.prong, Pace(**vars(member.pace))
        for void in changes.void:
            self._discard(void.epoch, void.index, void.token)

    # Devices

    def heard_of(self, name: str, prong: Prong, slots: int, incarnation: int, now: float) -> None:
        """A sign of life; a device that was started anew has lost what it held."""
        known = self.devices.get(name)
        if known is not None and known.incarnation != incarnation:
            self._lose(name, known.prong)
        self.devices[name] = KnownDevice(prong, slots, incarnation, now)

    def _lose(self, name: str, prong: Prong) -> None:
        self.checks.forget_rests(name)
        self.schedule.device_gone(name, prong)

    def claim(
        self, holder: Holder, grants: list[Grant], dead: tuple[int, Death] | None, now: float
    ) -> Claimed:
        """A process starts on the leases of a message; another one may have died with them."""
        if dead is not None:
            process, death = dead
            self.schedule.process_died(Holder(holder.device, process), death)
        claimed = Claimed()
        for grant in grants:
            try:
                key = grant.epoch, grant.index, grant.token
                deadline = self.schedule.claim(*key, holder, now)
                claimed.granted.append((grant, deadline))
                self.checks.claimed(grant, holder.device, now)
            except Held as error:
                claimed.held.append((grant, error.process))
            except Resting:
                claimed.rests = True
            except Refused:
                continue
        return claimed

    def commit(self, grant: Grant, made: Made, now: float) -> None:
        """A batch is made."""
        found = self.schedule.find(grant.epoch, grant.index)
        before = None if found is None else replace(found)
        news = self.schedule.commit(grant.epoch, grant.index, grant.token, made, now)
        self.checks.made(grant, made.device, now)
        self.checks.committed(grant, before, news)

    def fail(self, grant: Grant, device: str, now: float) -> None:
        """A batch could not be made."""
        key = grant.epoch, grant.index, grant.token
        self.schedule.fail(*key, Failed("an error of the moment", device=device), now)
        known = device in self.schedule.fleet.members
        self.checks.failed(grant, device, known, now)

    def no_room(self, grant: Grant, now: float) -> None:
        """A store was full."""
        key = grant.epoch, grant.index, grant.token
        self.schedule.no_room(*key, "the store is full", now)

    # Ranks

    def attach(self, rank: int) -> Where:
        """Where a rank goes on."""
        schedule = self.schedule
        for number in sorted(schedule.epochs):
            epoch = schedule.epochs[number]
            if epoch.acknowledged[rank] < epoch.segment.rounds:
                return Where(number, epoch.acknowledged[rank], epoch.segment.position)
        return Where(schedule.next_epoch, 0, 0)

    def feed(self, rank: int, epoch: int, consumed: int, received: int, want: int) -> Fed:
        """Take acknowledgements; give what is ready."""
        self.schedule.consume(rank, epoch, consumed)
        batches = self.schedule.fetch(rank, epoch, received, want) if want else []
        done = self.schedule.rank_done(rank, epoch, received + len(batches))
        return Fed([replace(batch) for batch in batches], done)

    def damaged(self, batch: Batch, gone: bool, now: float) -> None:
        """A rank could not read a batch."""
        key = batch.epoch, batch.index, batch.token
        self.schedule.damaged(*key, Failed("unreadable", gone=gone), now)
        if not gone:
            self.checks.damaged(batch, now)

    def switch(self, strategy: Strategy) -> None:
        """Go on with another strategy."""
        self.strategy = strategy
        self.schedule.switch(strategy)

    def limit(self, stored: Mapping[Prong, int]) -> None:
        """Go on with other windows."""
        self.stored = stored
        self.schedule.set_stored(stored)

    def rewind(self, rank: int, epoch: int, position: int, world_size: int) -> Where:
        """A rank goes back to a place it has passed, in a world of the same size or another."""
        schedule = self.schedule
        self.records.save(schedule.changes(), schedule.next_token)
        known = {
            number: schedule.epochs.get(number) or self.records.load(number)
            for number in range(epoch, schedule.next_epoch)
        }
        first = known.get(epoch)
        if first is None:
            return Where(epoch, 0, 0)
        later = [each for number, each in known.items() if number > epoch]
        same = schedule.plan.world_size == world_size == first.segment.world_size
        if same and position >= first.segment.position and not any(e.segments[1:] for e in later):
            self._go_back(rank, epoch, position, known)
        else:
            self._cut_anew(epoch, position, world_size, known)
        segment = schedule.epochs[epoch].segment
        step = (position - segment.position) // segment.world_size
        return Where(epoch, step, segment.position)

    def _go_back(
        self, rank: int, epoch: int, position: int, known: dict[int, EpochSchedule]
    ) -> None:
        segment = known[epoch].segment
        step = (position - segment.position) // segment.world_size
        for number, each in known.items():
            self.schedule.epochs[number] = each
            wanted = step if number == epoch else 0
            again = [
                batch
                for batch in self.records.dealt_from(number, each.place(rank, wanted))
                if batch.position is not None
                and (batch.position - each.segment.position) % each.segment.world_size == rank
                and each.is_consumed(batch.position)
            ]
            self.schedule.go_back(rank, number, wanted, again)
            for batch in again:
                self.schedule.note(batch)
        self.schedule.epochs = dict(sorted(self.schedule.epochs.items()))

    def _cut_anew(
        self, number: int, position: int, world_size: int, known: dict[int, EpochSchedule]
    ) -> None:
        schedule, epoch = self.schedule, known[number]
        for later in known.values():
            for batch in later.under_way:
                schedule.note_void(batch, batch.device, batch.token)
        epoch.uncut(position)
        heads = self.records.heads_before(number, epoch.segment, position)
        tails = position - epoch.segment.position - heads
        self.records.forget_from(number, position)
        if position == 0:
            schedule.plan = replace(schedule.plan, world_size=world_size)
            schedule.resume(EpochSchedule.fresh(number, schedule.plan.whole))
        else:
            schedule.cut_anew(epoch, heads, tails, world_size)
            self.records.recount(epoch)
        self.records.world_size = world_size
        self.checks.cut(number, position)
