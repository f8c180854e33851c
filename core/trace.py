"""A timeline as trace events, the JSON that Perfetto and chrome://tracing show.

In a trace, a *process* is one kind of lane (all CPU devices, all readers), and a *thread* is a
*track*: a part of a lane in which only one thing happens at a time. A device with several worker
processes has as many tracks as batches that it made at once.
"""

import heapq
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from ddlp.core.messages.timeline import LaneInfo, LaneKind, SpanInfo, TimelineInfo

_PROCESSES = {
    LaneKind.CPU: "CPU prong",
    LaneKind.CSD: "CSD prong",
    LaneKind.READER: "readers",
    LaneKind.TRAINER: "trainers",
}
_PIDS = {kind: number for number, kind in enumerate(_PROCESSES, start=1)}
_FIRST_TID = 11
"""No thread has the number of a process: viewers would call it the main one."""
_SLACK_S = 1e-3
_SLACK_SHARE = 0.1

Event = dict[str, Any]


def trace(timeline: TimelineInfo, run: str) -> dict[str, Any]:
    """The trace of a run's timeline; times are microseconds since its first span began."""
    origin_us = min((_us(span.start_at) for span in timeline.spans), default=_us(timeline.now))
    named: list[Event] = [_process(kind) for kind in _kinds(timeline.lanes)]
    done: list[Event] = []
    tid = _FIRST_TID
    for lane, spans in zip(timeline.lanes, by_lane(timeline), strict=True):
        found = split(spans) or [[]]
        for number, track in enumerate(found, start=1):
            name = _thread_name(lane, number if len(found) > 1 else None)
            named += _thread(_PIDS[lane.kind], tid, name)
            done += _complete(lane, track, tid, origin_us)
            tid += 1
    return {
        "traceEvents": named + sorted(done, key=lambda event: event["ts"]),
        "displayTimeUnit": "ms",
        "otherData": {
            "run": run,
            "clock_origin": _utc(origin_us),
            "dropped_spans": timeline.dropped,
        },
    }


def by_lane(timeline: TimelineInfo) -> list[list[SpanInfo]]:
    """The spans of each lane, in the order in which they began."""
    found: list[list[SpanInfo]] = [[] for _ in timeline.lanes]
    for span in sorted(timeline.spans, key=lambda span: span.start_at):
        found[span.lane].append(span)
    return found


def split(spans: Sequence[SpanInfo]) -> list[list[SpanInfo]]:
    """The fewest tracks in which no two spans overlap, from spans in the order they began.

    Begin and end come from several readings of a clock. So an overlap of less than a millisecond,
    and of less than a tenth of the span, is taken for two spans that touch.
    """
    found: list[list[SpanInfo]] = []
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    for span in spans:
        while busy and busy[0][0] <= span.start_at:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            heapq.heappush(free, len(found))
            found.append([])
        track = heapq.heappop(free)
        found[track].append(span)
        slack_s = min(_SLACK_S, _SLACK_SHARE * span.seconds)
        heapq.heappush(busy, (span.end_at - slack_s, track))
    return found


def label(lane: LaneInfo) -> str:
    """What a lane is called; emulation is never hidden."""
    return f"{lane.name} (emulated)" if lane.emulated else lane.name


def _complete(lane: LaneInfo, track: Sequence[SpanInfo], tid: int, origin_us: int) -> list[Event]:
    begins_us = [_us(span.start_at) for span in track]
    ends_us = [_us(span.end_at) for span in track]
    for number, (_, following_us) in enumerate(pairwise(begins_us)):
        ends_us[number] = min(ends_us[number], following_us)
    return [
        {
            "name": _name(span),
            "cat": span.activity.value,
            "ph": "X",
            "ts": begin_us - origin_us,
            "dur": end_us - begin_us,
            "pid": _PIDS[lane.kind],
            "tid": tid,
            "args": _arguments(span, lane),
        }
        for span, begin_us, end_us in zip(track, begins_us, ends_us, strict=True)
    ]


def _name(span: SpanInfo) -> str:
    if span.batch is not None:
        return f"batch {span.batch}"
    return f"{span.activity.value}: {span.note}" if span.note else span.activity.value


def _arguments(span: SpanInfo, lane: LaneInfo) -> dict[str, Any]:
    batch = {} if span.batch is None else {"batch": span.batch}
    note = {"note": span.note} if span.note else {}
    return {"epoch": span.epoch, **batch, **note, "emulated": lane.emulated}


def _thread_name(lane: LaneInfo, number: int | None) -> str:
    track = "" if number is None else f" #{number}"
    return f"{lane.name}{track}{' (emulated)' if lane.emulated else ''}"


def _kinds(lanes: Sequence[LaneInfo]) -> list[LaneKind]:
    there = {lane.kind for lane in lanes}
    return [kind for kind in _PROCESSES if kind in there]


def _process(kind: LaneKind) -> Event:
    return _metadata("process_name", _PIDS[kind], 0, {"name": _PROCESSES[kind]})


def _thread(pid: int, tid: int, name: str) -> list[Event]:
    return [
        _metadata("thread_name", pid, tid, {"name": name}),
        _metadata("thread_sort_index", pid, tid, {"sort_index": tid}),
    ]


def _metadata(name: str, pid: int, tid: int, arguments: dict[str, Any]) -> Event:
    return {"name": name, "ph": "M", "pid": pid, "tid": tid, "args": arguments}


def _us(seconds: float) -> int:
    return round(seconds * 1e6)


def _utc(at_us: int) -> str:
    at = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=at_us)
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")
