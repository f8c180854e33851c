"""Leases: which prong makes which batch, until when, and when a second one is put on it.

The end of an epoch never waits for a slow device. A prong that would finish a batch later than the
others could finish all that is left gets no more; and what a slow one still holds is raced by a
faster one that has nothing else to do: the first commit wins, the other is fenced off.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator

from ddlp.core.schedule.batch import Batch, Rival
from ddlp.core.schedule.epoch import EpochSchedule
from ddlp.core.schedule.reports import Grant
from ddlp.core.schedule.state import ScheduleState
from ddlp.core.schedule.strategies.base import head, tail
from ddlp.core.types import BatchState, Prong

_WORTH = 0.9
"""A batch is raced when the second attempt is expected to need less than this share."""
_SLACK = 1e-9
"""Times that differ by rounding only are the same."""


class Leasing(ScheduleState):
    """Gives out work."""

    def top_up(self, now: float) -> list[Grant]:
        """Lease what the windows have room for: to be sent to the prongs' workers."""
        self.fleet.look(now)
        self._note_waiting(now)
        granted = list(self._race_overdue(now))
        for prong in self.strategy.prongs:
            rest = self.resting.get(prong)
            if not self.fleet.slots(prong) or (rest is not None and now < rest.until):
                continue
            in_flight = sum(epoch.in_flight(prong) for epoch in self.epochs.values())
            stored = sum(epoch.stored(prong) for epoch in self.epochs.values())
            queue = self._queue(prong) - in_flight
            store = self.room[prong] - stored
            while queue > 0:
                grant = self._lease_next(prong, now, store > 0)
                if grant is None:
                    break
                granted.append(grant)
                queue -= 1
                store -= 1
        return granted

    def message_leases(self, prong: Prong) -> int:
        """How many leases one message to a prong carries: small where batches take long."""
        each_s = self.fleet.batch_s(prong)
        if each_s is None:
            return 1
        slots = max(1, self.fleet.slots(prong))
        left = sum(epoch.frontier.untouched for epoch in self.open_epochs())
        return max(
            1,
            min(
                int(self.limits.message_s / each_s),
                self.limits.message_leases,
                self.limits.stored[prong] // (4 * slots),
                left // (4 * slots),
            ),
        )

    def _queue(self, prong: Prong) -> int:
        """Leases that may be queued for a prong, or worked on by it."""
        messages = self.limits.queue_per_slot * self.fleet.slots(prong)
        return messages * self.message_leases(prong)

    def _lease_next(self, prong: Prong, now: float, room: bool) -> Grant | None:
        """The next lease; where the store has no room, only of what must come before it empties."""
        for epoch in self.open_epochs():
            index = None
            if self._worth(epoch, prong, now):
                among = None if room else self.urgent(epoch)
                index = epoch.frontier.take_returned(among, self._kept_from(epoch, prong, now))
                if index is None:
                    index = self._take(epoch, prong, among, now)
            if index is not None:
                return self._lease(epoch, index, prong, now)
            grant = self._race_slow(epoch, prong, now)
            if grant is not None:
                return grant
        if room and self.open_next():
            return self._lease_next(prong, now, room)
        return None

    def _kept_from(self, epoch: EpochSchedule, prong: Prong, now: float) -> frozenset[int]:
        """Lost batches that a prong does not get yet, since all its devices failed at them."""
        devices = self.fleet.usable(prong) if epoch.frontier.returned else []
        return frozenset(
            index
            for index in epoch.frontier.returned
            if all(epoch.under_way[index].rest_s(device, now) > 0 for device in devices)
        )

    def _take(
        self, epoch: EpochSchedule, prong: Prong, among: set[int] | None, now: float
    ) -> int | None:
        """The next untouched batch for a prong; one that is alone makes what must come next."""
        self._settle(epoch)
        alive = self.fleet.alive(self.strategy.prongs)
        if len(self.wanted(epoch)) == 1:
            others = [p for p in alive if p is not prong and self._worth(epoch, p, now)]
            due = epoch.take([head(epoch), tail(epoch)], set() if others else self.urgent(epoch))
            if due is not None:
                return due
        return epoch.take(self.strategy.sources(epoch, prong, alive), among)

    def open_next(self) -> bool:
        """Open the next epoch early, when all of the last one is given out."""
        if not self.plan.has_epoch(self.next_epoch) or self.next_epoch > min(self.rank_epoch) + 1:
            return False
        if any(epoch.frontier.untouched for epoch in self.open_epochs()):
            return False
        number = self.next_epoch
        self.epochs[number] = EpochSchedule.fresh(number, self.plan.whole)
        self.next_epoch += 1
        return True

    def _settle(self, epoch: EpochSchedule) -> None:
        needed = min(self.limits.calibration_batches, max(1, epoch.segment.batches // 4))
        calibrated = all(self.fleet.calibrated(p, needed) for p in self.strategy.prongs)
        self.strategy.settle(epoch, self.fleet.rates(), calibrated)

    def urgent(self, epoch: EpochSchedule) -> set[int]:
        """What ranks cannot do without: what is dealt next, and lost ones that hold a step."""
        due: set[int] = set()
        if epoch.number in self.rank_epoch and not self.is_ahead(epoch):
            wanted = self.wanted(epoch)
            due = {index for end in wanted if (index := epoch.next(end)) is not None}
        return epoch.lost_steps() | due

    def is_ahead(self, epoch: EpochSchedule) -> bool:
        """Whether so much is dealt and not consumed that slower ranks must be waited for."""
        stored = sum(self.limits.stored[prong] for prong in self.strategy.prongs)
        most = max(2 * epoch.segment.world_size, stored)
        return epoch.position - sum(epoch.acknowledged) >= most

    def _worth(self, epoch: EpochSchedule, prong: Prong, now: float) -> bool:
        """Whether a prong finishes another batch before the others could finish all there is."""
        left = epoch.frontier.untouched + len(epoch.frontier.returned)
        each_s = self.fleet.batch_s(prong)
        others = [p for p in self.fleet.alive(self.strategy.prongs) if p is not prong]
        if each_s is None or not others:
            return True
        queued = sum(e.in_flight(prong) for e in self.open_epochs()) / self.fleet.slots(prong)
        if left > (2 + queued) * each_s * sum(self.fleet.per_s(p) or 0.0 for p in others):
            return True  # the usual case, found without counting
        mine_s = each_s + min(self._free_s(prong, each_s, now))
        for other in others:
            its_s = self.fleet.batch_s(other)
            if its_s is None:
                return True
            if left * its_s > mine_s * self.fleet.slots(other):
                continue
            for busy_s in self._free_s(other, its_s, now):
                left -= max(0, math.ceil((mine_s - busy_s) / its_s - _SLACK) - 1)
        return left > 0

    def _free_s(self, prong: Prong, each_s: float, now: float) -> list[float]:
        """In how many seconds each slot of a prong is done with what it has."""
        queued = sum(epoch.in_flight(prong) for epoch in self.epochs.values())
        free_s = []
        for (device, _), held in self._held.items():
            if held and device in self.fleet.members and self.fleet.members[device].prong is prong:
                queued -= len(held)
                if not self.fleet.members[device].usable:
                    continue  # it finishes these, and takes no more
                begun = held[0].started_at
                taken_s = 0.0 if begun is None else now - begun
                free_s.append(max(0.0, each_s - taken_s) + each_s * (len(held) - 1))
        free_s += [0.0] * (self.fleet.slots(prong) - len(free_s))
        heapq.heapify(free_s)
        for _ in range(queued):
            heapq.heapreplace(free_s, free_s[0] + each_s)
        return free_s

    def _lease(self, epoch: EpochSchedule, index: int, prong: Prong, now: float) -> Grant:
        deadline = now + self._queued_s(prong)
        batch = epoch.under_way.get(index)
        token = self.new_token()
        if batch is None:
            batch = Batch(epoch.number, index, prong, token, now, deadline)
            epoch.under_way.put(batch)
        else:
            batch.token, batch.device, batch.process = token, None, 0
            batch.leased_at, batch.deadline = now, deadline
            batch.attempt += 1
            epoch.under_way.move(batch, BatchState.QUEUED, prong)
        epoch.changed = True
        self.note(batch)
        return self._grant(epoch, batch, prong, token)

    def _grant(self, epoch: EpochSchedule, batch: Batch, prong: Prong, token: int) -> Grant:
        places = epoch.segment.places(batch.index)
        return Grant(prong, epoch.number, batch.index, token, places, batch.lost)

    def _queued_s(self, prong: Prong) -> float:
        """How long a lease may wait to be claimed."""
        return self.limits.queued_s + self.patience_s(self.fleet.batch_s(prong))

    def patience_s(self, batch_s: float | None) -> float:
        """Many times what a batch takes."""
        if batch_s is None:
            return self.limits.unknown_s
        return self.limits.lease_factor * batch_s

    # Racing

    def _note_waiting(self, now: float) -> None:
        waiting: dict[str, list[float]] = {}
        for (device, _), held in self._held.items():
            if held and held[0].started_at is not None:
                waiting.setdefault(device, []).append(now - held[0].started_at)
        self.fleet.note_waiting(waiting)

    def _race_overdue(self, now: float) -> Iterator[Grant]:
        """Put a second device on what a rank waits for and takes far longer than it should."""
        for epoch in self.open_epochs():
            for index in self.urgent(epoch):
                batch = epoch.under_way.get(index)
                if batch is None or batch.state is not BatchState.LEASED or batch.rival is not None:
                    continue
                quickest = self._quickest(batch)
                if quickest is None or batch.started_at is None:
                    continue
                quick_s, prong = quickest
                usual_s = self._usual_s(batch.device) or quick_s
                overdue_s = max(self.limits.overdue_floor_s, self.limits.overdue_factor * usual_s)
                if now - batch.started_at > overdue_s:
                    yield self._race(epoch, batch, prong, now)

    def _quickest(self, batch: Batch) -> tuple[float, Prong] | None:
        """The prong that makes a batch soonest, apart from the one slot that has it."""
        choice = [
            (each_s, prong)
            for prong in self.strategy.prongs
            if self.fleet.slots(prong) > (prong is batch.prong)
            and (each_s := self.fleet.batch_s(prong)) is not None
        ]
        return min(choice, default=None)

    def _race_slow(self, epoch: EpochSchedule, prong: Prong, now: float) -> Grant | None:
        """Have a prong with an idle slot race what another holds at the end of an epoch."""
        mine_s = self.fleet.batch_s(prong)
        if not epoch.frontier.met or mine_s is None:
            return None
        if sum(e.in_flight(prong) for e in self.epochs.values()) >= self.fleet.slots(prong):
            return None
        slow = [
            (self._left_s(epoch, batch, now), batch.index)
            for batch in epoch.under_way.in_flight()
            if batch.rival is None
        ]
        left_s, index = max(slow, default=(0.0, 0))
        if mine_s >= _WORTH * left_s:
            return None
        return self._race(epoch, epoch.under_way[index], prong, now)

    def _race(self, epoch: EpochSchedule, batch: Batch, prong: Prong, now: float) -> Grant:
        token = self.new_token()
        batch.rival = Rival(prong, token, now, now + self._queued_s(prong))
        epoch.rivals[prong] += 1
        return self._grant(epoch, batch, prong, token)

    def _left_s(self, epoch: EpochSchedule, batch: Batch, now: float) -> float:
        """How long a batch is still expected to take; what is late takes as long again."""
        usual_s = self._usual_s(batch.device) or self.fleet.batch_s(batch.prong)
        if usual_s is None:
            return now - batch.leased_at
        if batch.state is BatchState.QUEUED or batch.device is None:
            before = epoch.in_flight(batch.prong) / max(1, self.fleet.slots(batch.prong))
            return usual_s * max(1.0, before)
        held = self._held.get((batch.device, batch.process), [])
        before = held.index(batch) if batch in held else 0
        first = held[0] if held else batch
        taken_s = now - (first.started_at if first.started_at is not None else now)
        return usual_s * before + (usual_s - taken_s if taken_s < usual_s else taken_s)

    def _usual_s(self, device: str | None) -> float | None:
        """What a device needed for a batch so far, whatever the one takes that it is at."""
        member = self.fleet.members.get(device or "")
        if member is None or not member.pace.batches:
            return None
        return member.pace.sample_s * self.plan.batch_size
