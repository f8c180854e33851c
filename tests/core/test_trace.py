"""A timeline as a trace: every span once, on tracks in which nothing overlaps."""

import json
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ddlp.core.messages.timeline import MAX_SPANS, LaneInfo, LaneKind, SpanInfo, TimelineInfo
from ddlp.core.trace import split, trace
from ddlp.core.types import Activity

NOW = 1_700_000_000.0
LANES = [
    LaneInfo(name="cpu-host", kind=LaneKind.CPU),
    LaneInfo(name="csd-0", kind=LaneKind.CSD, emulated=True),
    LaneInfo(name="rank 0", kind=LaneKind.READER),
    LaneInfo(name="rank 0", kind=LaneKind.TRAINER),
]


def span(lane: int, start_s: float, seconds: float, **fields: Any) -> SpanInfo:
    """A span that begins so many seconds after a full one."""
    values = {"activity": Activity.MAKE, "epoch": 0, **fields}
    return SpanInfo(lane=lane, start_at=NOW + start_s, seconds=seconds, **values)


def timeline(*spans: SpanInfo, lanes: list[LaneInfo] = LANES, dropped: int = 0) -> TimelineInfo:
    return TimelineInfo(now=NOW + 60, lanes=lanes, spans=list(spans), dropped=dropped)


def complete(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in found["traceEvents"] if event["ph"] == "X"]


def names(found: dict[str, Any], kind: str) -> list[str]:
    return [event["args"]["name"] for event in found["traceEvents"] if event["name"] == kind]


def test_a_span_is_a_complete_event_with_what_is_known_of_it() -> None:
    made = span(0, 1.5, 0.25, batch=17, epoch=2)
    waited = span(3, 2.0, 0.5, activity=Activity.WAIT, note="decode", epoch=2)
    first, second = complete(trace(timeline(waited, made), "r50"))
    assert first == {
        "name": "batch 17",
        "cat": "make",
        "ph": "X",
        "ts": 0,
        "dur": 250_000,
        "pid": 1,
        "tid": 11,
        "args": {"epoch": 2, "batch": 17, "emulated": False},
    }
    assert (second["name"], second["cat"]) == ("wait: decode", "wait")
    assert (second["ts"], second["dur"]) == (500_000, 500_000)
    assert second["args"] == {"epoch": 2, "note": "decode", "emulated": False}


def test_what_is_about_nothing_is_called_by_what_it_is() -> None:
    [event] = complete(trace(timeline(span(3, 0, 1, activity=Activity.WAIT)), "r50"))
    assert event["name"] == "wait"


def test_there_is_a_process_for_each_kind_and_a_thread_for_each_lane() -> None:
    found = trace(timeline(span(1, 0, 1)), "r50")
    assert names(found, "process_name") == ["CPU prong", "CSD prong", "readers", "trainers"]
    assert names(found, "thread_name") == ["cpu-host", "csd-0 (emulated)", "rank 0", "rank 0"]
    orders = [e["args"] for e in found["traceEvents"] if e["name"] == "thread_sort_index"]
    assert orders == [{"sort_index": tid} for tid in range(11, 15)]
    [event] = complete(found)
    assert event["args"]["emulated"]


def test_the_file_says_what_it_is_of() -> None:
    found = trace(timeline(span(0, 0.25, 1), dropped=3), "r50")
    assert found["displayTimeUnit"] == "ms"
    assert found["otherData"] == {
        "run": "r50",
        "clock_origin": "2023-11-14T22:13:20.250000Z",
        "dropped_spans": 3,
    }
    assert json.loads(json.dumps(found)) == found


def test_a_timeline_without_spans_has_lanes_only() -> None:
    found = trace(timeline(), "r50")
    assert complete(found) == []
    assert len(names(found, "thread_name")) == 4
    assert found["otherData"]["clock_origin"] == "2023-11-14T22:14:20.000000Z"
    assert trace(timeline(lanes=[]), "r50")["traceEvents"] == []


def test_what_a_device_does_at_once_is_on_several_tracks() -> None:
    spans = [span(0, 0, 2, batch=0), span(0, 1, 2, batch=1), span(0, 2.5, 1, batch=2)]
    found = trace(timeline(*spans), "r50")
    assert names(found, "thread_name")[:2] == ["cpu-host #1", "cpu-host #2"]
    assert [event["tid"] for event in complete(found)] == [11, 12, 11]


def test_tracks_of_an_emulated_device_say_so() -> None:
    found = trace(timeline(span(1, 0, 2), span(1, 1, 2)), "r50")
    assert names(found, "thread_name")[1:3] == ["csd-0 #1 (emulated)", "csd-0 #2 (emulated)"]


def test_spans_that_overlap_by_a_hair_touch() -> None:
    found = trace(timeline(span(3, 0, 0.2004), span(3, 0.2, 0.2)), "r50")
    first, second = complete(found)
    assert first["tid"] == second["tid"]
    assert first["ts"] + first["dur"] == second["ts"]


def test_short_spans_that_overlap_for_the_most_part_do_not_touch() -> None:
    assert len(split([span(0, 0, 0.0008), span(0, 0.0001, 0.0008)])) == 2


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.floats(0, 60, allow_nan=False),
            st.one_of(st.just(0.0), st.floats(0, 5), st.floats(0, 0.002)),
        ),
        max_size=60,
    )
)
def test_every_span_is_there_once_and_nothing_overlaps(
    given_spans: list[tuple[int, float, float]],
) -> None:
    spans = [
        span(lane, start_s, seconds, batch=number)
        for number, (lane, start_s, seconds) in enumerate(given_spans)
    ]
    events = complete(trace(timeline(*spans), "r50"))
    assert Counter(event["args"]["batch"] for event in events) == Counter(range(len(spans)))
    assert [event["ts"] for event in events] == sorted(event["ts"] for event in events)
    lane_of_track: dict[int, int] = {}
    tracks = defaultdict(list)
    for event in events:
        source = spans[event["args"]["batch"]]
        tracks[event["pid"], event["tid"]].append(event)
        assert lane_of_track.setdefault(event["tid"], source.lane) == source.lane
        assert 0 <= event["dur"] <= round(1e6 * source.seconds) + 1
        assert event["dur"] >= 1e6 * source.seconds - min(1000, 1e5 * source.seconds) - 2
    for track in tracks.values():
        for left, right in pairwise(track):
            assert left["ts"] + left["dur"] <= right["ts"]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=40))
def test_there_are_no_more_tracks_than_spans_at_once(given_spans: list[tuple[int, int]]) -> None:
    spans = [span(0, start, seconds) for start, seconds in sorted(given_spans)]
    at_once = [sum(s <= at < s + n for s, n in given_spans) for at in range(50)]
    assert len(split(spans)) == max(at_once)


def test_a_span_of_a_lane_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValidationError, match="of lane 4, and there are 4"):
        timeline(span(4, 0, 1))


def test_there_are_bounds() -> None:
    one = span(0, 0, 1)
    assert len(timeline(*[one] * MAX_SPANS).spans) == MAX_SPANS
    with pytest.raises(ValidationError, match="at most 20000"):
        timeline(*[one] * (MAX_SPANS + 1))
    for wrong in (float("nan"), float("inf"), -1.0):
        with pytest.raises(ValidationError):
            span(0, 0, wrong)
