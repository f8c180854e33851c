"""Schedulers that are broken on purpose, each in one way that a simulation must notice."""

import signal
from collections import Counter
from dataclasses import replace

from ddlp.core.errors import Refused
from ddlp.core.schedule import (
    UNKNOWN,
    Batch,
    Death,
    EpochSchedule,
    Failed,
    Grant,
    Holder,
    Made,
    RunSchedule,
)
from ddlp.core.types import BatchState, End, Prong


class AnyTokenIsTaken(RunSchedule):
    """The fence is skipped."""

    def in_hand(self, epoch: int, index: int, token: int) -> Batch:
        batch = self.find(epoch, index)
        if batch is None or not batch.state.in_flight:
            raise Refused("gone")
        return batch


class CommitsCountTwice(RunSchedule):
    """A report that is repeated is counted again."""

    def commit(self, epoch: int, index: int, token: int, made: Made, now: float) -> bool:
        news = super().commit(epoch, index, token, made, now)
        batch = self.find(epoch, index)
        if not news and batch is not None:
            self.epochs[epoch].count_made(batch)
        return news


class TheEndsPassEachOther(RunSchedule):
    """The batch where the ends meet is never given out."""

    def _take(
        self, epoch: EpochSchedule, prong: Prong, among: set[int] | None, now: float
    ) -> int | None:
        index = super()._take(epoch, prong, among, now)
        if epoch.frontier.untouched == 1:
            epoch.frontier.head += 1
        return index


class TheEndsOverlap(RunSchedule):
    """The batch where the ends meet is given out from both."""

    def _take(
        self, epoch: EpochSchedule, prong: Prong, among: set[int] | None, now: float
    ) -> int | None:
        index = super()._take(epoch, prong, among, now)
        if index is not None and epoch.frontier.untouched == 0 and index + 1 < epoch.segment.last:
            self._lease(epoch, index + 1, prong, 0.0)
        return index


class ARankIsForgotten(RunSchedule):
    """The last rank is taken to be done one step early."""

    def rank_done(self, rank: int, epoch: int, received: int) -> bool:
        return super().rank_done(rank, epoch, received + (rank > 0))


class LostLeasesStayLost(RunSchedule):
    """What expired is not given out again."""

    def expire(self, now: float) -> list[Batch]:
        lost = super().expire(now)
        for batch in lost:
            self.epochs[batch.epoch].frontier.returned.discard(batch.index)
        return lost


class ABatchIsDealtTwice(RunSchedule):
    """One batch holds two places in the order of delivery."""

    def _deal(self, epoch: EpochSchedule, place: int) -> None:
        super()._deal(epoch, place)
        for batch in epoch.under_way.in_state(BatchState.HANDED)[-1:]:
            epoch.under_way.move(batch, BatchState.READY)


class BothRivalsWin(RunSchedule):
    """A second lease stays valid when the first was committed, and is taken after it."""

    def commit(self, epoch: int, index: int, token: int, made: Made, now: float) -> bool:
        batch = self.find(epoch, index)
        rival = batch.rival if batch is not None else None
        news = super().commit(epoch, index, token, made, now)
        if batch is not None and rival is not None and rival.token != token:
            batch.rival = rival
            self.epochs[epoch].rivals[rival.prong] += 1
        return news


class AStaleRivalIsTaken(RunSchedule):
    """The loser of a race may commit what the winner has committed."""

    def in_hand(self, epoch: int, index: int, token: int) -> Batch:
        batch = self.find(epoch, index)
        if batch is not None and batch.attempt > 1 and batch.state is BatchState.READY:
            self.epochs[epoch].count_made(batch, -1)
            return batch
        return super().in_hand(epoch, index, token)


class GoingBackForgetsABatch(RunSchedule):
    """The first batch that a rank wants again is not among those made again."""

    def go_back(self, rank: int, epoch: int, step: int, again: list[Batch]) -> None:
        super().go_back(rank, epoch, step, again[1:])


class TokensBeginAnew(RunSchedule):
    """After a restart, tokens are given out that were valid before."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.next_token = 1


class TheCutIsOffByOne(RunSchedule):
    """Where the number of ranks changes, one batch is delivered in both worlds."""

    def cut_anew(self, epoch: EpochSchedule, heads: int, tails: int, world_size: int) -> None:
        super().cut_anew(epoch, heads, tails, world_size)
        segment = epoch.segment
        if heads and segment.batches:
            start = max(0, segment.start - segment.batch_size)
            epoch.segments[-1] = replace(segment, start=start)
            epoch.frontier.tail = epoch.segment.last


class ExpiryForgetsTheRival(RunSchedule):
    """When a lease that is raced runs out, its batch is given out again beside the rival."""

    def expire(self, now: float) -> list[Batch]:
        for epoch in self.epochs.values():
            for batch in epoch.under_way.in_flight():
                if batch.rival is not None and batch.deadline <= now:
                    batch.rival = None
        return super().expire(now)


class TheOtherEndIsRecorded(RunSchedule):
    """The record says that each batch came from the other end."""

    def _deal(self, epoch: EpochSchedule, place: int) -> None:
        super()._deal(epoch, place)
        for batch in epoch.under_way.in_state(BatchState.HANDED):
            if (batch.epoch, batch.index) in self._dirty:
                batch.from_tail = batch.index < epoch.segment.first + epoch.dealt[End.HEAD]


class StrictOrderIsBroken(RunSchedule):
    """Whatever is ready is dealt, also where one end is due."""

    def _deal(self, epoch: EpochSchedule, place: int) -> None:
        super()._deal(epoch, place)
        while epoch.segment.position + epoch.position <= place:
            ready = [end for end in End if epoch.is_ready(end)]
            if not ready:
                return
            self.note(epoch.deal(ready[0]))


class IsolationLosesThePlace(RunSchedule):
    """A batch that is left out gives up the step that it held."""

    def _isolate(self, batch: Batch, reason: str) -> None:
        super()._isolate(batch, reason)
        self.epochs[batch.epoch].under_way.remove(batch)


class WindowsAreIgnored(RunSchedule):
    """Leases are given out as if the stores had no end."""

    def _lease_next(self, prong: Prong, now: float, room: bool) -> Grant | None:
        return super()._lease_next(prong, now, True)


class DoomIsUndone(RunSchedule):
    """A run that is lost goes on."""

    def _count_kill(self, batch: Batch, reason: str) -> None:
        super()._count_kill(batch, reason)
        self.doom = None


class TheDeadKeepTheirLeases(RunSchedule):
    """What a dead process held stays held, for as long as its device lives."""

    def process_died(self, holder: Holder, death: Death = UNKNOWN) -> None:
        self._held.pop((holder.device, holder.process), None)

    def expire(self, now: float) -> list[Batch]:
        held = [b for e in self.epochs.values() for b in e.under_way.in_state(BatchState.LEASED)]
        for batch in held:
            batch.deadline = now + 1.0
        return super().expire(now)


class AcknowledgementsGetLost(RunSchedule):
    """What a rank has consumed is forgotten now and then."""

    def consume(self, rank: int, epoch: int, steps: int) -> list[Batch]:
        return super().consume(rank, epoch, steps - (steps == self.plan.rank_batches > 1))


class DamageIsCountedAsMade(RunSchedule):
    """A batch that must be made again is still counted."""

    def damaged(self, epoch: int, index: int, token: int, failed: Failed, now: float) -> None:
        super().damaged(epoch, index, token, failed, now)
        self.epochs[epoch].made_by += Counter({Prong.CPU: 1})


class WhoIsKilledIsBlamed(RunSchedule):
    """A process that was killed from outside counts as crashed by what it made."""

    def _count_death(self, batch: Batch, who: str, death: Death) -> None:
        super()._count_death(batch, who, Death(-signal.SIGSEGV))


class NobodyIsBlamed(RunSchedule):
    """A batch that crashes its workers is made again for ever."""

    def _count_kill(self, batch: Batch, reason: str) -> None:
        batch.kills, batch.reason = 1, reason


class DevicesDoNotRest(RunSchedule):
    """A device that fails again and again is given work all the same."""

    def fail(self, epoch: int, index: int, token: int, failed: Failed, now: float) -> bool:
        super().fail(epoch, index, token, failed, now)
        for member in self.fleet.members.values():
            member.rests_until = None
        return False


class BatchesDoNotRest(RunSchedule):
    """A batch that failed goes to the device that failed at it, over and over."""

    def rest_s(self, batch: Batch, device: str, now: float) -> float:
        return self.fleet.rest_s(device, now)

    def _kept_from(self, epoch: EpochSchedule, prong: Prong, now: float) -> frozenset[int]:
        return frozenset()


class ARestHasNoEnd(RunSchedule):
    """A device that rests is never given work again."""

    def top_up(self, now: float) -> list[Grant]:
        for member in self.fleet.members.values():
            if member.rests_until is not None:
                member.rests_until = now + 60.0
        return super().top_up(now)


class AFailedBatchIsForgotten(RunSchedule):
    """A batch that failed is kept from its device for good."""

    def fail(self, epoch: int, index: int, token: int, failed: Failed, now: float) -> bool:
        batch = self.in_hand(epoch, index, token)
        rests = super().fail(epoch, index, token, failed, now)
        batch.failed.until = 10.0**9
        return rests


class ThreeErrorsEndARun(RunSchedule):
    """However quickly they follow each other, and on whatever device."""

    def fail(self, epoch: int, index: int, token: int, failed: Failed, now: float) -> bool:
        batch = self.in_hand(epoch, index, token)
        bug = replace(failed, bug=batch.failed.count >= 2)
        return super().fail(epoch, index, token, bug, now)


class ErrorsEndNoRun(RunSchedule):
    """A batch that fails for ever is tried for ever."""

    def note_doom(self, batch: Batch, reason: str) -> None:
        if " failed " not in reason:
            super().note_doom(batch, reason)


MUTANTS: list[type[RunSchedule]] = [
    AnyTokenIsTaken,
    CommitsCountTwice,
    TheEndsPassEachOther,
    TheEndsOverlap,
    ARankIsForgotten,
    LostLeasesStayLost,
    ABatchIsDealtTwice,
    BothRivalsWin,
    AStaleRivalIsTaken,
    GoingBackForgetsABatch,
    TokensBeginAnew,
    TheCutIsOffByOne,
    ExpiryForgetsTheRival,
    TheOtherEndIsRecorded,
    StrictOrderIsBroken,
    IsolationLosesThePlace,
    WindowsAreIgnored,
    DoomIsUndone,
    TheDeadKeepTheirLeases,
    AcknowledgementsGetLost,
    DamageIsCountedAsMade,
    WhoIsKilledIsBlamed,
    NobodyIsBlamed,
    DevicesDoNotRest,
    BatchesDoNotRest,
    ARestHasNoEnd,
    AFailedBatchIsForgotten,
    ThreeErrorsEndARun,
    ErrorsEndNoRun,
]
