"""What tests of the schedule share: a run with a few devices, and batches made without workers."""

from contextlib import suppress
from typing import Any

from ddlp.core.errors import Refused
from ddlp.core.mishap import Mishap
from ddlp.core.plan import RunPlan
from ddlp.core.schedule import Batch, Grant, Holder, Limits, Made, Pace, RunSchedule, strategy
from ddlp.core.schedule.strategies import Strategy
from ddlp.core.types import Prong

BOTH = {"cpu": (Prong.CPU, 1), "csd": (Prong.CSD, 1)}


def schedule(
    name: str | Strategy = "wrr",
    batches: int = 10,
    epochs: int = 2,
    world_size: int = 1,
    batch_size: int = 1,
    devices: dict[str, tuple[Prong, int]] = BOTH,
    **limits: Any,
) -> RunSchedule:
    """A run of batches that are full, served by one device a prong where nothing else is said."""
    plan = RunPlan(batches * batch_size, batch_size, epochs, 0, world_size)
    chosen = strategy(name) if isinstance(name, str) else name
    run = RunSchedule(plan, chosen, Limits(**limits))
    run.set_devices(devices)
    return run


def paced(run: RunSchedule, batches: int = 10, **batch_s: float) -> RunSchedule:
    """Have devices be known: what a batch takes on one slot of each."""
    for device, seconds in batch_s.items():
        prong = run.fleet.members[device].prong
        run.fleet.recall(device, prong, Pace(batches, seconds / run.plan.batch_size))
    return run


def made(device: str, seconds: float = 1.0, *bad: Mishap) -> Made:
    """A report of a finished batch."""
    return Made(device, f"/store/{device}", 4096, 7, seconds, seconds, bad)


def key(grant: Grant) -> tuple[int, int, int]:
    """What names a lease."""
    return grant.epoch, grant.index, grant.token


def claim(
    run: RunSchedule, grant: Grant, now: float = 0.0, device: str | None = None, process: int = 1
) -> float:
    """A process starts on a lease, by default one of the device called like its prong."""
    holder = Holder(device or grant.prong.value, process)
    return run.claim(*key(grant), holder, now)


def finish(
    run: RunSchedule, grant: Grant, now: float = 0.0, seconds: float = 1.0, *bad: Mishap
) -> Batch:
    """A device makes a batch from claim to commit."""
    claim(run, grant, now)
    assert run.commit(*key(grant), made(grant.prong.value, seconds, *bad), now)
    return find(run, grant)


def find(run: RunSchedule, grant: Grant) -> Batch:
    """The batch that a lease is of."""
    batch = run.find(grant.epoch, grant.index)
    assert batch is not None
    return batch


def work_off(run: RunSchedule, now: float = 0.0) -> int:
    """Make what is given out at once; how much that was. Of two that race, the first wins."""
    grants = run.top_up(now)
    for grant in grants:
        with suppress(Refused):
            finish(run, grant, now)
    return len(grants)


def make_all(run: RunSchedule, now: float = 0.0) -> None:
    """Make whatever is given out, until nothing more is."""
    while work_off(run, now):
        pass


def take(
    run: RunSchedule, count: int, now: float = 0.0, epoch: int = 0, done: int = 0
) -> list[Batch]:
    """Have so many batches made, dealt to rank 0 and consumed."""
    taken: list[Batch] = []
    for _ in range(10 * count + 10):
        work_off(run, now)
        taken += run.fetch(0, epoch, done + len(taken), 1)
        run.consume(0, epoch, done + len(taken))
        if len(taken) >= count:
            return taken
    raise AssertionError(f"{len(taken)} of {count} batches came")
