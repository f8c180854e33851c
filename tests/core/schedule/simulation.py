"""Drives the scheduling core with a virtual clock and seeded faults, and checks its promises.

    python -m tests.core.schedule.simulation --seed 1234 --strategy wrr --level 1

replays what a test found, and prints what happened.
"""

import argparse
import heapq
import random
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import TypeVar

from ddlp.core.errors import Refused, Unavailable
from ddlp.core.plan import Places
from ddlp.core.schedule import Grant, Made, RunSchedule
from ddlp.core.types import Prong
from tests.core.schedule.producers import Device, Message
from tests.core.schedule.scenario import NAMES, Scenario, draw
from tests.core.schedule.service import Service
from tests.core.schedule.trainers import Job

_TICK_S = 1.0
_MOST_FAULTS = 50
_PATIENCE_S = 2_000.0
"""Within this time after the last fault a run must be over."""
T = TypeVar("T")


class Store:
    """Where made batches lie: what is in each, under its token."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int, int], tuple[str, Places]] = {}
        self._excused: set[tuple[int, int, int]] = set()

    def write(self, device: str, grant: Grant, seconds: float) -> Made:
        """A device publishes a batch."""
        key = grant.epoch, grant.index, grant.token
        self._held[key] = device, grant.places
        self._excused.discard(key)
        return Made(device, f"{device}/{key}", 4096, hash(grant.places) & 0xFF, seconds, seconds)

    def read(self, epoch: int, index: int, token: int) -> Places | None:
        """What is in a batch; None where it may be gone, and is."""
        key = epoch, index, token
        if key in self._held:
            return self._held[key][1]
        assert key in self._excused, f"batch {key} was handed out and is not there"
        return None

    def release(self, epoch: int, index: int, token: int) -> None:
        """A rank has used a batch."""
        self._held.pop((epoch, index, token), None)
        self._excused.add((epoch, index, token))

    def drop(self, epoch: int, index: int, token: int) -> None:
        """Nobody will read a batch."""
        self._held.pop((epoch, index, token), None)

    def wipe(self, device: str) -> None:
        """All that a device stored is gone."""
        for key in [key for key, (owner, _) in self._held.items() if owner == device]:
            self.release(*key)


class Simulation:
    """One run: queues, devices, ranks and a server that share a clock."""

    def __init__(
        self,
        scenario: Scenario,
        schedule: type[RunSchedule] = RunSchedule,
        trace: Callable[[str], None] | None = None,
    ) -> None:
        self.scenario, self.plan = scenario, scenario.plan
        self.chance = random.Random(scenario.seed)
        self.now = 0.0
        self._trace = trace
        self._numbers = count()
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._faults, self._last_fault_at = 0, 0.0
        self._queues: dict[Prong, list[Message]] = {prong: [] for prong in Prong}
        self.store = Store()
        self.service = Service(scenario, schedule, self.fault, self._send, self.store.drop)
        self.checks = self.service.checks
        self.devices: list[Device] = []
        for spec in scenario.devices:
            self.devices.append(Device(self, spec))
        self.job = Job(self, scenario.plan.world_size)

    def run(self) -> None:
        """Until the run is over, and then check all of it."""
        # A batch that kills its workers may use up all its attempts before it is given up.
        patience_s = _PATIENCE_S * (1 if self.scenario.poison is None else 5)
        self.job.start()
        self._tick()
        while not self.service.over:
            self.now, _, event = heapq.heappop(self._events)
            event()
            waited_s = self.now - self._last_fault_at
            assert waited_s < patience_s, f"it has not ended {waited_s:.0f} s after the last fault"
        self.checks.at_end(self.service.records)

    def after(self, seconds: float, event: Callable[[], object]) -> None:
        """Have something happen later."""
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), event))

    def call(self, action: Callable[[], T]) -> T:
        """Ask the server for something."""
        return self.service.call(self.now, action)

    def log(self, what: str) -> None:
        """Say what happens, where somebody listens."""
        if self._trace is not None:
            self._trace(f"{self.now:10.2f}  {what}")

    def fault(self, name: str) -> bool:
        """Whether a fault happens here and now."""
        likely = getattr(self.scenario.faults, name)
        if not likely or self._faults >= _MOST_FAULTS or self.chance.random() >= likely:
            return False
        self._faults += 1
        self._last_fault_at = self.now
        self.log(f"fault: {name}")
        return True

    def is_poison(self, grant: Grant) -> bool:
        """Whether a batch kills whoever makes it."""
        return _holds(grant, self.scenario.poison)

    def is_spoilt(self, grant: Grant) -> bool:
        """Whether nobody can make a batch."""
        return _holds(grant, self.scenario.spoilt)

    def can_do_without(self, device: Device) -> bool:
        """Whether another device stays that can make all that is left."""
        prongs = self.service.strategy.prongs
        return any(d is not device and not d.lost and d.prong in prongs for d in self.devices)

    # Queues

    def _send(self, prong: Prong, grants: list[Grant]) -> None:
        size = self.service.schedule.message_leases(prong)
        for at in range(0, len(grants), size):
            message = Message(prong, tuple(grants[at : at + size]))
            self.log(f"{prong} is sent {[(g.epoch, g.index, g.token) for g in message.leases]}")
            if self.fault("message_lost"):
                continue
            late_s = self.chance.uniform(1.0, 200.0) if self.fault("message_late") else 0.01
            self.after(late_s, lambda m=message: self.put(m))
            if self.fault("message_doubled"):
                self.after(self.chance.uniform(0.0, 5.0), lambda m=message: self.put(m))

    def put(self, message: Message) -> None:
        """A message arrives in its queue."""
        queue = self._queues[message.prong]
        out_of_turn = self.fault("message_reordered")
        place = self.chance.randint(0, len(queue)) if out_of_turn else len(queue)
        queue.insert(place, message)
        self.deliver(message.prong)

    def deliver(self, prong: Prong) -> None:
        """Idle processes take what is queued."""
        queue = self._queues[prong]
        while queue:
            reached = [d for d in self.devices if d.prong is prong and not d.silent]
            idle = [process for device in reached for process in device.idle]
            if not idle:
                return
            self.chance.choice(idle).take(queue.pop(0))

    def _tick(self) -> None:
        with suppress(Refused, Unavailable):
            self.call(self._maybe_switch)
        with suppress(Refused, Unavailable):
            self.call(self._maybe_limit)
        self.after(_TICK_S, self._tick)

    def _maybe_switch(self) -> None:
        if not self.fault("switched"):
            return
        alive = {device.prong for device in self.devices if not device.lost}
        names = [name for name in NAMES if name != "replay"]
        wanted = draw(0, self.chance.choice(names), 0.0).strategy
        if alive & set(wanted.prongs):
            self.log(f"the strategy is {wanted.name} from now on")
            self.checks.unsteady |= set(range(self.plan.epochs))
            self.service.switch(wanted)

    def _maybe_limit(self) -> None:
        if self.fault("limited"):
            stored = {prong: self.chance.choice([1, 2, 5, 20]) for prong in Prong}
            self.log(f"the stores may hold {stored} from now on")
            self.service.limit(stored)


def _holds(grant: Grant, place: int | None) -> bool:
    return place is not None and any(first <= place < stop for first, stop in grant.places)


def simulate(
    seed: int, name: str, level: float, schedule: type[RunSchedule] = RunSchedule
) -> Simulation:
    """Run the scenario of a seed to its end; what fails says how to see it again."""
    scenario = draw(seed, name, level)
    try:
        simulation = Simulation(scenario, schedule)
        simulation.run()
    except Exception as error:
        raise AssertionError(f"{error!r}; replay it with: {scenario.command}") from error
    return simulation


def main() -> None:
    """Replay one seed and print what happens."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--strategy", choices=NAMES, required=True)
    parser.add_argument("--level", type=float, default=1.0, help="how likely faults are")
    chosen = parser.parse_args()
    scenario = draw(chosen.seed, chosen.strategy, chosen.level)

    def trace(line: str) -> None:
        sys.stdout.write(f"{line}\n")

    trace(f"{scenario}")
    Simulation(scenario, trace=trace).run()
    trace("every promise was kept")


if __name__ == "__main__":
    main()
