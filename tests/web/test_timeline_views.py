"""The timeline of a run's page: true to the time, inside its frame, and small."""

import random
import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment, FileSystemLoader

from ddlp.core.messages.timeline import MAX_SPANS, LaneInfo, LaneKind, SpanInfo, TimelineInfo
from ddlp.core.types import Activity
from ddlp.web import timeline_views
from ddlp.web.timeline_views import (
    MAX_BARS,
    MAX_BARS_A_LANE,
    MAX_LANES,
    MAX_ROWS,
    SCALE,
    Bar,
    LaneView,
    TimelineView,
    timeline_view,
)

NOW = 1_700_000_000.0
LANES = [
    LaneInfo(name="cpu-host", kind=LaneKind.CPU),
    LaneInfo(name="csd-0", kind=LaneKind.CSD, emulated=True),
    LaneInfo(name="rank 0", kind=LaneKind.READER),
    LaneInfo(name="rank 0", kind=LaneKind.TRAINER),
]
CPU, CSD, READER, TRAINER = range(4)


def span(lane: int, ago_s: float, seconds: float, **fields: Any) -> SpanInfo:
    """A span that began so many seconds before now."""
    values = {"activity": Activity.MAKE, "epoch": 1, **fields}
    return SpanInfo(lane=lane, start_at=NOW - ago_s, seconds=seconds, **values)


def view(
    *spans: SpanInfo, lanes: list[LaneInfo] = LANES, window_s: float = 60, dropped: int = 0
) -> TimelineView:
    info = TimelineInfo(now=NOW, lanes=lanes, spans=list(spans), dropped=dropped)
    return timeline_view(info, window_s)


def bars(lane: LaneView) -> list[Bar]:
    return [bar for strip in lane.strips for bar in strip.bars]


def page(found: TimelineView) -> str:
    folder = Path(timeline_views.__file__).parent / "templates"
    env = Environment(
        loader=FileSystemLoader(folder), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return env.get_template("run/timeline.html").render(timeline=found)


def full() -> list[SpanInfo]:
    """As many spans as there may be, most of them in the window, of all lengths."""
    chance = random.Random(5)
    kinds = [(CPU, Activity.MAKE), (CSD, Activity.MAKE), (READER, Activity.READ)]
    kinds += [(READER, Activity.TRANSFER), (TRAINER, Activity.TRAIN), (TRAINER, Activity.WAIT)]
    found = []
    for number in range(MAX_SPANS):
        lane, activity = chance.choice(kinds)
        ago_s, seconds = chance.uniform(0, 70), chance.choice([0.001, 0.02, 0.2, 2])
        found.append(span(lane, ago_s, seconds, activity=activity, batch=number))
    return found


def test_one_span_lies_where_it_was() -> None:
    found = view(span(CPU, 30, 6, batch=17))
    [strip] = found.lanes[CPU].strips
    assert strip.kind == "make-cpu"
    [bar] = strip.bars
    assert (bar.x, bar.width) == (500, 99), "all but the gap to its neighbour"
    assert bar.title == "batch 17 of epoch 1, 6.00 s"
    assert [lane.bars for lane in found.lanes] == [1, 0, 0, 0]


@pytest.mark.parametrize(
    ("ago_s", "seconds", "x", "end"),
    [(63, 6, 0, 50), (3, 9, 950, 1000), (90, 200, 0, 1000)],
)
def test_what_begins_before_or_ends_after_the_window_is_cut_at_its_edge(
    ago_s: float, seconds: float, x: float, end: float
) -> None:
    [bar] = bars(view(span(CPU, ago_s, seconds, batch=3)).lanes[CPU])
    assert (bar.x, bar.x + bar.width) == (x, end - 1)
    assert bar.title.endswith(f", {seconds:.0f} s" if seconds >= 10 else f", {seconds:.2f} s")


@pytest.mark.parametrize(("ago_s", "seconds"), [(70, 10), (70, 2), (0, 5), (-5, 5)])
def test_what_lies_outside_the_window_is_not_shown(ago_s: float, seconds: float) -> None:
    found = view(span(CPU, ago_s, seconds))
    assert bars(found.lanes[CPU]) == []
    assert found.summary == "In the last 60 s nothing was done."


def test_the_window_can_be_longer() -> None:
    found = view(span(CPU, 60, 30), window_s=120)
    assert bars(found.lanes[CPU])[0].x == 500
    assert [tick.label for tick in found.ticks] == ["-120 s", "-90 s", "-60 s", "-30 s", "now"]
    assert found.title == "Who did what in the last 120 s"


def test_the_axis_goes_from_one_edge_to_the_other() -> None:
    ticks = view().ticks
    assert [tick.label for tick in ticks] == ["-60 s", "-45 s", "-30 s", "-15 s", "now"]
    assert [tick.x for tick in ticks] == [0, 250, 500, 750, 1000]
    assert [tick.anchor for tick in ticks] == ["start", "middle", "middle", "middle", "end"]


def test_the_summary_says_how_busy_each_lane_was() -> None:
    found = view(
        span(CPU, 60, 30),
        span(CPU, 45, 40.8),
        span(CSD, 52.8, 60),
        span(READER, 30, 2.4, activity=Activity.READ, batch=1),
        span(TRAINER, 60, 42.6, activity=Activity.TRAIN, batch=1),
        span(TRAINER, 17.4, 17.4, activity=Activity.WAIT, note="decode"),
    )
    assert found.summary == (
        "In the last 60 s: cpu-host busy 93 %, csd-0 (emulated) busy 88 %, reading 4 %, "
        "training 71 %, waiting 29 %."
    )
    assert found.lanes[CPU].words == "busy 93 %, up to 2 at once"
    [_, wait] = found.lanes[TRAINER].strips
    assert wait.bars[0].title == "waiting: decode, 17 s"


def test_ranks_are_named_where_there_are_several() -> None:
    lanes = [LaneInfo(name=f"rank {rank}", kind=LaneKind.TRAINER) for rank in range(2)]
    found = view(span(1, 30, 15, activity=Activity.TRAIN), lanes=lanes)
    assert found.summary == "In the last 60 s: rank 0 training 0 %, rank 1 training 25 %."


def test_lanes_are_sorted_by_what_they_are() -> None:
    found = view(span(0, 30, 6, activity=Activity.TRAIN), lanes=list(reversed(LANES)))
    assert [lane.kind for lane in found.lanes] == ["cpu", "csd", "reader", "trainer"]
    assert [lane.bars for lane in found.lanes] == [0, 0, 0, 1]


def test_emulation_is_marked() -> None:
    found = view(span(CSD, 30, 6))
    assert [lane.emulated for lane in found.lanes] == [False, True, False, False]
    assert page(found).count('<span class="mark">emulated</span>') == 1


def test_what_several_processes_do_at_once_has_rows_of_its_own() -> None:
    found = view(span(CPU, 30, 6, batch=1), span(CPU, 29, 6, batch=2), span(CPU, 23.5, 3, batch=3))
    first, second = found.lanes[CPU].strips
    assert [bar.title[:7] for bar in first.bars] == ["batch 1", "batch 3"]
    assert [bar.title[:7] for bar in second.bars] == ["batch 2"]
    assert second.top_px >= first.top_px + first.height_px
    assert found.lanes[CPU].height_px == second.top_px + second.height_px


def test_more_rows_than_there_is_room_for_are_folded_into_the_last() -> None:
    found = view(*(span(CPU, 30 - number, 20, batch=number) for number in range(7)))
    lane = found.lanes[CPU]
    assert len(lane.strips) == MAX_ROWS
    [last] = lane.strips[-1].bars
    assert last.title == "4 batches, 80 s in all"
    assert lane.words == "busy 43 %, up to 7 at once"


def test_a_wait_is_told_by_more_than_its_colour() -> None:
    found = view(
        span(TRAINER, 30, 6, activity=Activity.TRAIN), span(TRAINER, 20, 6, activity=Activity.WAIT)
    )
    train, wait = found.lanes[TRAINER].strips
    assert wait.height_px == train.height_px / 2
    assert wait.top_px + wait.height_px == train.top_px + train.height_px


def test_short_spans_are_put_together_and_take_as_much_room_as_they_took_time() -> None:
    """A thousand steps of 60 ms, a third of each spent waiting."""
    spans = []
    for step in range(1000):
        spans.append(span(TRAINER, 60 - step * 0.06, 0.04, activity=Activity.TRAIN, batch=step))
        spans.append(span(TRAINER, 59.96 - step * 0.06, 0.02, activity=Activity.WAIT))
    lane = view(*spans).lanes[TRAINER]
    assert lane.bars <= MAX_BARS_A_LANE
    assert lane.words == "training 67 %, waiting 33 %"
    train, wait = (sum(bar.width for bar in strip.bars) for strip in lane.strips)
    assert train / wait == pytest.approx(2, rel=0.1)
    assert re.fullmatch(r"\d+ batches, 0\.\d\d s in all", lane.strips[0].bars[3].title)


def test_one_short_span_can_still_be_seen() -> None:
    [bar] = bars(view(span(READER, 30, 0.001, activity=Activity.READ)).lanes[READER])
    assert bar == Bar(500, 0.5, "")


def test_the_legend_names_what_is_there() -> None:
    found = view(span(CSD, 30, 6), span(TRAINER, 30, 6, activity=Activity.WAIT))
    assert [kind for kind, _ in found.legend] == ["make-csd", "wait"]


def test_a_full_timeline_stays_small() -> None:
    found = view(*full(), dropped=1234)
    assert all(lane.bars <= MAX_BARS_A_LANE for lane in found.lanes)
    assert sum(lane.bars for lane in found.lanes) <= MAX_BARS
    assert len(page(found).encode()) < 60_000
    assert found.note == "1,234 spans were not kept."


def test_many_lanes_stay_small() -> None:
    lanes = [LaneInfo(name=f"rank {n}", kind=LaneKind.TRAINER) for n in range(MAX_LANES + 1)]
    spans = [
        s.model_copy(update={"lane": n % len(lanes)})
        for n, s in enumerate(full())
        if s.lane == TRAINER
    ]
    found = view(*spans, lanes=lanes)
    assert len(found.lanes) == MAX_LANES
    assert sum(lane.bars for lane in found.lanes) <= MAX_BARS
    assert found.note == "1 more lane is in the trace."
    assert len(page(found).encode()) < 60_000


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from(Activity),
            st.floats(-1, 65),
            st.one_of(st.just(0.0), st.floats(0, 0.05), st.floats(0, 80)),
        ),
        max_size=60,
    )
)
def test_bars_never_leave_the_frame_and_never_overlap(
    given_spans: list[tuple[int, Activity, float, float]],
) -> None:
    found = view(
        *(span(lane, ago_s, seconds, activity=what) for lane, what, ago_s, seconds in given_spans)
    )
    for lane in found.lanes:
        assert lane.bars <= MAX_BARS_A_LANE
        assert len({strip.top_px + strip.height_px for strip in lane.strips}) <= MAX_ROWS
        for strip in lane.strips:
            assert strip.top_px + strip.height_px <= lane.height_px
            assert all(bar.width > 0 and bar.x >= 0 for bar in strip.bars)
            assert all(bar.x + bar.width <= SCALE + 1e-6 for bar in strip.bars)
            for left, right in pairwise(strip.bars):
                assert left.x + left.width <= right.x + 0.1 + 1e-6, "but for rounding"


# The template


def test_the_page_is_well_formed_and_holds_no_style_or_script() -> None:
    notes = span(TRAINER, 30, 6, activity=Activity.WAIT, note="<b>&")
    text = page(view(span(CPU, 30, 6, batch=17), notes, dropped=1))
    tree = ElementTree.fromstring(f"<div>{text}</div>".replace("&#39;", "'"))
    assert {element.tag for element in tree.iter()} & {"script", "style"} == set()
    for element in tree.iter():
        assert not any(name == "style" or name.startswith("on") for name in element.attrib)
    titles = [element.text for element in tree.iter("title")]
    assert titles == ["batch 17 of epoch 1, 6.00 s", "waiting: <b>&, 6.00 s"]
    assert {g.attrib["class"] for g in tree.iter("g")} == {"make-cpu", "wait"}
    assert "1 span was not kept." in text


def test_an_empty_timeline_says_that_it_is_empty() -> None:
    found = view(lanes=[])
    assert found.lanes == []
    assert found.legend == []
    text = page(found)
    assert "No activity was recorded." in text
    assert "In the last 60 s nothing was done." in text
    assert "<svg" not in text
