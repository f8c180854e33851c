"""View models: the bar of both fronts, its outlook, what can be done, and rows of tables."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddlp.core.messages import DeviceInfo, ReadInfo, RoomInfo
from ddlp.core.types import DeviceKind, EpochState, Prong, ReadPath, RunState
from ddlp.server.snapshot import Front
from ddlp.web.views import SCALE, Segment, device_row, run_row, run_view
from tests.web.examples import energy, epoch_info, live, run_info, snapshot

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
    assert run_view(run_info(), [], None).fronts.segments == []


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
    segments = run_view(info, [], snapshot(batches=batches, cpu=cpu, csd=csd)).fronts.segments
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
    marker = run_view(info, [], snapshot(batches=batches, cpu=cpu, csd=csd)).fronts.marker
    unit = SCALE / batches
    if marker is not None:
        assert cpu.taken * unit - 1e-6 <= marker <= SCALE - csd.taken * unit + 1e-6


def test_a_run_that_ended_shows_its_last_epoch_that_delivered() -> None:
    epochs = [
        epoch_info(number=0),
        epoch_info(number=1, made={"cpu": 60, "csd": 40}),
        epoch_info(number=2, made={"cpu": 1, "csd": 1}, consumed=0, state=EpochState.ABANDONED),
    ]
    shown = run_view(run_info(), epochs, None).fronts
    assert [(part.x, part.width) for part in shown.segments] == [(0, 600), (600, 400)]
    assert shown.summary == (
        "CPU delivered 60 from the head, CSD delivered 40 from the tail, of 100 batches"
    )


def test_the_sides_say_in_words_what_the_bar_shows() -> None:
    cpu = Front(taken=3000, delivered=1500, ready=20, leased=4, images_per_s=1234.4)
    shown = live(cpu=cpu, batches=9000).fronts
    assert (shown.cpu.delivered, shown.cpu.ready, shown.cpu.leased) == ("1,500", "20", "4")
    assert shown.cpu.rate == "1,234"
    assert shown.title == "Both fronts · 100 batches of 10"


def test_the_emulated_side_says_so_and_a_real_one_does_not() -> None:
    used = [energy("cpu", 1.0), energy("csd", 1.0)]
    for emulated in ([], ["csd"]):
        view = run_view(run_info(emulated=emulated, energy=used), [], snapshot())
        assert not view.fronts.cpu.emulated
        assert view.fronts.csd.emulated == view.emulated_csd == bool(emulated)
        label = "CSD (emulated)" if emulated else "CSD"
        assert [row[0] for row in view.energy] == ["CPU workers", label]


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
    shown = run_view(run_info(), [epoch_info(), epoch_info(number=1, meeting_point=65)], None)
    assert (shown.fronts.marker, shown.fronts.outlook) == (650, "they met at batch 65")


def test_a_run_that_was_cut_off_says_that_they_did_not_meet() -> None:
    shown = run_view(run_info(), [epoch_info(meeting_point=None)], None)
    assert (shown.fronts.marker, shown.fronts.outlook) == (None, "the fronts did not meet")


# The rest of the page


@pytest.mark.parametrize(
    ("state", "actions"),
    [
        (RunState.CREATED, ["pause", "cancel"]),
        (RunState.RUNNING, ["pause", "cancel"]),
        (RunState.PAUSED, ["resume", "cancel"]),
        (RunState.COMPLETED, []),
        (RunState.FAILED, []),
        (RunState.CANCELLED, []),
    ],
)
def test_what_can_be_done_depends_on_the_state(state: RunState, actions: list[str]) -> None:
    assert run_view(run_info(state=state), [], None).actions == actions
    assert run_view(run_info(), [], snapshot(state=state)).actions == actions


def test_what_is_live_wins_over_what_was_stored() -> None:
    view = run_view(run_info(state=RunState.CREATED), [], snapshot(state=RunState.PAUSED))
    assert (view.state, view.live) == ("paused", True)
    assert not run_view(run_info(), [], None).live


def test_the_chips_name_the_epoch_strategy_batch_size_and_seed() -> None:
    chips = ["wrr", "batch 10", "seed 7"]
    assert live(epoch=1).chips == ["epoch 2 of 2", *chips]
    assert live(epoch=None).chips == ["epoch 1 of 2", *chips]
    assert run_view(run_info(), [epoch_info(number=1)], None).chips[0] == "epoch 2 of 2"


def test_epochs_are_listed_newest_first() -> None:
    view = run_view(run_info(), [epoch_info(number=number) for number in range(30)], None)
    assert [row[0] for row in view.epochs] == list(range(29, -1, -1))


def test_an_epoch_is_one_row() -> None:
    rows = run_view(
        run_info(),
        [
            epoch_info(made={"cpu": 1700, "csd": 300}, ended_at=85.0),
            epoch_info(number=1, state=EpochState.OPEN, meeting_point=None, ended_at=None),
        ],
        snapshot(),
    ).epochs
    assert rows == [
        (1, "open", "70 CPU · 30 CSD", "—", "100 of 100"),
        (0, "complete in 1 min 15 s", "1,700 CPU · 300 CSD", "batch 70", "100 of 100"),
    ]


def test_the_facts_name_the_exact_dataset_and_pipeline() -> None:
    facts = dict(run_view(run_info(created_at=1_700_000_000.9), [], None).facts)
    assert facts["dataset"] == "fruit · 1,000 samples · dddddddddddd"
    assert facts["storage form"] == "folder"
    assert facts["pipeline"] == "imagenet-train · eeeeeeeeeeee"
    assert facts["created"] == "2023-11-14 22:13:20 UTC"


def test_the_engine_is_part_of_what_changes() -> None:
    assert run_view(run_info(engine="fused-2, reference-2"), [], None).engine == (
        "fused-2, reference-2"
    )


def test_a_run_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddlp.web.views.time.time", lambda: 3723.0)
    row = run_row(run_info(images={"cpu": 1200, "csd": 34}))
    assert row.images == "1,234 of 2,000"
    assert (row.created, row.created_exact) == ("1 h 2 min ago", "1970-01-01 00:00:00 UTC")


@pytest.mark.parametrize("kind", DeviceKind)
def test_a_device_is_one_row_that_never_hides_emulation(kind: DeviceKind) -> None:
    info = DeviceInfo.model_construct(
        name="d",
        prong=Prong.CSD,
        kind=kind,
        emulated=kind.emulated,
        slots=2,
        live=False,
        engine="",
        store="file:///drive",
        serves=None,
        room=RoomInfo(free_bytes=3_000_000_000),
    )
    row = device_row(info)
    assert row.emulated == (kind is DeviceKind.EMULATED_CSD)
    assert (row.name, row.prong, row.kind, row.slots, row.live) == ("d", "csd", kind, 2, False)
    assert (row.store, row.room) == ("file:///drive", "3.0 GB free")


def test_how_batches_came_and_what_holds_a_run_up_are_shown() -> None:
    reads = [
        ReadInfo(path=ReadPath.DIRECT, reason="no GDS", batches=1200, bytes=46_000_000_000),
        ReadInfo(path=ReadPath.MMAP, reason="tmpfs", batches=2, bytes=1_500_000),
    ]
    view = run_view(run_info(reads=reads, held_up="csd rests: the drive is full"), [], None)
    assert view.reads == [
        ("direct", "no GDS", "1,200", "46.0 GB"),
        ("mmap", "tmpfs", "2", "1.5 MB"),
    ]
    assert view.held_up == "csd rests: the drive is full"
    assert run_view(run_info(), [], None).held_up is None
