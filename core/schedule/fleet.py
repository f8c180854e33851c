"""The devices that serve a run, and how fast each is.

A device's pace is what it needs for a sample, followed by a geometric average: a batch that took a
hundred times as long moves it no further than one that took a hundredth, and a device that recovers
is believed after a few batches. While a batch takes longer than the pace says, its own time counts
for the slot that makes it.

A device that fails twice in a row rests, longer each time; then it is tried with one slot until it
has made a batch. While it rests it counts as if it were not there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ddlp.core.schedule.failures import rest_s
from ddlp.core.types import Prong

_WEIGHT = 0.25
_LEAST_S = 1e-7
_MOST_S = 1e6
"""What a sample takes lies between these two, whatever is reported."""


@dataclass
class Pace:
    """Seconds that one worker slot of a device needs for a sample."""

    batches: int = 0
    sample_s: float = 0.0

    def add(self, seconds: float, samples: int) -> None:
        """Take one finished batch into account."""
        found = min(max(_LEAST_S, seconds / max(1, samples)), _MOST_S)
        self.batches += 1
        weight = max(_WEIGHT, 1 / self.batches)
        known = math.log(self.sample_s) if self.batches > 1 else 0.0
        self.sample_s = math.exp((1 - weight) * known + weight * math.log(found))


@dataclass
class Member:
    """One device: where it works from, how many worker slots it has, and its pace."""

    prong: Prong
    slots: int = 0
    """None while it is not alive."""
    pace: Pace = field(default_factory=Pace)
    waiting_s: list[float] = field(default_factory=list)
    """How long the batches that its slots are at have taken so far."""
    failures: int = 0
    """Attempts in a row that failed; those that fail while it rests are not counted."""
    reason: str = ""
    """Why the last one failed."""
    rests_until: float | None = None
    made_at: float | None = None

    @property
    def usable(self) -> int:
        """Slots that are given work."""
        if self.rests_until is not None:
            return 0
        return self.slots if self.failures < 2 else min(1, self.slots)


@dataclass
class Fleet:
    """All devices that ever served a run."""

    batch_size: int
    members: dict[str, Member] = field(default_factory=dict)
    _known: dict[Prong, tuple[int, float | None]] = field(default_factory=dict)
    """Slots and seconds a batch by prong, until something changes."""

    def set_devices(self, devices: Mapping[str, tuple[Prong, int]]) -> None:
        """Which devices serve now, with their prong and slots; the others are gone."""
        self._known = {}
        for name, member in self.members.items():
            if name not in devices:
                member.slots = 0
        for name, (prong, slots) in devices.items():
            member = self.members.setdefault(name, Member(prong))
            member.prong, member.slots = prong, slots

    def recall(self, device: str, prong: Prong, pace: Pace) -> None:
        """Use what was learned of a device in an earlier run."""
        self._known = {}
        member = self.members.setdefault(device, Member(prong))
        if not member.pace.batches and _LEAST_S <= pace.sample_s <= _MOST_S:
            member.pace = pace

    def learn(self, device: str, seconds: float, samples: int) -> None:
        """A device has made a batch."""
        if device in self.members:
            self._known = {}
            self.members[device].pace.add(seconds, samples)

    def failed(self, device: str, reason: str, now: float) -> bool:
        """A device could not make a batch; whether it rests from now on."""
        member = self.members.get(device)
        if member is None:
            return False
        member.reason = reason
        if self.rest_s(device, now):
            return False  # begun before
        member.failures += 1
        if member.failures < 2:
            return False
        self._known = {}
        member.rests_until = now + rest_s(member.failures)
        return True

    def succeeded(self, device: str, now: float) -> None:
        """A device has made a batch: its failures are over, unless it rests."""
        member = self.members.get(device)
        if member is None:
            return
        member.made_at = now
        if member.failures and not self.rest_s(device, now):
            self._known = {}
            member.failures, member.rests_until = 0, None

    def begin_anew(self, device: str) -> None:
        """A device was started anew: what failed before counts no more."""
        if device in self.members:
            self._known = {}
            member = self.members[device]
            member.failures, member.rests_until = 0, None

    def look(self, now: float) -> None:
        """Wake the devices that have rested."""
        for member in self.members.values():
            if member.rests_until is not None and member.rests_until <= now:
                self._known = {}
                member.rests_until = None

    def rest_s(self, device: str, now: float) -> float:
        """Seconds for which a device is given no work."""
        member = self.members.get(device)
        until = None if member is None else member.rests_until
        return 0.0 if until is None else max(0.0, until - now)

    def made_since(self, device: str, began: float) -> bool:
        """Whether a device made a batch after some moment."""
        member = self.members.get(device)
        return member is not None and member.made_at is not None and member.made_at > began

    def resting(self, prongs: Iterable[Prong]) -> dict[str, Member]:
        """The devices of some prongs that are alive and rest."""
        wanted = set(prongs)
        return {
            name: member
            for name, member in sorted(self.members.items())
            if member.prong in wanted and member.slots and member.rests_until is not None
        }

    def usable(self, prong: Prong) -> list[str]:
        """The devices of a prong that are given work."""
        return [n for n, m in self.members.items() if m.prong is prong and m.usable]

    def note_waiting(self, waiting_s: Mapping[str, list[float]]) -> None:
        """How long each device has been at the batches that it makes."""
        self._known = {}
        for name, member in self.members.items():
            member.waiting_s = waiting_s.get(name, [])

    def slots(self, prong: Prong) -> int:
        """Worker slots of a prong that are given work."""
        return self._figures(prong)[0]

    def alive(self, prongs: Iterable[Prong]) -> set[Prong]:
        """The prongs that have a device which is given work."""
        return {prong for prong in prongs if self.slots(prong)}

    def device_s(self, device: str | None) -> float | None:
        """What a batch takes on one slot of a device; its prong's figure while it has none."""
        member = self.members.get(device or "")
        if member is None:
            return None
        return self._batch_s(member) or self.batch_s(member.prong)

    def batch_s(self, prong: Prong) -> float | None:
        """What a batch takes on one slot of a prong, over its live devices."""
        return self._figures(prong)[1]

    def per_s(self, prong: Prong) -> float | None:
        """Batches a second of a prong's live devices together; None while nothing is known."""
        each_s = self.batch_s(prong)
        return None if each_s is None else self.slots(prong) / each_s

    def rates(self) -> dict[Prong, float | None]:
        """Batches a second by prong."""
        return {prong: self.per_s(prong) for prong in Prong}

    def calibrated(self, prong: Prong, batches: int) -> bool:
        """Whether every live device of a prong has made so many batches."""
        live = self._live(prong)
        return bool(live) and all(member.pace.batches >= batches for member in live)

    def _figures(self, prong: Prong) -> tuple[int, float | None]:
        if prong not in self._known:
            live = self._live(prong)
            known = [(m.usable, s) for m in live if (s := self._batch_s(m)) is not None]
            each_s = None
            if known:
                each_s = sum(slots for slots, _ in known) / sum(slots / s for slots, s in known)
            self._known[prong] = sum(member.usable for member in live), each_s
        return self._known[prong]

    def _live(self, prong: Prong) -> list[Member]:
        return [m for m in self.members.values() if m.prong is prong and m.usable]

    def _batch_s(self, member: Member) -> float | None:
        if not member.pace.batches:
            return None
        usual_s = member.pace.sample_s * self.batch_size
        late = [seconds for seconds in member.waiting_s if seconds > usual_s]
        slots = max(member.slots, len(late), 1)
        per_s = (slots - len(late)) / usual_s + sum(1 / seconds for seconds in late)
        return slots / per_s
