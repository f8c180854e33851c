"""What a rank waits for, in words."""

from ddlp.core.schedule.run import RunSchedule


def explain_wait(run: RunSchedule, rank: int, epoch: int, now: float) -> str:
    """What a rank that got nothing is waiting for, in one sentence."""
    prongs = run.strategy.prongs
    if not any(run.slots[prong] for prong in prongs):
        wanted = " or ".join(prongs)
        return f"no live device serves {wanted}; start one with: ddlp worker --prong {prongs[0]}"
    schedule = run.epochs.get(epoch)
    if schedule is None:
        return f"epoch {epoch} is not open yet; other ranks are still in an earlier one"
    waiting = schedule.under_way.in_flight()
    due = run.strategy.due(schedule, rank)
    waiting = [batch for batch in waiting if batch.index == due] or waiting
    if not waiting:
        return f"epoch {epoch} has no batch under way"
    oldest = min(waiting, key=lambda batch: batch.leased_at)
    holder = oldest.device or f"queue {oldest.prong}, not picked up yet"
    return (
        f"batch {oldest.index} of epoch {epoch}, held by {holder} for "
        f"{now - oldest.leased_at:.1f} s (attempt {oldest.attempt}); its lease ends in "
        f"{max(0.0, oldest.deadline - now):.1f} s and it is then given out again"
    )
