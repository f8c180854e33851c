"""The bar of both fronts, its cursors, and its outlook."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddlp.core.types import EpochState, Prong, RunState
from ddlp.server.batch_owners import BatchOwners, Shade, Stretch
from ddlp.server.snapshot import Front
from ddlp.web.front_views import SCALE, Segment
from ddlp.web.templating import templates
from tests.web.examples import epoch_info, live, page, run_info, snapshot

# The bar


def test_the_cpu_grows_from_the_left_and_the_csd_from_the_right() -> None:
    cpu = Front(taken=40, delivered=20, ready=15, leased=5, images_per_s=1)
    csd = Front(taken=10, delivered=4, ready=0, leased=6, images_per_s=1)
    assert live(cpu=cpu, csd=csd).fronts.segments == [
        Segment("cpu-delivered", 0, 200),
        Segment("cpu-ready", 200, 150),
        Segment("cpu-leased", 350, 50),
        Segment("csd-leased", 900, 60),
        Segment("csd-delivered", 960, 40),
    ]


def test_nothing_is_drawn_before_anything_is_done() -> None:
    assert live().fronts.segments == []
    assert page().fronts.segments == []


@pytest.mark.parametrize(
    ("removed_at", "ended_at", "is_gone"),
    [(30.0, 20.0, True), (None, 20.0, False), (30.0, 40.0, False)],
)
def test_a_run_whose_batches_were_removed_says_so_in_place_of_a_bar(
    removed_at: float | None, ended_at: float, is_gone: bool
) -> None:
    """A run that was extended after that has new ones."""
    info = run_info(
        state=RunState.COMPLETED, details_removed_at=removed_at, ended_at=ended_at, epochs=1
    )
    kept = [] if is_gone else [Stretch((Prong.CPU, Shade.DELIVERED), 0, 100)]
    view = page(info, [epoch_info()], owners=BatchOwners(kept))
    shown = templates.get_template("run/fronts.html").render(run=view)
    assert ("<svg" in shown, "were removed" in shown) == (not is_gone, is_gone)
    assert ("DDLP_KEEP_RUN_DETAILS_D" in shown) == is_gone
    assert ("All batches of this epoch were delivered." in shown) == is_gone


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
        "CPU delivered 60 from the start, CSD delivered 40 from the end, of 100 batches. "
        "CPU and CSD met at batch 60."
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
    assert shown.title == "Epoch progress · 100 batches of 10"


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
    ({}, None, "Starting…"),
    ({"cpu": front(4)}, None, "Starting…"),
    (
        {"cpu": front(4, ready=1)},
        None,
        "Batches are ready. Start your training code to consume them.",
    ),
    (
        {"csd": front(4, ready=1), "trainer_silent_s": 3.0},
        None,
        "Batches are ready and wait for the trainer.",
    ),
    ({"state": RunState.PAUSED, "cpu": front(9, 50.0)}, None, "Paused."),
    ({"stalled": True, "cpu": front(9)}, None, "Stalled: no device makes the other 91 batches."),
    (
        {"cpu": front(20, 30.0), "csd": front(10, 10.0)},
        725,
        "CPU and CSD should meet near batch 72 in about 18 s.",
    ),
    (
        {"cpu": front(0, 10.0)},
        1000,
        "CPU and CSD should meet near batch 100 in about 1 min 40 s.",
    ),
    ({"csd": front(0, 0.1)}, 0, "CPU and CSD should meet near batch 0 in about 2 h 46 min."),
    (
        {"cpu": front(20, 30.0), "csd": front(10, 10.0), "split": 64},
        640,
        "CPU and CSD should meet near batch 64 in about 18 s.",
    ),
    (
        {"meeting_point": 70, "cpu": front(70, 30.0), "csd": front(30)},
        700,
        "CPU and CSD met at batch 70.",
    ),
    (
        {"meeting_point": 0, "state": RunState.PAUSED, "csd": front(100)},
        None,
        "CSDs make all batches of this epoch.",
    ),
]


@pytest.mark.parametrize(("seen", "marker", "words"), OUTLOOKS)
def test_the_outlook_says_where_the_fronts_meet(
    seen: dict[str, Any], marker: float | None, words: str
) -> None:
    shown = live(**seen).fronts
    assert shown.outlook == words
    assert shown.marker == (None if marker is None else pytest.approx(marker, abs=6))


def test_a_run_that_ended_says_where_they_met() -> None:
    made = {"cpu": 65, "csd": 35}
    shown = page(epochs=[epoch_info(), epoch_info(number=1, made=made, delivered=made)])
    assert (shown.fronts.marker, shown.fronts.outlook) == (650, "CPU and CSD met at batch 65.")


def test_a_run_that_was_cut_off_says_how_far_it_came() -> None:
    shown = page(epochs=[epoch_info(consumed=30)])
    assert shown.fronts.marker is None
    assert shown.fronts.outlook == "The run ended after 30 of 100 batches."
    assert page().fronts.outlook == "No batch was delivered."


# Who made what

CPU, CSD = ((prong, Shade.DELIVERED) for prong in Prong)


def test_the_meeting_point_is_where_the_sides_touch_and_not_where_they_were_to() -> None:
    """Given out up to 52 by the CPU, but the CPU won the races for batches of the CSD."""
    owners = BatchOwners([Stretch(CPU, 0, 91), Stretch(CSD, 91, 9)], meeting=91)
    for seen in (None, snapshot(meeting_point=52)):
        shown = page(epochs=[epoch_info(meeting_point=52)], seen=seen, owners=owners).fronts
        assert (shown.marker, shown.outlook) == (910, "CPU and CSD met at batch 91.")
        assert [(part.x, part.width) for part in shown.segments] == [(0, 910), (910, 90)]


def test_sides_that_are_mixed_are_drawn_as_they_are_and_have_no_meeting_point() -> None:
    parts = [Stretch(CPU, 0, 50), Stretch(CSD, 50, 10), Stretch(CPU, 60, 5), Stretch(CSD, 65, 35)]
    shown = page(epochs=[epoch_info()], owners=BatchOwners(parts)).fronts
    assert shown.marker is None
    assert shown.outlook == "No single meeting point: each side made batches of the other."
    drawn = [(part.name, part.x, part.width) for part in shown.segments]
    assert drawn == [
        ("cpu-delivered", 0, 500),
        ("csd-delivered", 500, 100),
        ("cpu-delivered-2", 600, 50),
        ("csd-delivered-2", 650, 350),
    ]


def test_what_a_run_before_delivered_is_neither_sides() -> None:
    parts = [Stretch(None, 0, 40), Stretch(CPU, 40, 60)]
    shown = page(epochs=[epoch_info()], owners=BatchOwners(parts)).fronts
    assert [(part.kind, part.width) for part in shown.segments] == [
        ("taken-over", 400),
        ("cpu-delivered", 600),
    ]


def test_the_figures_beside_the_bar_are_those_that_it_shows() -> None:
    """The bar is looked up a moment after the rates: on a busy machine that may be long."""
    earlier = Front(taken=25, delivered=9, ready=16, leased=0, images_per_s=43.0)
    parts = [Stretch(CPU, 0, 14), Stretch((Prong.CPU, Shade.READY), 14, 11)]
    shown = page(seen=snapshot(cpu=earlier), owners=BatchOwners(parts, None, 30, 100)).fronts
    cpu = shown.sides[0]
    assert (cpu.delivered, cpu.ready, cpu.leased, cpu.rate) == ("14", "11", "0", "43")
    assert (shown.cursors[0].kind, shown.cursors[0].x) == ("cpu-cursor", 300)


# One side


@pytest.mark.parametrize(
    ("strategy", "side", "made", "label"),
    [
        ("cpu", "cpu", {"cpu": 100, "csd": 0}, "CPU workers, from the start"),
        ("csd", "csd", {"cpu": 0, "csd": 100}, "CSD, from the end"),
    ],
)
def test_a_strategy_with_one_side_shows_one_front(
    strategy: str, side: str, made: dict[str, int], label: str
) -> None:
    info = run_info(strategy=strategy, emulated=[])
    working = Front(taken=20, delivered=10, ready=5, leased=5, images_per_s=40.0)
    shown = page(info, seen=snapshot(**{side: working})).fronts
    assert [entry.label for entry in shown.sides] == [label]
    assert [cursor.kind for cursor in shown.cursors] == [f"{side}-cursor"]
    assert shown.marker is None
    assert shown.outlook == "The last batch of this epoch should be made in about 20 s."
    over = page(info, epochs=[epoch_info(made=made, delivered=made, meeting_point=0)])
    assert [entry.prong for entry in over.fronts.sides] == [side]
    assert over.fronts.marker is None
    assert over.fronts.outlook.endswith("made all batches of this epoch.")
    assert over.epochs[0].made == f"100 {side.upper()}"


def test_what_the_other_side_made_before_a_switch_stays_to_be_seen() -> None:
    info = run_info(strategy="cpu")
    csd = Front(taken=10, delivered=10, ready=0, leased=0, images_per_s=0.0)
    shown = page(info, seen=snapshot(csd=csd)).fronts
    assert [entry.prong for entry in shown.sides] == ["cpu", "csd"]
    mixed = page(info, epochs=[epoch_info()]).epochs[0]
    assert mixed.made == "70 CPU · 30 CSD"
