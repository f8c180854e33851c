"""The bar of both fronts, its cursors, and its outlook."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddlp.core.types import EpochState, RunState
from ddlp.server.snapshot import Front
from ddlp.web.front_views import SCALE, Segment
from tests.web.examples import epoch_info, live, page, run_info, snapshot

# The bar


def test_the_cpu_grows_from_the_left_and_the_csd_from_the_right() -> None:
    cpu = Front(taken=40, delivered=20, ready=15, leased=5, images_per_s=1)
    csd = Front(taken=10, delivered=4, ready=0, leased=6, images_per_s=1)
    assert live(cpu=cpu, csd=csd).fronts.segments == [
        Segment("cpu-delivered", 0, 200),
        Segment("cpu-ready", 200, 150),
        Segment("cpu-leased", 350, 50),
        Segment("csd-delivered", 960, 40),
        Segment("csd-leased", 900, 60),
    ]


def test_nothing_is_drawn_before_anything_is_done() -> None:
    assert live().fronts.segments == []
    assert page().fronts.segments == []


@st.composite
def fronts(draw: st.DrawFn) -> tuple[int, Front, Front]:
    """An epoch's batches, shared out by chance between the two sides and what is left."""
    batches = draw(st.integers(1, 10_000))
    cuts = sorted(draw(st.lists(st.integers(0, batches), min_size=6, max_size=6)))
    counts = [b - a for a, b in itertools.pairwise([0, *cuts])]
    rates = draw(st.tuples(*[st.sampled_from([0.0, 0.1, 50.0, 12_345.6])] * 2))
    cpu = Front(sum(counts[:3]), *counts[:3], rates[0])
    csd = Front(sum(counts[3:]), *counts[3:], rates[1])
    return batches, cpu, csd


@settings(max_examples=200, deadline=None)
@given(shares=fronts())
def test_segments_stay_inside_the_bar_and_never_overlap(shares: tuple[int, Front, Front]) -> None:
    batches, cpu, csd = shares
    info = run_info(batches=batches, samples=batches * 10)
    segments = page(info, seen=snapshot(batches=batches, cpu=cpu, csd=csd)).fronts.segments
    slack = 1e-6
    assert all(segment.width > 0 for segment in segments)
    assert all(segment.x >= -slack for segment in segments)
    assert all(segment.x + segment.width <= SCALE + slack for segment in segments)
    in_order = sorted(segments, key=lambda segment: segment.x)
    for left, right in itertools.pairwise(in_order):
        assert left.x + left.width <= right.x + slack


@settings(max_examples=200, deadline=None)
@given(shares=fronts())
def test_the_forecast_lies_between_the_fronts(shares: tuple[int, Front, Front]) -> None:
    batches, cpu, csd = shares
    info = run_info(batches=batches, samples=batches * 10)
    marker = page(info, seen=snapshot(batches=batches, cpu=cpu, csd=csd)).fronts.marker
    unit = SCALE / batches
    if marker is not None:
        assert cpu.taken * unit - 1e-6 <= marker <= SCALE - csd.taken * unit + 1e-6


def test_a_run_that_ended_shows_its_last_epoch_that_delivered() -> None:
    epochs = [
        epoch_info(number=0),
        epoch_info(number=1, made={"cpu": 60, "csd": 40}, delivered={"cpu": 60, "csd": 40}),
        epoch_info(number=2, made={"cpu": 1, "csd": 1}, consumed=0, state=EpochState.ABANDONED),
    ]
    shown = page(epochs=epochs).fronts
    assert [(part.x, part.width) for part in shown.segments] == [(0, 600), (600, 400)]
    assert shown.summary == (
        "CPU delivered 60 from the head, CSD delivered 40 from the tail, of 100 batches; "
        "they met at batch 70"
    )


def test_what_a_cancelled_run_made_and_nobody_took_is_not_called_delivered() -> None:
    cut = epoch_info(
        made={"cpu": 50, "csd": 40},
        consumed=30,
        delivered={"cpu": 20, "csd": 10},
        meeting_point=None,
    )
    shown = page(run_info(state=RunState.CANCELLED), epochs=[cut]).fronts
    assert [side.delivered for side in shown.sides] == ["20", "10"]
    assert [(part.x, part.width) for part in shown.segments] == [(0, 200), (900, 100)]


def test_a_slow_side_is_not_said_to_stand_still() -> None:
    slow = Front(taken=1, delivered=0, ready=0, leased=1, images_per_s=0.4)
    assert live(csd=slow).fronts.sides[1].rate == "0.4"
    assert live(csd=replace(slow, images_per_s=0.0)).fronts.sides[1].rate == "0"


def test_the_sides_say_in_words_what_the_bar_shows() -> None:
    cpu = Front(taken=3000, delivered=1500, ready=20, leased=4, images_per_s=1234.4)
    shown = live(cpu=cpu, batches=9000).fronts
    side, _ = shown.sides
    assert (side.delivered, side.ready, side.leased) == ("1,500", "20", "4")
    assert side.rate == "1,234"
    assert shown.title == "Both fronts · 100 batches of 10"


def test_a_run_that_is_over_has_no_rates() -> None:
    assert [side.rate for side in page(epochs=[epoch_info()]).fronts.sides] == ["—", "—"]


def test_the_emulated_side_says_so_and_a_real_one_does_not() -> None:
    for emulated in ([], ["csd"]):
        view = page(run_info(emulated=emulated), seen=snapshot())
        cpu, csd = view.fronts.sides
        assert not cpu.emulated
        assert csd.emulated == view.emulated_csd == bool(emulated)


def test_cursors_stand_where_each_side_goes_on_until_they_have_met() -> None:
    cpu = Front(taken=40, delivered=20, ready=15, leased=5, images_per_s=1)
    csd = Front(taken=10, delivered=4, ready=0, leased=6, images_per_s=1)
    head, tail = live(cpu=cpu, csd=csd).fronts.cursors
    assert (head.kind, head.x) == ("cpu-cursor", 400)
    assert (tail.kind, tail.x + tail.width) == ("csd-cursor", 900)
    assert live(cpu=cpu, csd=csd, meeting_point=40).fronts.cursors == []
    assert page(epochs=[epoch_info()]).fronts.cursors == []


def test_cursors_stay_inside_the_bar() -> None:
    whole = Front(taken=100, delivered=0, ready=0, leased=100, images_per_s=1)
    for cursor in (*live(cpu=whole).fronts.cursors, *live(csd=whole).fronts.cursors):
        assert 0 <= cursor.x <= cursor.x + cursor.width <= SCALE


# The outlook


def front(taken: int = 0, images_per_s: float = 0.0, ready: int = 0) -> Front:
    return Front(taken, 0, ready, taken - ready, images_per_s)


OUTLOOKS: list[tuple[dict[str, Any], float | None, str]] = [
    ({}, None, "starting"),
    ({"cpu": front(4)}, None, "starting"),
    ({"cpu": front(4, ready=1)}, None, "waiting for the trainer"),
    ({"csd": front(4, ready=1)}, None, "waiting for the trainer"),
    ({"state": RunState.PAUSED, "cpu": front(9, 50.0)}, None, "paused"),
    (
        {"cpu": front(20, 30.0), "csd": front(10, 10.0)},
        725,
        "they meet near batch 72 in about 18 s",
    ),
    ({"cpu": front(0, 10.0)}, 1000, "they meet near batch 100 in about 1 min 40 s"),
    ({"csd": front(0, 0.1)}, 0, "they meet near batch 0 in about 2 h 46 min"),
    (
        {"cpu": front(20, 30.0), "csd": front(10, 10.0), "split": 64},
        640,
        "they meet near batch 64 in about 18 s",
    ),
    ({"meeting_point": 70, "cpu": front(70, 30.0)}, 700, "they met at batch 70"),
    ({"meeting_point": 0, "state": RunState.PAUSED}, 0, "they met at batch 0"),
]


@pytest.mark.parametrize(("seen", "marker", "words"), OUTLOOKS)
def test_the_outlook_says_where_the_fronts_meet(
    seen: dict[str, Any], marker: float | None, words: str
) -> None:
    shown = live(**seen).fronts
    assert shown.outlook == words
    assert shown.marker == (None if marker is None else pytest.approx(marker, abs=6))


def test_a_run_that_ended_says_where_they_met() -> None:
    shown = page(epochs=[epoch_info(), epoch_info(number=1, meeting_point=65)])
    assert (shown.fronts.marker, shown.fronts.outlook) == (650, "they met at batch 65")


def test_a_run_that_was_cut_off_says_that_they_did_not_meet() -> None:
    shown = page(epochs=[epoch_info(meeting_point=None)])
    assert (shown.fronts.marker, shown.fronts.outlook) == (None, "the fronts did not meet")
