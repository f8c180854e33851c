"""Simulated devices: processes that take messages, make batches, report them, and die over it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddlp.core.errors import DdlpError, Refused, Unavailable
from ddlp.core.schedule import Death, Grant, Holder
from ddlp.core.types import Prong
from tests.core.schedule.scenario import DeviceSpec

if TYPE_CHECKING:
    from tests.core.schedule.simulation import Simulation

_BEAT_S = 2.0
_GRACE_S = 10.0
_ERROR_S = 0.01
_REST_S = 1.0
_RETRY_S = 0.7
_RETRIES = 20
_KILLED, _CRASHED = Death(-signal.SIGKILL), Death(-signal.SIGSEGV)
_POINTS = ("before the claim", "after the claim", "before the report", "after the report")


@dataclass(frozen=True)
class Message:
    """A wake-up in a queue."""

    prong: Prong
    leases: tuple[Grant, ...]


class Process:
    """One worker process: a message at a time, a batch after the other."""

    def __init__(self, world: Simulation, device: Device, number: int) -> None:
        self._world, self._device, self.number = world, device, number
        self.alive = True
        self.message: Message | None = None
        self._todo: list[tuple[Grant, float]] = []
        self._end: str | None = None
        self._rests = False

    def take(self, message: Message) -> None:
        """Claim the leases of a message and begin with the first."""
        self.message = message
        self._end, self._rests = None, False
        if self._world.fault("process_killed"):
            self._end = self._world.chance.choice(_POINTS)
        if self._end == "before the claim":
            return self.die()
        self._todo = self._claim(list(message.leases), None)
        if self._end == "after the claim":
            return self.die()
        if self._rests:
            return self._world.after(_REST_S, self._if_alive(self._begin))
        return self._begin()

    def die(self, death: Death = _KILLED) -> None:
        """The process ends; its message comes back to a queue, its place is taken by another."""
        self._world.log(f"process {self.number} of {self._device.name} dies")
        self.alive = False
        message = self.message
        if message is not None and self._world.chance.random() < 0.8:
            self._world.after(1.0, lambda: self._world.put(message))
        self._device.replace(self, death)

    def _claim(self, leases: list[Grant], dead: int | None) -> list[tuple[Grant, float]]:
        world, holder = self._world, Holder(self._device.name, self.number)
        if self._device.silent:
            return []
        try:
            how = None if dead is None else (dead, self._device.dead[dead])
            claimed = world.call(lambda: world.service.claim(holder, leases, how, world.now))
        except (Refused, Unavailable):
            return []
        self._rests = claimed.rests and not claimed.granted
        for _, process in claimed.held:
            if process != dead and process in self._device.dead:
                again = [grant for grant, held_by in claimed.held if held_by == process]
                return claimed.granted + self._claim(again, process)
        return claimed.granted

    def _begin(self) -> None:
        self._todo = [(g, deadline) for g, deadline in self._todo if deadline > self._world.now]
        if not self._todo:
            self.message = None
            self._world.deliver(self._device.prong)
            return
        _, deadline = self._todo[0]
        if self._device.broken or self._world.is_spoilt(self._todo[0][0]):
            self._world.after(_ERROR_S, self._if_alive(self._fail))
            return
        takes_s = self._device.batch_s()
        ended_after_s = deadline - self._world.now + _GRACE_S
        if takes_s > ended_after_s:
            self._world.after(ended_after_s, self._if_alive(self.die))
        else:
            self._world.after(takes_s, self._if_alive(lambda: self._finish(takes_s)))

    def _finish(self, seconds: float) -> None:
        grant, _ = self._todo[0]
        if self._world.is_poison(grant):
            self._world.checks.crashes[grant.epoch, grant.index] += 1
            return self.die(_CRASHED)
        if self._end == "before the report":
            return self.die()
        self._todo.pop(0)
        if self._world.fault("store_full"):
            self._report(lambda: self._world.service.no_room(grant, self._world.now))
        else:
            self._publish(grant, seconds)
        if self._end == "after the report":
            return self.die()
        return self._begin()

    def _fail(self) -> None:
        """The batch at hand cannot be made."""
        grant, _ = self._todo.pop(0)
        world, name = self._world, self._device.name
        self._report(lambda: world.service.fail(grant, name, world.now))
        self._begin()

    def _publish(self, grant: Grant, seconds: float) -> None:
        world = self._world
        made = world.store.write(self._device.name, grant, seconds)

        def commit() -> None:
            try:
                world.service.commit(grant, made, world.now)
            except Refused:
                world.store.drop(grant.epoch, grant.index, grant.token)
                raise

        self._report(commit)
        if world.fault("report_doubled"):
            self._report(commit)
        if world.fault("report_late"):
            world.after(world.chance.uniform(1.0, 200.0), lambda: self._report(commit))

    def _report(self, report: Callable[[], None], tries: int = _RETRIES) -> None:
        world = self._world
        try:
            if self._device.silent:
                raise Unavailable("the network is down")
            world.call(report)
        except Unavailable:
            if tries:
                again = self._if_alive(lambda: self._report(report, tries - 1))
                world.after(_RETRY_S, again)
        except DdlpError as error:
            world.log(f"refused: {error}")

    def _if_alive(self, action: Callable[[], None]) -> Callable[[], None]:
        return lambda: action() if self.alive else None


class Device:
    """A machine with some processes; it beats, stalls, falls silent, dies and comes back."""

    def __init__(self, world: Simulation, spec: DeviceSpec) -> None:
        self.name, self.prong = spec.name, spec.prong
        self._world, self._spec = world, spec
        self.up, self.silent, self.lost, self.broken = True, False, False, False
        self.dead: dict[int, Death] = {}
        self._factor = 1.0
        self._incarnation = 0
        self._numbers = 0
        self.processes: list[Process] = []
        self._start()

    @property
    def idle(self) -> list[Process]:
        """Processes that wait for a message."""
        return [process for process in self.processes if process.message is None]

    def batch_s(self) -> float:
        """How long a batch takes that is begun now."""
        return self._spec.batch_s * self._factor * self._world.chance.uniform(0.9, 1.1)

    def replace(self, dead: Process, death: Death) -> None:
        """Another process takes the place of a dead one."""
        self.dead[dead.number] = death
        self.processes.remove(dead)
        incarnation = self._incarnation
        self._world.after(0.5, lambda: self._spawn() if incarnation == self._incarnation else None)

    def _start(self) -> None:
        self.up = True
        self._incarnation += 1
        for _ in range(self._spec.slots):
            self._spawn()
        self._beat(self._incarnation)

    def _spawn(self) -> None:
        if self.up:
            self._numbers += 1
            self.processes.append(Process(self._world, self, self._numbers))
            self._world.deliver(self.prong)

    def _beat(self, incarnation: int) -> None:
        world = self._world
        if incarnation != self._incarnation:
            return
        if not self.silent:
            spec = self._spec
            known = self.name, self.prong, spec.slots, incarnation
            with suppress(Refused, Unavailable):
                world.call(lambda: world.service.heard_of(*known, world.now))
        self._suffer()
        world.after(_BEAT_S, lambda: self._beat(incarnation))

    def _suffer(self) -> None:
        """What can happen to a whole device."""
        world, chance = self._world, self._world.chance
        if world.fault("device_slow"):
            self._slow_down(100.0, chance.uniform(5.0, 60.0))
        if world.fault("device_stalled"):
            self._slow_down(1e6, chance.uniform(5.0, 60.0))
        if world.fault("device_fails"):
            self.broken = True
            world.after(chance.uniform(0.2, 40.0), lambda: setattr(self, "broken", False))
        if world.fault("device_silent"):
            self.silent = True
            world.after(chance.uniform(1.0, 30.0), self._speak_again)
        if world.can_do_without(self) and world.fault("device_lost"):
            self.lost = True
            self._kill()
        elif world.fault("device_wiped"):
            world.store.wipe(self.name)
            self._reboot()
        elif world.fault("device_killed"):
            self._reboot()

    def _slow_down(self, factor: float, seconds: float) -> None:
        self._factor = factor
        self._world.after(seconds, lambda: setattr(self, "_factor", 1.0))

    def _speak_again(self) -> None:
        self.silent = False
        self._world.deliver(self.prong)

    def _reboot(self) -> None:
        self._kill()
        self._world.after(self._world.chance.uniform(0.1, 20.0), self._start)

    def _kill(self) -> None:
        self.up = False
        self._incarnation += 1
        for process in list(self.processes):
            process.die()
        self.processes = []
