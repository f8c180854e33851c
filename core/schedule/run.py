"""The schedule of a run: leases out, reports in, batches to ranks, epochs opened and closed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ddlp.core.errors import Conflict, InvalidInput, Refused
from ddlp.core.mishap import Mishap
from ddlp.core.plan import RunPlan
from ddlp.core.schedule.batch import Batch
from ddlp.core.schedule.epoch import EpochSchedule
from ddlp.core.schedule.limits import Limits
from ddlp.core.schedule.rates import Rate
from ddlp.core.schedule.reports import Changes, Made, Void
from ddlp.core.schedule.strategies import Strategy
from ddlp.core.types import BatchState, EpochState, Prong

_MADE = (BatchState.READY, BatchState.HANDED)


@dataclass
class RunSchedule:
    """The state machine of one run."""

    plan: RunPlan
    strategy: Strategy
    limits: Limits = field(default_factory=Limits)
    epochs: dict[int, EpochSchedule] = field(default_factory=dict)
    next_token: int = 1
    next_epoch: int = 0
    rank_epoch: list[int] = field(default_factory=list)
    slots: Counter[Prong] = field(default_factory=Counter)
    rates: dict[Prong, Rate] = field(default_factory=lambda: {p: Rate() for p in Prong})
    doom: str | None = None
    """Why the run cannot go on: a batch whose attempts are used up, or too many bad samples."""
    _dirty: dict[tuple[int, int], Batch] = field(default_factory=dict)
    _void: list[Void] = field(default_factory=list)
    _mishaps: dict[tuple[int, int], tuple[Mishap, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.rank_epoch:
            self.rank_epoch = [0] * self.plan.world_size

    # What the outside asks

    def changes(self) -> Changes:
        """What changed since the last call."""
        epochs = [epoch for epoch in self.epochs.values() if epoch.changed]
        for epoch in epochs:
            epoch.changed = False
        changed = Changes(list(self._dirty.values()), epochs, self._void, self._mishaps)
        self._dirty.clear()
        self._void, self._mishaps = [], {}
        self.epochs = {n: e for n, e in self.epochs.items() if e.state is EpochState.OPEN}
        return changed

    @property
    def finished(self) -> bool:
        """Whether every epoch was consumed or abandoned."""
        closed = all(e.state is not EpochState.OPEN for e in self.epochs.values())
        return self.next_epoch >= self.plan.epochs and closed

    def rates_per_s(self) -> dict[Prong, float | None]:
        """Batches a second by prong, None while unknown."""
        return {prong: self.rates[prong].per_second(self.slots[prong]) for prong in Prong}

    # Devices

    def set_slots(self, slots: Mapping[Prong, int]) -> None:
        """How many worker slots serve each prong now; a prong without any is dead."""
        self.slots = Counter(
            {prong: n for prong, n in slots.items() if prong in self.strategy.prongs}
        )

    # Work

    def top_up(self, now: float) -> list[Batch]:
        """Lease what the windows have room for: to be queued for the prongs' workers."""
        leased: list[Batch] = []
        for prong in self.strategy.prongs:
            in_flight = sum(epoch.in_flight(prong) for epoch in self.epochs.values())
            stored = sum(epoch.stored(prong) for epoch in self.epochs.values())
            queue = self.limits.queue_per_slot * self.slots[prong] - in_flight
            store = self.limits.stored[prong] - stored
            while queue > 0 and (batch := self._lease_next(prong, now, store > 0)) is not None:
                leased.append(batch)
                queue -= 1
                store -= 1
        return leased

    def _lease_next(self, prong: Prong, now: float, room: bool) -> Batch | None:
        """The next lease; where the store has no room, only of what must come before it empties."""
        for epoch in self._open_epochs():
            among = None if room else self._urgent(epoch)
            index = epoch.frontier.take_returned(among)
            if index is None:
                self._settle(epoch)
                index = self._take(epoch, prong, among)
            if index is not None:
                return self._lease(epoch, index, prong, now)
        if room and self._open_epoch():
            return self._lease_next(prong, now, room)
        return None

    def _open_epochs(self) -> list[EpochSchedule]:
        return [epoch for epoch in self.epochs.values() if epoch.state is EpochState.OPEN]

    def _open_epoch(self) -> bool:
        """Open the next epoch early, when all of the last one is given out."""
        if self.next_epoch >= self.plan.epochs or self.next_epoch > min(self.rank_epoch) + 1:
            return False
        if any(not epoch.frontier.met for epoch in self._open_epochs()):
            return False
        number = self.next_epoch
        self.epochs[number] = EpochSchedule.fresh(number, self.plan.batches, self.plan.world_size)
        self.next_epoch += 1
        return True

    def _settle(self, epoch: EpochSchedule) -> None:
        needed = min(self.limits.calibration_batches, max(1, self.plan.batches // 4))
        calibrated = all(self.rates[p].batches >= needed for p in self.strategy.prongs)
        self.strategy.settle(epoch, self.rates_per_s(), calibrated)

    def _take(self, epoch: EpochSchedule, prong: Prong, among: set[int] | None) -> int | None:
        alive = {p for p in self.strategy.prongs if self.slots[p]}
        return epoch.take(self.strategy.sources(epoch, prong, alive), among)

    def _urgent(self, epoch: EpochSchedule) -> set[int]:
        """What ranks cannot do without: what is due to them, and lost ones that hold a step."""
        here = [rank for rank, number in enumerate(self.rank_epoch) if number == epoch.number]
        due = {self.strategy.due(epoch, rank) for rank in here}
        return epoch.lost_steps() | {index for index in due if index is not None}

    def _lease(self, epoch: EpochSchedule, index: int, prong: Prong, now: float) -> Batch:
        deadline = now + self.limits.queued_s + self._patience_s(prong)
        batch = epoch.under_way.get(index)
        if batch is None:
            batch = Batch(epoch.number, index, prong, self.next_token, now, deadline)
            epoch.under_way.put(batch)
        else:
            batch.token, batch.device = self.next_token, None
            batch.leased_at, batch.deadline = now, deadline
            batch.attempt += 1
            epoch.under_way.move(batch, BatchState.QUEUED, prong)
        self.next_token += 1
        epoch.changed = True
        self._note(batch)
        return batch

    def _patience_s(self, prong: Prong) -> float:
        """Many times what a batch of this prong takes."""
        rate = self.rates[prong]
        return self.limits.lease_factor * rate.seconds if rate.batches else self.limits.unknown_s

    # Reports of workers

    def claim(self, epoch: int, index: int, token: int, device: str, now: float) -> Batch:
        """A device starts on a lease; a redelivered message may claim again for the same device."""
        batch = self._held(epoch, index, token)
        if batch.state is BatchState.LEASED and batch.device != device:
            raise Refused(f"batch {index} of epoch {epoch} is being made by {batch.device}")
        if batch.state is BatchState.LEASED:
            self._count_loss(batch, f"a worker of {device} died while making it")
        self.epochs[epoch].under_way.move(batch, BatchState.LEASED)
        batch.device = device
        # Each attempt gets twice the time of the one before: a slow device is let finish at last.
        care_s = self.limits.sample_s if batch.losses else 0.0
        patience_s = (self._patience_s(batch.prong) + care_s) * 2 ** min(batch.losses, 10)
        batch.deadline = now + max(self.limits.lease_floor_s, patience_s)
        self._note(batch)
        return batch

    def commit(self, epoch: int, index: int, token: int, made: Made, now: float) -> bool:
        """A batch is finished, and can be handed out. Saying so again is harmless, and no news."""
        known = self.find(epoch, index)
        if known and known.token == token and known.state in _MADE:
            return False
        batch = self._held(epoch, index, token)
        self._note_bad(batch, made)
        # A batch that is made again for a rank that holds its place goes straight to that rank.
        state = BatchState.READY if batch.rank is None else BatchState.HANDED
        self.epochs[epoch].under_way.move(batch, state)
        batch.ready_at = now
        batch.location, batch.nbytes, batch.checksum = made.location, made.nbytes, made.checksum
        batch.seconds, batch.cpu_s = made.seconds, made.cpu_s
        batch.reason = None
        self.learn(batch.prong, made.seconds)
        self.epochs[epoch].count_made(batch)
        self._note(batch)
        return True

    def _note_bad(self, batch: Batch, made: Made) -> None:
        """Remember the bad samples of a batch; too many of them in an epoch end the run."""
        planned = self.plan.batch_length(batch.index)
        if len(made.bad) > planned or made.left_out == planned:
            raise InvalidInput(f"{len(made.bad)} of {planned} samples are bad; nothing is left")
        named = {mishap.sample for mishap in made.bad}
        if named and (
            len(named) < len(made.bad)
            or not named <= set(self.plan.batch_samples(batch.epoch, batch.index).tolist())
        ):
            raise InvalidInput("a bad sample is named twice, or is none of its batch")
        if made.bad or batch.bad:
            self._mishaps[batch.epoch, batch.index] = made.bad
        batch.samples, batch.bad = planned - made.left_out, len(made.bad)
        found = self.epochs[batch.epoch].bad + batch.bad
        if batch.bad and found > self.limits.bad_allowed(self.plan.samples):
            self.doom = (
                f"{found} of the {self.plan.samples} samples of epoch {batch.epoch} are bad, more "
                f"than max_bad_share={self.limits.bad_share:g} allows; the last is "
                f"{made.bad[-1].name}: {made.bad[-1].reason}"
            )

    def learn(self, prong: Prong, seconds: float) -> None:
        """Take note of how long a batch took; also of one that came too late to be taken."""
        self.rates[prong].add(seconds)

    def fail(
        self, epoch: int, index: int, token: int, reason: str, permanent: bool = False
    ) -> None:
        """A worker could not make a batch; where trying again cannot help, that ends the run."""
        batch = self._held(epoch, index, token)
        self._count_failure(batch, reason)
        self._give_back(batch, reason)
        if permanent:
            self._poison(batch)

    def no_room(self, epoch: int, index: int, token: int, reason: str) -> None:
        """A store is full: the batch is given back, and the prong stores less from then on."""
        batch = self._held(epoch, index, token)
        self._count_loss(batch, reason)
        self._give_back(batch, reason)
        stored = sum(schedule.stored(batch.prong) for schedule in self.epochs.values())
        self.limits.stored[batch.prong] = max(1, min(stored, self.limits.stored[batch.prong]))

    def damaged(self, epoch: int, index: int, token: int, reason: str, gone: bool = False) -> None:
        """A reader found a handed batch damaged or gone: it is made again for the same step."""
        batch = self.find(epoch, index)
        if batch is None or batch.token != token or batch.state is not BatchState.HANDED:
            raise Refused(f"batch {index} of epoch {epoch} was not handed out with token {token}")
        self.epochs[epoch].count_made(batch, -1)
        # One that is gone was read by a trainer that did not live to use it: nobody's fault.
        if not gone:
            self._count_failure(batch, reason)
        self._give_back(batch, reason)

    def expire(self, now: float) -> list[Batch]:
        """Take back the leases whose deadline has passed."""
        lost = [
            batch
            for epoch in self.epochs.values()
            for batch in epoch.under_way.in_flight()
            if batch.deadline <= now
        ]
        for batch in lost:
            holder = batch.device or "nobody (its message was not picked up)"
            self._lose(batch, f"the lease ran out; it was held by {holder}")
        return lost

    def device_gone(self, device: str, prong: Prong) -> list[Batch]:
        """Take back what a dead device held, and what its queue may have lost with it."""
        lost = [
            batch
            for epoch in self.epochs.values()
            for batch in epoch.under_way.in_flight()
            if (batch.state is BatchState.LEASED and batch.device == device)
            or (batch.state is BatchState.QUEUED and batch.prong is prong)
        ]
        for batch in lost:
            self._lose(batch, f"{device} died")
        return lost

    def find(self, epoch: int, index: int) -> Batch | None:
        """A batch that is under way."""
        schedule = self.epochs.get(epoch)
        return schedule.under_way.get(index) if schedule else None

    def _held(self, epoch: int, index: int, token: int) -> Batch:
        batch = self.find(epoch, index)
        if batch is None or batch.token != token or not batch.state.in_flight:
            raise Refused(
                f"token {token} for batch {index} of epoch {epoch} is not valid any more; drop it"
            )
        return batch

    def _lose(self, batch: Batch, reason: str) -> None:
        if batch.state is BatchState.LEASED:
            self._count_loss(batch, reason)
        self._give_back(batch, reason)

    def _give_back(self, batch: Batch, reason: str) -> None:
        batch.reason = reason
        epoch = self.epochs[batch.epoch]
        if batch.device is not None:
            self._void.append(Void(batch.device, batch.epoch, batch.index, batch.token))
        epoch.under_way.move(batch, BatchState.LOST)
        epoch.frontier.returned.add(batch.index)
        epoch.changed = True
        self._note(batch)

    def _count_failure(self, batch: Batch, reason: str) -> None:
        batch.failures += 1
        batch.reason = reason
        if batch.failures >= self.limits.failures:
            self._poison(batch)

    def _count_loss(self, batch: Batch, reason: str) -> None:
        batch.losses += 1
        batch.reason = reason
        if batch.losses >= self.limits.losses:
            self._poison(batch)

    def _poison(self, batch: Batch) -> None:
        self.doom = f"batch {batch.index} of epoch {batch.epoch}: {batch.reason}"

    # Ranks

    def fetch(self, rank: int, epoch: int, received: int, want: int) -> list[Batch]:
        """Up to `want` batches for a rank that has received so many of this epoch.

        Asking again with the same `received` gives the same again: a lost answer costs nothing.
        """
        schedule = self._enter(rank, epoch)
        if schedule is None:
            return []
        if received > schedule.received[rank]:
            raise Conflict(
                f"rank {rank} says it received {received} batches of epoch {epoch}, "
                f"but was given {schedule.received[rank]}; attach it again"
            )
        batches = schedule.handed_from(rank, received)[:want]
        if received + len(batches) < schedule.received[rank]:
            return batches
        rates = self.rates_per_s()
        while len(batches) < want and schedule.received[rank] < self.plan.rank_batches(rank):
            self._settle(schedule)
            index = self.strategy.pick(schedule, rank, rates)
            if index is None:
                break
            batch = schedule.under_way[index]
            schedule.hand(batch, rank)
            self._note(batch)
            batches.append(batch)
        return batches

    def consume(self, rank: int, epoch: int, steps: int, now: float) -> list[Batch]:
        """A rank has consumed its first `steps` batches of an epoch; returns the newly consumed."""
        self._check_rank(rank)
        schedule = self.epochs.get(epoch)
        if schedule is None or steps <= schedule.acknowledged[rank]:
            return []
        first = schedule.acknowledged[rank]
        done = schedule.handed_from(rank, first)[: steps - first]
        for batch in done:
            schedule.consume(batch, rank, now)
            self._note(batch)
        return done

    def rewind(self, rank: int, epoch: int, again: list[Batch]) -> None:
        """A rank goes back: what it consumed since is made again, for the same steps."""
        schedule = self.epochs[epoch]
        for batch in again:
            schedule.take_back(batch, rank)
            self._note(batch)
        schedule.state, schedule.changed = EpochState.OPEN, True
        self.rank_epoch[rank] = min(self.rank_epoch[rank], epoch)

    def resume(self, epoch: EpochSchedule) -> None:
        """Begin with an epoch that is partly consumed."""
        self.epochs = {epoch.number: epoch}
        self.next_epoch = epoch.number + 1
        self.rank_epoch = [epoch.number]

    def rank_done(self, rank: int, epoch: int, received: int) -> bool:
        """Whether a rank that received so many batches has its whole epoch."""
        return received >= self.plan.rank_batches(rank) or epoch < self._oldest_open()

    def _oldest_open(self) -> int:
        return min(self.epochs, default=self.next_epoch)

    def _enter(self, rank: int, epoch: int) -> EpochSchedule | None:
        self._check_rank(rank)
        if epoch >= self.plan.epochs:
            raise Conflict(f"epoch {epoch} is past the run's {self.plan.epochs} epochs")
        self.rank_epoch[rank] = max(self.rank_epoch[rank], epoch)
        for left in [e for n, e in self.epochs.items() if n < min(self.rank_epoch)]:
            if left.state is EpochState.OPEN:
                left.state = EpochState.ABANDONED
                left.changed = True
        self.next_epoch = max(self.next_epoch, min(self.rank_epoch))
        if self.next_epoch <= epoch:
            self._open_epoch()
        return self.epochs.get(epoch)

    def _check_rank(self, rank: int) -> None:
        if not 0 <= rank < self.plan.world_size:
            raise InvalidInput(f"rank {rank} is not in a world of {self.plan.world_size}")

    def _note(self, batch: Batch) -> None:
        self._dirty[batch.epoch, batch.index] = batch
