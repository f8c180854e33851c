"""The schedule of a run: batches dealt to ranks, epochs opened, left, gone back to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ddlp.core.errors import Conflict, InvalidInput
from ddlp.core.plan import Segment
from ddlp.core.schedule.batch import Batch
from ddlp.core.schedule.epoch import EpochSchedule
from ddlp.core.schedule.strategies import Strategy
from ddlp.core.schedule.strategies.base import Cut
from ddlp.core.schedule.working import Working
from ddlp.core.sessions import Checkpoint, Start
from ddlp.core.takeover import Origin
from ddlp.core.types import EpochState


class RunSchedule(Working):
    """The state machine of one run: work goes out, reports come in, ranks are served."""

    @property
    def finished(self) -> bool:
        """Whether every epoch was consumed or abandoned."""
        closed = all(e.state is not EpochState.OPEN for e in self.epochs.values())
        return not self.plan.has_epoch(self.next_epoch) and closed

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

    def round_heads(self, epoch: int, step: int) -> int | None:
        """Batches of an epoch's segment that came from the head before a step of all ranks."""
        schedule = self.epochs.get(epoch)
        return schedule.heads_before(step) if schedule is not None else None

    def settled(self, epoch: int) -> dict[str, float]:
        """What the strategy has fixed for an epoch."""
        schedule = self.epochs.get(epoch)
        return dict(schedule.settled) if schedule is not None else {}

    def _deal(self, epoch: EpochSchedule, place: int) -> None:
        """Deal what is ready, up to a place in the order of delivery."""
        while epoch.segment.position + epoch.position <= place and not self.is_ahead(epoch):
            self._settle(epoch)
            end = next((end for end in self.wanted(epoch) if epoch.is_ready(end)), None)
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
        schedule.credit(rank)
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

    def pass_by(self, rank: int, epoch: EpochSchedule) -> None:
        """A state of a later epoch says that the rank has consumed all that it was dealt of one."""
        for step in range(epoch.acknowledged[rank], epoch.segment.rounds):
            batch = epoch.under_way.at(epoch.place(rank, step))
            if batch is None:
                break
            self.take_as_delivered(batch)
            epoch.consume(batch, rank)
        epoch.extend_part(rank)

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
        self.resume(epoch)

    def resume(self, epoch: EpochSchedule) -> None:
        """Begin with an epoch that is partly consumed."""
        self.epochs = {epoch.number: epoch}
        self.next_epoch = epoch.number + 1
        self.rank_epoch = [epoch.number] * self.plan.world_size
        self.sessions = {}
        self._held = {}
        self._doomed = {}

    def void(self) -> None:
        """Nothing that is under way is wanted any more."""
        for epoch in self.epochs.values():
            for batch in epoch.under_way:
                self.note_void(batch, batch.device, batch.token)

    def change_ranks(self, world_size: int) -> None:
        """Have another number of ranks share the run, of which nothing was delivered yet."""
        self.void()
        self.plan = replace(self.plan, world_size=world_size)
        self.resume(EpochSchedule.fresh(0, self.plan.whole))

    def take_over(self, origin: Origin, settled: Mapping[str, float]) -> EpochSchedule:
        """Go on where another run was left; whatever was made here is of no use any more."""
        origin.check(self.plan)
        if not self.plan.has_epoch(origin.first_epoch):
            raise Conflict(
                f"the state goes on with epoch {origin.first_epoch}, which is past the run's "
                f"{self.plan.epochs} epochs; give it more with: ddlp run extend"
            )
        self.void()
        if origin.complete:
            epoch = EpochSchedule.taken_over(origin.epoch + 1, origin, self.plan.whole)
        else:
            epoch = EpochSchedule.taken_over(origin.epoch, origin, origin.rest(self.plan))
            before, new = origin.segments[-1], epoch.segment
            cut = Cut(origin.heads, origin.tails, before.first, new.first, new.full)
            same = before.world_size == new.world_size and origin.position
            epoch.settled = self.strategy.carried(settled, cut) if same else {}
        self.resume(epoch)
        return epoch

    # Sessions

    def join(self, rank: int, session: str, start: Start) -> None:
        """A process goes on as a rank; the one before it receives nothing more."""
        self.check_rank(rank)
        for epoch in self.epochs.values():
            epoch.part(rank)
        self.sessions[rank] = session, start, self.checkpoint

    def leave(self, rank: int) -> None:
        """A rank's process has ended."""
        for epoch in self.epochs.values():
            epoch.part(rank)

    def note_checkpoint(self, mark: Checkpoint) -> None:
        """Remember that the state of the run was taken, perhaps at the end of an epoch."""
        epoch = self.epochs.get(mark[0])
        segment: Segment = epoch.segment if epoch is not None else self.plan.whole
        over = mark[1] >= segment.position + segment.batches
        self.checkpoint = (mark[0] + 1, 0) if over else mark

    def stands(self, rank: int) -> tuple[int, int]:
        """The epoch that a rank goes on with, and how many steps of it it has consumed."""
        for number in sorted(self.epochs):
            epoch = self.epochs[number]
            if epoch.state is EpochState.OPEN and epoch.acknowledged[rank] < epoch.segment.rounds:
                return number, epoch.acknowledged[rank]
        return self.next_epoch, 0

    def may_have_trained(self, rank: int) -> bool:
        """Whether an earlier session of a rank was handed batches, consumed or not."""
        parts = (part for epoch in self.epochs.values() for part in epoch.parts)
        return any(part.rank == rank and (part.handed or 0) > part.first for part in parts)

    def _attend(self, rank: int, epoch: EpochSchedule) -> None:
        """Note that a rank's session receives an epoch."""
        if rank in self.sessions:
            session, start, checkpoint = self.sessions[rank]
            epoch.join(rank, session, start, checkpoint)
            self.sessions[rank] = session, Start.ONWARD, checkpoint

    def _oldest_open(self) -> int:
        return min(self.epochs, default=self.next_epoch)

    def _enter(self, rank: int, epoch: int) -> EpochSchedule | None:
        self.check_rank(rank)
        if not self.plan.has_epoch(epoch):
            raise Conflict(
                f"epoch {epoch} is past the run's {self.plan.epochs} epochs; "
                "give it more with: ddlp run extend"
            )
        self.rank_epoch[rank] = max(self.rank_epoch[rank], epoch)
        for left in [e for n, e in self.epochs.items() if n < min(self.rank_epoch)]:
            if left.state is EpochState.OPEN:
                for batch in list(left.under_way.in_flight()):
                    self._give_up(batch, "training left its epoch")
                left.state = EpochState.ABANDONED
                left.changed = True
        self.next_epoch = max(self.next_epoch, min(self.rank_epoch))
        if self.next_epoch <= epoch:
            self.open_next()
        found = self.epochs.get(epoch)
        if found is not None:
            self._attend(rank, found)
        return found

    def check_rank(self, rank: int) -> None:
        """Refuse a rank that is not in the world."""
        if not 0 <= rank < self.plan.world_size:
            raise InvalidInput(f"rank {rank} is not in a world of {self.plan.world_size}")
