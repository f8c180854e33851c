"""The last minutes of a run, span by span: bounded, in memory, kept once when the run is over."""

import json
import uuid
import zlib
from collections import deque
from dataclasses import dataclass

from ddlp.core.messages import Commit, TrainerAccount
from ddlp.core.messages.timeline import MAX_SPANS, LaneInfo, LaneKind, SpanInfo, TimelineInfo
from ddlp.core.types import Activity, Prong

KEPT_S = 300.0
_OF_READER = (Activity.READ, Activity.TRANSFER)


@dataclass(frozen=True)
class Maker:
    """A device, as the timeline shows it."""

    name: str
    prong: Prong
    emulated: bool
    clock: uuid.UUID
    """Names the clock that it tells times by."""


class Timeline:
    """Who did what when."""

    def __init__(self) -> None:
        self._lanes: list[LaneInfo] = []
        self._numbers: dict[tuple[LaneKind, str], int] = {}
        self._spans: deque[SpanInfo] = deque()
        self._dropped = 0
        self._clocks: dict[uuid.UUID, float] = {}

    def add_made(self, maker: Maker, commit: Commit, sent_s: float, now: float) -> None:
        """A device has made a batch, and says so now."""
        lane = self._lane(maker.name, LaneKind(maker.prong.value), maker.emulated)
        lease = commit.lease
        ended_at = commit.ended_s + self._ahead_s(maker.clock, sent_s, now)
        start_at = ended_at - commit.seconds
        self._put(lane, Activity.MAKE, start_at, commit.seconds, lease.epoch, lease.index)

    def add_steps(self, rank: int, session: uuid.UUID, account: TrainerAccount, now: float) -> None:
        """A rank tells what it did."""
        self._dropped += account.dropped
        ahead_s = self._ahead_s(session, account.sent_s, now)
        for span in account.spans:
            reads = span.activity in _OF_READER
            lane = (
                self._lane(f"rank {rank} reads", LaneKind.READER)
                if reads
                else self._lane(f"rank {rank}", LaneKind.TRAINER)
            )
            start_at = span.start_s + ahead_s
            self._put(
                lane, span.activity, start_at, span.seconds, span.epoch, span.batch, span.note
            )

    def copied(self) -> "Timeline":
        """As it is now, to be looked at in another thread."""
        found = Timeline()
        found._lanes, found._spans = list(self._lanes), deque(self._spans)
        found._dropped = self._dropped
        return found

    def info(self, now: float, seconds: float = KEPT_S) -> TimelineInfo:
        """What happened in the last seconds."""
        since = now - seconds
        spans = [span for span in self._spans if span.end_at >= since]
        return TimelineInfo(now=now, lanes=self._lanes, spans=spans, dropped=self._dropped)

    def pack(self, now: float) -> bytes | None:
        """All of it, to be kept; None where there is nothing."""
        if not self._spans:
            return None
        last = max(span.end_at for span in self._spans)
        return zlib.compress(self.info(min(now, last)).model_dump_json().encode())

    def _ahead_s(self, clock: uuid.UUID, sent_s: float, now: float) -> float:
        """By how much the server's clock is ahead of another: as the quickest message shows it."""
        self._clocks[clock] = min(self._clocks.get(clock, now - sent_s), now - sent_s)
        return self._clocks[clock]

    def _lane(self, name: str, kind: LaneKind, emulated: bool = False) -> int:
        key = kind, name
        if key not in self._numbers:
            self._numbers[key] = len(self._lanes)
            self._lanes.append(LaneInfo(name=name, kind=kind, emulated=emulated))
        return self._numbers[key]

    def _put(
        self,
        lane: int,
        activity: Activity,
        start_at: float,
        seconds: float,
        epoch: int,
        batch: int | None,
        note: str = "",
    ) -> None:
        span = SpanInfo.model_construct(
            lane=lane,
            activity=activity,
            start_at=start_at,
            seconds=seconds,
            epoch=epoch,
            batch=batch,
            note=note,
        )
        self._spans.append(span)
        while self._spans[0].end_at < start_at - KEPT_S:
            self._spans.popleft()
        if len(self._spans) > MAX_SPANS:
            self._spans.popleft()
            self._dropped += 1


def unpack(body: bytes) -> TimelineInfo:
    """What was kept of a run that is over."""
    return TimelineInfo.model_validate(json.loads(zlib.decompress(body)))
