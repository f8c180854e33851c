"""What workers report: a lease claimed, a batch made or failed, a process or a device that died."""

from __future__ import annotations

from collections import Counter

from ddlp.core.errors import Held, Refused, Resting
from ddlp.core.mishap import Mishap
from ddlp.core.schedule.bad_samples import BadSamples
from ddlp.core.schedule.batch import Batch
from ddlp.core.schedule.failures import Failures
from ddlp.core.schedule.reports import UNKNOWN, Death, Failed, Holder, Made
from ddlp.core.types import BadPolicy, BatchState, Prong

_MADE = (BatchState.READY, BatchState.HANDED)


class Working(BadSamples):
    """Takes reports."""

    def claim(self, epoch: int, index: int, token: int, holder: Holder, now: float) -> float:
        """A process starts on a lease; returns its deadline.

        Raises `Held` where another process has it: a message may have been delivered twice. Raises
        `Resting` where the device must not have it now: others get it at once.
        """
        batch = self.in_hand(epoch, index, token)
        self._check_rest(batch, token, holder.device, now)
        line = self._held.get((holder.device, holder.process), [])
        patience_s = self.patience_s(self.fleet.device_s(holder.device))
        if batch.token != token:
            rival = batch.rival
            assert rival is not None
            if rival.device not in (None, holder.device):
                raise Refused(f"batch {index} of epoch {epoch} is being made by {rival.device}")
            if rival.process not in (0, holder.process):
                raise Held(f"batch {index} of epoch {epoch} is being made", rival.process)
            rival.device, rival.process = holder.device, holder.process
            rival.deadline = now + max(self.limits.lease_floor_s, patience_s * (1 + len(line)))
            return rival.deadline
        if batch.state is BatchState.LEASED and batch.device != holder.device:
            raise Refused(f"batch {index} of epoch {epoch} is being made by {batch.device}")
        if batch.state is BatchState.LEASED and batch.process not in (0, holder.process):
            raise Held(f"batch {index} of epoch {epoch} is being made", batch.process)
        # Each attempt gets twice the time of the one before: a slow device is let finish at last.
        care_s = self.limits.sample_s if batch.careful else 0.0
        lasts_s = (patience_s + care_s) * min(2**batch.losses, self.limits.lease_growth)
        before = next((place for place, held in enumerate(line) if held is batch), len(line))
        batch.deadline = now + max(self.limits.lease_floor_s, lasts_s) + patience_s * before
        self.epochs[epoch].under_way.move(batch, BatchState.LEASED)
        batch.device, batch.process = holder.device, holder.process
        if before == len(line):
            batch.started_at = None if line else now
            self._held.setdefault((holder.device, holder.process), []).append(batch)
        return batch.deadline

    def _check_rest(self, batch: Batch, token: int, device: str, now: float) -> None:
        """Keep a device that failed lately from a lease that nobody has begun."""
        rest_s = self.rest_s(batch, device, now)
        if rest_s > 0 and self._decline(batch, token, batch.reason or ""):
            why = f"{device} failed lately and gets no such work for {rest_s:.1f} s"
            raise Resting(f"batch {batch.index} of epoch {batch.epoch}: {why}", rest_s)

    def rest_s(self, batch: Batch, device: str, now: float) -> float:
        """Seconds for which a device does not get a batch; 0 where it may have it."""
        return max(self.fleet.rest_s(device, now), batch.rest_s(device, now))

    def process_died(self, holder: Holder, death: Death = UNKNOWN) -> None:
        """A process of a device is dead: what it held can be claimed again under its token.

        It was at the first of what it held: that one is made with care from now on, and is counted
        where it crashed the process. A process that was killed from outside proves nothing.
        """
        who = f"a worker process of {holder.device}"
        line = self._held.pop((holder.device, holder.process), [])
        begun = bool(line) and line[0].started_at is not None
        for place, batch in enumerate(line):
            batch.process, batch.started_at = 0, None
            if place == 0 and begun:
                self._count_death(batch, who, death)
            self.note(batch)
        for batch in [b for e in self.epochs.values() for b in e.under_way.in_flight()]:
            rival = batch.rival
            if rival is not None and holder == Holder(rival.device or "", rival.process):
                rival.process = 0
                if not line:
                    self._count_death(batch, who, death)

    def commit(self, epoch: int, index: int, token: int, made: Made, now: float) -> bool:
        """A batch is finished, and can be dealt. Saying so again is harmless, and no news."""
        known = self.find(epoch, index)
        if known and known.token == token and known.state in _MADE:
            return False
        batch = self.in_hand(epoch, index, token)
        planned = self._note_bad(batch, made)
        if self.is_doomed(batch):
            self._give_up(batch, batch.reason or "")
            return True
        self._first_wins(batch, token)
        self._let_go(batch, now)
        # A batch that is made again for a rank that holds its place goes straight to that rank.
        state = BatchState.READY if batch.position is None else BatchState.HANDED
        self.epochs[epoch].under_way.move(batch, state)
        batch.ready_at, batch.device = now, made.device
        batch.location, batch.nbytes, batch.checksum = made.location, made.nbytes, made.checksum
        batch.seconds, batch.cpu_s = made.seconds, made.cpu_s
        batch.queue_s = max(0.0, now - made.seconds - batch.leased_at)
        vars(batch).update(vars(made.times))
        batch.reason, batch.failed = None, Failures()
        self.learn(made.device, made.seconds, planned)
        self.fleet.succeeded(made.device, now)
        self.found_room(batch.prong)
        self.epochs[epoch].count_made(batch)
        self.note(batch)
        return True

    def learn(self, device: str | None, seconds: float, samples: int) -> None:
        """Take note of how long a batch took; also of one that came too late to be taken."""
        self.fleet.learn(device or "", seconds, samples)

    def fail(self, epoch: int, index: int, token: int, failed: Failed, now: float) -> bool:
        """A device could not make a batch; whether the device rests from now on.

        Where trying again cannot help, that ends the run.
        """
        batch = self.in_hand(epoch, index, token)
        rival = batch.rival
        second = rival is not None and rival.token == token
        holder = rival.device if rival is not None and second else batch.device
        device = failed.device or holder or ""
        self._count_failure(batch, batch.failed, device, failed, now)
        rests = not failed.permanent and self.fleet.failed(device, failed.reason, now)
        self._give_back(batch, token, failed.reason)
        for prong in self.strategy.prongs if rests else ():
            if not self.fleet.slots(prong):
                self.take_back_queued(prong, f"{device} rests: {failed.reason}")
        return rests

    def _count_failure(
        self, batch: Batch, failures: Failures, device: str, failed: Failed, now: float
    ) -> None:
        """Count it by batch and by device; what fails for too long is given up."""
        batch.failures += 1
        failures.add(device, now)
        witnesses = [d for d, began in failures.devices.items() if self.fleet.made_since(d, began)]
        if failed.permanent:
            self.note_doom(batch, f"batch {batch.index} of epoch {batch.epoch}: {failed.reason}")
        elif (failed.bug and failures.count >= self.limits.failures) or failures.is_final(
            self.limits, now, len(witnesses)
        ):
            where = f"batch {batch.index} of epoch {batch.epoch}"
            self.note_doom(batch, f"{where} {failures.told(now)}: {failed.reason}")

    def no_room(self, epoch: int, index: int, token: int, reason: str, now: float) -> None:
        """A store is full: the batch is given back, and its prong rests for a while.

        It stores less from then on, until batches find room again.
        """
        batch = self.in_hand(epoch, index, token)
        rival = batch.rival
        prong = rival.prong if rival is not None and rival.token == token else batch.prong
        self._give_back(batch, token, reason)
        stored = sum(schedule.stored(prong) for schedule in self.epochs.values())
        self.rest(prong, max(1, stored), reason, now)

    def damaged(self, epoch: int, index: int, token: int, failed: Failed, now: float) -> None:
        """A reader found a handed batch damaged or gone: it is made again for the same step."""
        batch = self.find(epoch, index)
        if batch is None or batch.token != token or batch.state is not BatchState.HANDED:
            raise Refused(f"batch {index} of epoch {epoch} was not handed out with token {token}")
        self.epochs[epoch].count_made(batch, -1)
        # One that is gone was read by a trainer that did not live to use it: nobody's fault.
        if not failed.gone:
            self._count_failure(batch, batch.damage, batch.device or "", failed, now)
        self._give_back(batch, token, failed.reason)

    def take_as_delivered(self, batch: Batch) -> None:
        """A checkpoint has it that a batch was consumed: it need not be made again."""
        if batch.state in _MADE:
            return
        epoch = self.epochs[batch.epoch]
        for token in batch.tokens[::-1] if batch.state.in_flight else ():
            self._give_back(batch, token, "a rank went on after it")
        epoch.frontier.returned.discard(batch.index)
        self._doomed.pop((batch.epoch, batch.index), None)
        epoch.under_way.move(batch, BatchState.HANDED)
        epoch.count_made(batch)
        self.note(batch)

    def expire(self, now: float) -> list[Batch]:
        """Take back the leases whose deadline has passed."""
        lost = [
            batch
            for epoch in self.epochs.values()
            for batch in epoch.under_way.in_flight()
            if batch.deadline <= now or (batch.rival is not None and batch.rival.deadline <= now)
        ]
        for batch in lost:
            if batch.rival is not None and batch.rival.deadline <= now:
                self._give_back(batch, batch.rival.token, "the second lease ran out")
            if batch.deadline <= now:
                holder = batch.device or "nobody (its message was not picked up)"
                self._lose(batch, f"the lease ran out; it was held by {holder}")
        return lost

    def device_gone(
        self, device: str, prong: Prong, died: bool = True, death: Death = UNKNOWN
    ) -> list[Batch]:
        """Take back what a dead or silent device held, and what its queue may have lost with it.

        What it was making when it died is made with care; silence has other reasons.
        """
        begun = [line[0] for (name, _), line in self._held.items() if name == device and line]
        at_work = [batch for batch in begun if batch.started_at is not None]
        if died:
            self.fleet.begin_anew(device)
        reason = f"{device} {'died' if died else 'was not heard of any more'}"
        lost: list[Batch] = []
        for epoch in self.epochs.values():
            for batch in epoch.under_way.in_flight():
                rival = batch.rival
                if rival is not None and rival.device in (device, None) and rival.prong is prong:
                    self._give_back(batch, rival.token, reason)
                queued = batch.state is BatchState.QUEUED and batch.prong is prong
                if batch.device == device or queued:
                    lost.append(batch)
        for batch in lost:
            if died and any(batch is made for made in at_work):
                self._count_death(batch, device, death)
            if batch.state.in_flight and not died:
                self._lose(batch, reason)
            elif batch.state.in_flight:
                self._give_back(batch, batch.token, reason)
        return lost

    def holders(self) -> Counter[str]:
        """How many batches each device is at."""
        found: Counter[str] = Counter()
        for batch in [b for e in self.epochs.values() for b in e.under_way.in_flight()]:
            rival = batch.rival.device if batch.rival is not None else None
            found.update(name for name in (batch.device, rival) if name is not None)
        return found

    def take_back_queued(self, prong: Prong, reason: str) -> None:
        """A prong gets no more work: what waits in its queue goes to whoever is left."""
        for batch in [b for e in self.epochs.values() for b in e.under_way.in_flight()]:
            rival = batch.rival
            if rival is not None and rival.device is None and rival.prong is prong:
                self._give_back(batch, rival.token, reason)
            if batch.state is BatchState.QUEUED and batch.prong is prong:
                self._give_back(batch, batch.token, reason)

    def decline(self, epoch: int, index: int, token: int, reason: str) -> None:
        """A device that is to get no work was offered a lease: somebody else gets it at once."""
        self._decline(self.in_hand(epoch, index, token), token, reason)

    def _decline(self, batch: Batch, token: int, reason: str) -> bool:
        """Give a lease back unless somebody has it; whether it was given back."""
        rival = batch.rival
        mine = rival if rival is not None and rival.token == token else batch
        if mine.device is not None:
            return False
        self._give_back(batch, token, reason)
        return True

    def _lose(self, batch: Batch, reason: str) -> None:
        if batch.started_at is not None:
            batch.losses += 1
            if batch.losses >= self.limits.losses:
                self.note_doom(batch, f"batch {batch.index} of epoch {batch.epoch}: {reason}")
        self._give_back(batch, batch.token, reason)

    def _give_back(self, batch: Batch, token: int, reason: str) -> None:
        """An attempt came to nothing: the other one goes on, or the batch is given out again."""
        epoch = self.epochs[batch.epoch]
        rival = batch.rival
        if rival is not None and rival.token == token:
            self.note_void(batch, rival.device, token)
            epoch.rivals[rival.prong] -= 1
            batch.rival = None
            return
        batch.reason = reason
        self.note_void(batch, batch.device, batch.token)
        self._let_go(batch, None)
        if rival is not None:
            self._replace_by_rival(batch)
        else:
            epoch.under_way.move(batch, BatchState.LOST)
            if not self.is_doomed(batch):
                epoch.frontier.give_back(batch.index, batch.position)
        epoch.changed = True
        self.note(batch)

    def _replace_by_rival(self, batch: Batch) -> None:
        epoch = self.epochs[batch.epoch]
        rival = batch.rival
        assert rival is not None
        epoch.rivals[rival.prong] -= 1
        batch.promote()
        claimed = batch.device is not None
        state = BatchState.LEASED if claimed else BatchState.QUEUED
        epoch.under_way.move(batch, state, rival.prong)
        if claimed:
            self._held.setdefault((str(batch.device), batch.process), []).append(batch)

    def _first_wins(self, batch: Batch, token: int) -> None:
        """Fence off the attempt that did not commit."""
        if batch.token != token:
            self.note_void(batch, batch.device, batch.token)
            self._let_go(batch, None)
            self._replace_by_rival(batch)
        elif batch.rival is not None:
            self._give_back(batch, batch.rival.token, "the first attempt was quicker")

    def _let_go(self, batch: Batch, now: float | None) -> None:
        """A process is done with a batch, and begins with the next one that it holds."""
        key = (batch.device or "", batch.process)
        line = [held for held in self._held.pop(key, []) if held is not batch]
        batch.process, batch.started_at = 0, None
        if line:
            self._held[key] = line
            if line[0].started_at is None:
                line[0].started_at = now

    def _count_death(self, batch: Batch, who: str, death: Death) -> None:
        """A process died over a batch, or beside it."""
        if death.crashed:
            self._count_kill(batch, f"{who} crashed ({death.words}) while making it")
            return
        batch.deaths += 1
        times = f", {batch.deaths} times so far" if batch.deaths > 1 else ""
        batch.reason = f"{who} died ({death.words}) while making it{times}"

    def _count_kill(self, batch: Batch, reason: str) -> None:
        """A batch that keeps crashing its workers is isolated, as the run's policy has it."""
        batch.kills += 1
        batch.reason = reason
        if batch.kills < self.limits.kills:
            return
        where = f"batch {batch.index} of epoch {batch.epoch}"
        why = f"{where} was isolated: {reason}, {batch.kills} times"
        if self.limits.on_bad is BadPolicy.FAIL:
            self.note_doom(batch, why)
            self._give_up(batch, why)
        else:
            self._isolate(batch, why)

    def _give_up(self, batch: Batch, reason: str) -> None:
        """A batch is wanted and cannot be made: nobody is given it any more."""
        for token in batch.tokens[::-1] if batch.state.in_flight else ():
            self._give_back(batch, token, reason)

    def _isolate(self, batch: Batch, reason: str) -> None:
        """Leave a batch out: it holds its place, and nothing is in it."""
        epoch = self.epochs[batch.epoch]
        if epoch.isolated + 1 > self.limits.bad_allowed(epoch.segment.batches):
            why = f"{reason}; {epoch.isolated + 1} such batches are too many for max_bad_share"
            self.note_doom(batch, why)
            self._give_up(batch, why)
            return
        if batch.rival is not None:
            self._give_back(batch, batch.rival.token, reason)
        self.note_void(batch, batch.device, batch.token)
        self._let_go(batch, None)
        batch.token = self.new_token()
        batch.isolated, batch.reason, batch.location = True, reason, None
        batch.samples, batch.nbytes, batch.checksum = 0, 0, 0
        state = BatchState.READY if batch.position is None else BatchState.HANDED
        epoch.under_way.move(batch, state)
        name = f"batch {batch.index}"
        samples = sorted(self._samples_of(batch))
        self._mishaps[batch.epoch, batch.index] = tuple(Mishap(s, name, reason) for s in samples)
        epoch.count_made(batch)
        self.note(batch)
