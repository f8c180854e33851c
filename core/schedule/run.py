"""The schedule of a run: batches dealt to ranks, epochs opened, left, gone back to."""

from __future__ import annotations

from dataclasses import replace

from ddlp.core.errors import Conflict, InvalidInput
from ddlp.core.schedule.batch import Batch
from ddlp.core.schedule.epoch import EpochSchedule
from ddlp.core.schedule.strategies import Strategy
from ddlp.core.schedule.working import Working
from ddlp.core.types import EpochState


class RunSchedule(Working):
    """The state machine of one run: work goes out, reports come in, ranks are served."""

    @property
    def finished(self) -> bool:
        """Whether every epoch was consumed or abandoned."""
        closed = all(e.state is not EpochState.OPEN for e in self.epochs.values())
        return self.next_epoch >= self.plan.epochs and closed

    def switch(self, strategy: Strategy) -> None:
        """Go on with another strategy; what was dealt stays as it was."""
        self.strategy = strategy
        for epoch in self.open_epochs():
            epoch.settled, epoch.changed = {}, True

    def fetch(self, rank: int, epoch: int, received: int, want: int) -> list[Batch]:
        """Up to `want` batches for a rank that has received so many of this epoch's segment.

        Asking again with the same `received` gives the same again: a lost answer costs nothing.
        """
        schedule = self._enter(rank, epoch)
        if schedule is None:
            return []
        if received > schedule.dealt_to(rank):
            raise Conflict(
                f"rank {rank} says it received {received} batches of epoch {epoch}, "
                f"but was given {schedule.dealt_to(rank)}; attach it again"
            )
        self._deal(schedule, schedule.place(rank, received + want - 1))
        return schedule.handed_from(rank, received)[:want]

    def _deal(self, epoch: EpochSchedule, place: int) -> None:
        """Deal what is ready, up to a place in the order of delivery."""
        rates = self.fleet.rates()
        while epoch.segment.position + epoch.position <= place and not self.is_ahead(epoch):
            self._settle(epoch)
            wanted = self.strategy.wanted(epoch, rates)
            end = next((end for end in wanted if epoch.is_ready(end)), None)
            if end is None:
                return
            self.note(epoch.deal(end))

    def consume(self, rank: int, epoch: int, steps: int) -> list[Batch]:
        """A rank has consumed its first `steps` batches of an epoch; returns the newly consumed."""
        self.check_rank(rank)
        schedule = self.epochs.get(epoch)
        if schedule is None or steps <= schedule.acknowledged[rank]:
            return []
        first = schedule.acknowledged[rank]
        done = schedule.handed_from(rank, first)[: steps - first]
        for batch in done:
            schedule.consume(batch, rank)
        return done

    def rank_done(self, rank: int, epoch: int, received: int) -> bool:
        """Whether a rank that received so many batches has its whole epoch."""
        schedule = self.epochs.get(epoch)
        rounds = schedule.segment.rounds if schedule else self.plan.rank_batches
        return received >= rounds or epoch < self._oldest_open()

    # Going back

    def go_back(self, rank: int, epoch: int, step: int, again: list[Batch]) -> None:
        """A rank goes back: what it consumed since is made again, for the same steps.

        A step that it has not acknowledged yet is as good as acknowledged by that.
        """
        schedule = self.epochs[epoch]
        schedule.go_back(rank, step, again)
        for done in range(schedule.acknowledged[rank], step):
            batch = schedule.under_way.at(schedule.place(rank, done))
            assert batch is not None
            self.take_as_delivered(batch)
            schedule.consume(batch, rank)
        self.rank_epoch[rank] = min(self.rank_epoch[rank], epoch)

    def cut_anew(self, epoch: EpochSchedule, heads: int, tails: int, world_size: int) -> None:
        """Go on in the middle of an epoch with another number of ranks, and so from then on."""
        self.epochs = {epoch.number: epoch}
        position = epoch.segment.position + heads + tails
        for batch in epoch.under_way:
            if batch.position is not None and batch.position < position:
                self.take_as_delivered(batch)
        for batch in epoch.cut_anew(heads, tails, world_size):
            self.note_void(batch, batch.device, batch.token)
        self.plan = replace(self.plan, world_size=world_size)
        self.next_epoch = epoch.number + 1
        self.rank_epoch = [epoch.number] * world_size
        self._held = {}

    def resume(self, epoch: EpochSchedule) -> None:
        """Begin with an epoch that is partly consumed."""
        self.epochs = {epoch.number: epoch}
        self.next_epoch = epoch.number + 1
        self.rank_epoch = [epoch.number] * self.plan.world_size
        self._held = {}

    def _oldest_open(self) -> int:
        return min(self.epochs, default=self.next_epoch)

    def _enter(self, rank: int, epoch: int) -> EpochSchedule | None:
        self.check_rank(rank)
        if epoch >= self.plan.epochs:
            raise Conflict(f"epoch {epoch} is past the run's {self.plan.epochs} epochs")
        self.rank_epoch[rank] = max(self.rank_epoch[rank], epoch)
        for left in [e for n, e in self.epochs.items() if n < min(self.rank_epoch)]:
            if left.state is EpochState.OPEN:
                left.state = EpochState.ABANDONED
                left.changed = True
        self.next_epoch = max(self.next_epoch, min(self.rank_epoch))
        if self.next_epoch <= epoch:
            self.open_next()
        return self.epochs.get(epoch)

    def check_rank(self, rank: int) -> None:
        """Refuse a rank that is not in the world."""
        if not 0 <= rank < self.plan.world_size:
            raise InvalidInput(f"rank {rank} is not in a world of {self.plan.world_size}")
