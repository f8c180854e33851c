"""What a rank waits for, in words: the batch, who has it, when that one was last heard of."""

from collections.abc import Mapping

from ddlp.core.schedule.batch import Batch
from ddlp.core.schedule.epoch import EpochSchedule
from ddlp.core.schedule.run import RunSchedule
from ddlp.core.types import BatchState, Prong


def explain_wait(
    run: RunSchedule, epoch: int, now: float, last_seen: Mapping[str, float] | None = None
) -> str:
    """What a rank that got nothing is waiting for, in one sentence, and what can be done."""
    held_up = run.held_up
    if held_up is not None and not run.resting and run.stands_still:
        return held_up
    schedule = run.epochs.get(epoch)
    if schedule is None:
        return f"epoch {epoch} is not open yet; other ranks are still in an earlier one"
    if run.resting:
        return f"room in a store; {held_up}"
    if run.is_ahead(schedule):
        done = schedule.acknowledged
        slowest = done.index(min(done))
        return (
            f"rank {slowest}, which has consumed {done[slowest]} of its batches of epoch {epoch} "
            f"while another has consumed {max(done)}; see whether it is alive"
        )
    oldest = _awaited(run, schedule)
    if oldest is None:
        return _failing(schedule, now) or (
            f"epoch {epoch} has no batch under way; see the server's log"
        )
    return (
        f"batch {oldest.index} of epoch {epoch}, held by {_holder(oldest, now, last_seen or {})} "
        f"for {now - oldest.leased_at:.1f} s (attempt {oldest.attempt}); its lease ends in "
        f"{max(0.0, oldest.deadline - now):.1f} s and it is then given out again"
        + (f"; {oldest.reason}" if oldest.deaths and oldest.reason else "")
    )


def blamed(run: RunSchedule, epoch: int) -> dict[Prong, float]:
    """Whose work a rank that got nothing waits for, as shares; empty: nobody is at work on it.

    Where the next batch may come from either end, both are waited for, each by what it makes. A
    batch that is made again for a step is waited for by itself.
    """
    schedule = run.epochs.get(epoch)
    if schedule is None or run.stands_still or run.is_ahead(schedule):
        return {}
    under_way = schedule.under_way.in_flight()
    at_work = {batch.prong for batch in under_way if batch.state is BatchState.LEASED}
    rates = run.fleet.rates()
    again = any(b.position is not None for b in under_way) or schedule.lost_steps()
    if len(run.wanted(schedule)) > 1 and not again:
        weights = {prong: rates[prong] or 1.0 for prong in sorted(at_work)}
        return {prong: weight / sum(weights.values()) for prong, weight in weights.items()}
    awaited = _awaited(run, schedule)
    return {awaited.prong: 1.0} if awaited is not None and awaited.prong in at_work else {}


def _failing(schedule: EpochSchedule, now: float) -> str | None:
    """Of the batches that wait for another attempt, the one that failed most."""
    waiting = [schedule.under_way[index] for index in sorted(schedule.frontier.returned)]
    batch = max(waiting, key=lambda batch: batch.failed.count, default=None)
    if batch is None or not batch.failed.count:
        return None
    return (
        f"batch {batch.index} of epoch {schedule.number}, which {batch.failed.told(now)} and is "
        f"tried again in {max(0.0, batch.failed.until - now):.1f} s: {batch.reason}"
    )


def _awaited(run: RunSchedule, schedule: EpochSchedule) -> Batch | None:
    """The batch that is due first of those under way."""
    under_way = schedule.under_way.in_flight()
    due = run.urgent(schedule)
    steps = [batch for batch in under_way if batch.position is not None]
    waiting = steps or [batch for batch in under_way if batch.index in due] or under_way
    return min(waiting, key=lambda batch: batch.leased_at, default=None)


def _holder(batch: Batch, now: float, last_seen: Mapping[str, float]) -> str:
    if batch.device is None:
        return f"queue {batch.prong} and not picked up yet"
    seen = last_seen.get(batch.device)
    return (
        batch.device if seen is None else f"{batch.device} (last heard of {now - seen:.1f} s ago)"
    )
