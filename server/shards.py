"""Which shards of a packing are to be sent, out, or there: pure, with the time passed in.

A shard is out from when a message with it was sent. A process that claims it is known by a token
from then on, and gives signs of life; one that falls silent, or whose device is gone, has lost it.
Whoever lost it is told so and listened to no more, except when it says that the shard is there:
that is true whoever made it.
"""

import uuid
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass

from ddlp.core.errors import Conflict, Held, NotFound, Refused
from ddlp.core.messages import ShardReport

ATTEMPTS = 5
SILENCE_S = 60.0
"""How long nothing may be heard of a shard; unclaimed ones get several times the slowest."""
_SLOWER = 4.0
_PAUSE_S = 1.0
"""Before the second attempt; twice as long before each further one."""
_RATE_OVER_S = 30.0


@dataclass(frozen=True)
class Holder:
    """A process of a device that packs a shard."""

    device: str
    incarnation: uuid.UUID
    process: int
    token: uuid.UUID


@dataclass
class _Out:
    """A shard that somebody is to pack, or packs."""

    heard_at: float
    """When it was sent, claimed, or heard of last."""
    holder: Holder | None = None
    samples: int = 0

    @property
    def token(self) -> uuid.UUID | None:
        """By which its holder is known; None before it is claimed."""
        return self.holder.token if self.holder else None


class Shards:
    """The shards of one packing."""

    def __init__(self, counts: list[int]) -> None:
        self.counts = counts
        """Samples of each shard."""
        self.done: dict[int, ShardReport] = {}
        self.doom: str | None = None
        """Why it cannot be finished."""
        self._waiting = set(range(len(counts)))
        self._out: dict[int, _Out] = {}
        self._attempts: Counter[int] = Counter()
        self._not_before: dict[int, float] = {}
        self._slowest_s = 0.0
        self._devices: dict[str, uuid.UUID] = {}
        self._seen: deque[tuple[float, int]] = deque()

    @property
    def finished(self) -> bool:
        """Whether all of them are there."""
        return len(self.done) == len(self.counts)

    @property
    def out(self) -> int:
        """How many are in the queue or being packed."""
        return len(self._out)

    @property
    def samples_done(self) -> int:
        """Samples that are packed, those of unfinished shards too."""
        whole = sum(self.counts[number] for number in self.done)
        return whole + sum(out.samples for out in self._out.values())

    def take(self, now: float) -> int | None:
        """The next shard to be sent, if there is one."""
        due = (number for number in self._waiting if self._not_before.get(number, now) <= now)
        number = min(due, default=None)
        if number is not None:
            self._waiting.remove(number)
            self._out[number] = _Out(now)
        return number

    def claim(self, number: int, claimer: Holder, now: float, dead: int | None = None) -> None:
        """A process of a device starts on a shard; `dead` is one that it knows to have died.

        Raises `Held` where another of its device is at it: a message may have come twice, or again
        because its first process died.
        """
        self._check(number)
        out = self._out.get(number)
        held = out.holder if out else None
        if held is not None and held.device != claimer.device:
            raise Refused(f"shard {number} is being packed by {held.device}; leave it to that")
        if held is not None and held.incarnation == claimer.incarnation:
            if held.process not in (dead, claimer.process):
                raise Held(f"shard {number} is being packed", held.process)
            if held.process == dead:
                self._lose(number, "its process died", now)
                if self.doom is not None:
                    raise Refused(self.doom)
        self._waiting.discard(number)
        self._attempts[number] += 1
        self._out[number] = _Out(now, claimer)

    def hear(self, number: int, teller: Holder, samples: int, now: float) -> bool:
        """A sign of life; whether to go on, as only the holder should.

        One that nobody else has claimed is taken in: it began under an earlier server.
        """
        if self.doom is not None or number in self.done or not 0 <= number < len(self.counts):
            return False
        self._waiting.discard(number)
        out = self._out.setdefault(number, _Out(now))
        if out.holder is None:
            out.holder = teller
        if out.token != teller.token:
            return False
        out.heard_at = now
        out.samples = max(out.samples, min(samples, self.counts[number]))
        return True

    def report(self, report: ShardReport, now: float) -> None:
        """A shard is there, whoever says so; or its holder knows why not."""
        number = report.shard
        if not 0 <= number < len(self.counts):
            raise NotFound(f"there is no shard {number}; there are {len(self.counts)}")
        if number in self.done:
            return
        if report.problem is None:
            self._finish(report)
        elif number in self._out and self._out[number].token == report.token:
            if report.permanent:
                self.doom = self.doom or report.problem
            if report.token is None:  # it did not come as far as claiming it
                self._attempts[number] += 1
            self._lose(number, report.problem, now)

    def expire(self, now: float, devices: Mapping[str, uuid.UUID]) -> None:
        """Take back what nothing was heard of for long, and what devices held that are gone.

        `devices` are those that are alive and might pack it.
        """
        self._look_at_rate(now)
        unclaimed_s = max(SILENCE_S, _SLOWER * self._slowest_s)
        lost = any(devices.get(name) != known for name, known in self._devices.items())
        self._devices = dict(devices)
        for number, out in list(self._out.items()):
            if out.holder is None:
                # A message may be lost with the device that took it, or wait behind others.
                if lost or now - out.heard_at > unclaimed_s:
                    self._back(number)
            elif devices.get(out.holder.device) != out.holder.incarnation:
                self._lose(number, f"device {out.holder.device} was not heard of any more", now)
            elif now - out.heard_at > SILENCE_S:
                self._lose(number, f"a process of {out.holder.device} stopped at it", now)

    def images_per_s(self, now: float) -> float | None:
        """How fast it went during the last half minute."""
        if not self._seen:
            return None
        (began, before), done = self._seen[0], self.samples_done
        return (done - before) / (now - began) if now - began >= 1 and done > before else None

    def _look_at_rate(self, now: float) -> None:
        if not self._seen or now - self._seen[-1][0] >= 1:
            self._seen.append((now, self.samples_done))
        while len(self._seen) > 2 and now - self._seen[0][0] > _RATE_OVER_S:
            self._seen.popleft()

    def _check(self, number: int) -> None:
        if not 0 <= number < len(self.counts):
            raise NotFound(f"there is no shard {number}; there are {len(self.counts)}")
        if number in self.done:
            raise Refused(f"shard {number} is there already; drop it")
        if self.doom is not None:
            raise Conflict(f"it has failed: {self.doom}")

    def _finish(self, report: ShardReport) -> None:
        number = report.shard
        self._out.pop(number, None)
        self._waiting.discard(number)
        self.done[number] = report
        self._slowest_s = max(self._slowest_s, report.seconds)

    def _lose(self, number: int, reason: str, now: float) -> None:
        """An attempt came to nothing."""
        tries = self._attempts[number]
        if tries >= ATTEMPTS and self.doom is None:
            self.doom = f"shard {number} was tried {tries} times; last: {reason}"
        self._not_before[number] = now + _PAUSE_S * 2 ** max(0, tries - 1)
        self._back(number)

    def _back(self, number: int) -> None:
        del self._out[number]
        self._waiting.add(number)
