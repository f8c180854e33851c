"""What a run's page says: figures, what can be done, epochs and facts; the unknown is a dash."""

import re

import pytest

from ddlp.core.dataset.files import CHANGED
from ddlp.core.lifecycle import TERMINAL
from ddlp.core.messages import ReadInfo
from ddlp.core.messages.reports import StallInfo
from ddlp.core.messages.timeline import TimelineInfo
from ddlp.core.stalls import Circumstances, limit
from ddlp.core.types import BadPolicy, EpochState, ReadPath, RunState
from ddlp.web.data_views import bad_view
from ddlp.web.run_views import RunView
from ddlp.web.templating import templates
from ddlp.web.timeline_views import timeline_view
from tests.web.examples import energy, epoch_info, live, page, run_info, snapshot

MEAN = "images/s delivered, on average"
WAITING = "of training time spent waiting"
MADE = {"cpu": 60, "csd": 40}


def figures(view: RunView) -> dict[str, str]:
    return {tile.caption: tile.figure for tile in view.tiles}


def energy_tile(view: RunView) -> tuple[str, str | None]:
    (tile,) = [tile for tile in view.tiles if tile.caption == "per image"]
    return tile.figure, tile.mark


# Tiles


def test_the_unknown_is_a_dash_and_never_zero() -> None:
    info = run_info(energy=[energy("cpu", None), energy("csd", None)], images={"cpu": 9, "csd": 1})
    nothing_made = run_info(energy=info.energy)
    for view in [page(i, seen=s) for i in (info, nothing_made) for s in (snapshot(), None)]:
        shown = figures(view)
        assert (shown[WAITING], shown["per image"]) == ("—", "—")
        assert energy_tile(view) == ("—", "unavailable")


def test_a_zero_that_is_known_is_a_zero() -> None:
    shown = figures(live(wait_share=0.0))
    assert shown[WAITING] == "0.0 %"
    assert shown["images/s delivered"] == "0"


@pytest.mark.parametrize(
    ("cpu", "csd", "mark"),
    [
        ("measured", "measured", "measured"),
        ("modelled", "modelled", "modelled"),
        ("measured", "modelled", "measured + modelled"),
        ("modelled", "measured", "measured + modelled"),
    ],
)
def test_a_figure_is_marked_as_what_it_was_made_from(cpu: str, csd: str, mark: str) -> None:
    used = [energy("cpu", 30.0, cpu), energy("csd", 10.0, csd)]
    assert energy_tile(page(run_info(energy=used, images=MADE))) == ("0.4 J", mark)


@pytest.mark.parametrize("known", ["cpu", "csd"])
def test_the_energy_of_an_image_is_unknown_when_one_prong_is_unknown(known: str) -> None:
    used = [energy(prong, 30.0 if prong == known else None) for prong in ("cpu", "csd")]
    assert energy_tile(page(run_info(energy=used, images=MADE))) == ("—", "unavailable")


def test_a_prong_that_made_nothing_need_not_be_known() -> None:
    used = [energy("cpu", 30.0), energy("csd", None)]
    view = page(run_info(energy=used, images={"cpu": 60, "csd": 0}))
    assert energy_tile(view) == ("0.5 J", "modelled")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (3599.7, "1 h 0 min"),
        (360_000, "100 h 0 min"),
        (-5, "0 s"),
    ],
)
def test_durations_are_said_in_the_two_largest_units(seconds: float, text: str) -> None:
    view = page(run_info(started_at=50.0, ended_at=50.0 + seconds))
    assert figures(view)["in all"] == text


def test_the_time_left_follows_from_what_is_left_and_the_rate_of_now() -> None:
    rate = snapshot(delivered_images_per_s=5.0)
    assert figures(page(seen=rate, consumed=50))["left for 2 epochs"] == "5 min 0 s"
    assert figures(page(seen=rate, consumed=150))["left"] == "1 min 40 s"
    assert figures(live(delivered_images_per_s=0.0))["left for 2 epochs"] == "—"
    paused = snapshot(delivered_images_per_s=5.0, state=RunState.PAUSED)
    assert figures(page(seen=paused, consumed=150))["left"] == "—"


def test_figures_are_those_of_now_while_the_run_is_live_and_of_all_when_it_ended() -> None:
    info = run_info(wait_share=0.5, images={"cpu": 1500, "csd": 500})
    now = figures(page(info, seen=snapshot(wait_share=0.125, delivered_images_per_s=1234.5)))
    assert (now["images/s delivered"], now[WAITING]) == ("1,234", "12.5 %")
    in_all = figures(page(info))
    assert (in_all[MEAN], in_all[WAITING]) == ("—", "50.0 %"), "images made say nothing of it"
    measured = figures(page(info.model_copy(update={"delivered_images_per_s": 98.7})))
    assert measured[MEAN] == "99"


def test_what_is_not_measured_now_is_no_figure() -> None:
    now = figures(page(seen=snapshot(delivered_images_per_s=None)))
    assert (now["images/s delivered"], now["left for 2 epochs"]) == ("—", "—")


def test_an_incomplete_run_says_what_it_left() -> None:
    view = page(run_info(state=RunState.INCOMPLETE, samples_left=1250))
    assert (view.state, view.chips[-1]) == ("incomplete", "1,250 samples left")
    assert "left" not in " ".join(page(run_info(state=RunState.COMPLETED)).chips)


def test_progress_is_the_share_of_all_epochs() -> None:
    for consumed, percent in ((0, 0), (50, 25), (150, 75), (200, 100)):
        assert page(seen=snapshot(), consumed=consumed).percent == percent
        assert page(consumed=consumed).percent == percent


@pytest.mark.parametrize(("consumed", "percent"), [(996, 99), (999, 99), (1000, 100), (9, 0)])
def test_a_run_that_is_not_done_is_not_at_100_percent(consumed: int, percent: int) -> None:
    info = run_info(batches=1000, samples=10_000, epochs=1)
    assert page(info, seen=snapshot(batches=1000), consumed=consumed).percent == percent


# What can be done


@pytest.mark.parametrize(
    ("state", "labels"),
    [
        (RunState.CREATED, ["Pause", "Cancel"]),
        (RunState.RUNNING, ["Pause", "Cancel"]),
        (RunState.PAUSED, ["Resume", "Cancel"]),
        (RunState.COMPLETED, ["Delete"]),
        (RunState.INCOMPLETE, ["Retry", "Delete"]),
        (RunState.FAILED, ["Retry", "Delete"]),
        (RunState.CANCELLED, ["Retry", "Delete"]),
    ],
)
def test_what_can_be_done_depends_on_the_state(state: RunState, labels: list[str]) -> None:
    for view in (page(run_info(state=state)), page(seen=snapshot(state=state))):
        assert [action.label for action in view.actions] == labels
        assert [a.label for a in view.actions if a.confirm] == [
            x for x in labels if x in ("Cancel", "Delete")
        ]


@pytest.mark.parametrize("state", RunState)
def test_only_a_run_that_goes_on_can_be_changed(state: RunState) -> None:
    view = page(run_info(state=state))
    over = state in TERMINAL
    assert bool(view.strategies) is not over
    assert bool(view.limits) is not over


def test_limits_say_what_they_come_to() -> None:
    window, cpu, csd = live().limits
    assert (window.value, window.meaning) == (16, "in force: 16 batches unconsumed at most")
    assert (cpu.label, cpu.value, cpu.scale) == ("CPU store, MB", 1500, 1_000_000)
    assert csd.meaning == "in force: 103 batches; a batch is 38.5 MB"


def test_what_is_live_wins_over_what_was_stored() -> None:
    view = page(run_info(state=RunState.CREATED), seen=snapshot(state=RunState.PAUSED))
    assert (view.state, view.live) == ("paused", True)
    assert not page().live


# The rest of the page


def test_the_chips_name_the_epoch_strategy_batch_size_and_seed() -> None:
    chips = ["wrr", "batch 10", "seed 7"]
    assert live(epoch=1).chips == ["epoch 1 of 0-1", *chips]
    assert live(epoch=None).chips == ["epoch 0 of 0-1", *chips]
    assert page(epochs=[epoch_info(number=1)]).chips[0] == "epoch 1 of 0-1"
    assert page(run_info(epochs=1)).chips[0] == page(run_info(epochs=None)).chips[0] == "epoch 0"
    assert page(run_info(bad_samples=1)).chips[-1] == "1 bad sample"


def test_epochs_are_listed_newest_first() -> None:
    view = page(epochs=[epoch_info(number=number) for number in range(30)])
    assert [row.number for row in view.epochs] == list(range(29, -1, -1))


def test_an_epoch_is_one_row() -> None:
    epochs = [
        epoch_info(made={"cpu": 1700, "csd": 300}, ended_at=85.0),
        epoch_info(number=1, state=EpochState.OPEN, meeting_point=None, ended_at=None),
    ]
    newer, older = page(epochs=epochs, seen=snapshot()).epochs
    assert (newer.state, newer.consumed) == ("open", "100 of 100")
    assert older.state == "complete in 1 min 15 s"
    assert older.made == "1,700 CPU · 300 CSD"


def test_the_facts_name_the_exact_dataset_and_pipeline() -> None:
    facts = dict(page().facts)
    assert facts["dataset"] == "fruit · 1,000 samples · dddddddddddd"
    assert facts["storage form"] == "folder"
    assert facts["pipeline"] == "imagenet-train · eeeeeeeeeeee"


def test_how_batches_came_and_what_holds_a_run_up_are_shown() -> None:
    reads = [
        ReadInfo(path=ReadPath.DIRECT, reason="no GDS", batches=1200, bytes=46_000_000_000),
        ReadInfo(path=ReadPath.MMAP, reason="tmpfs", batches=2, bytes=1_500_000),
    ]
    view = page(run_info(reads=reads, held_up="csd rests: the drive is full"))
    assert view.reads == [
        ("direct", "no GDS", "1,200", "46.0 GB"),
        ("mmap", "tmpfs", "2", "1.5 MB"),
    ]
    assert view.held_up == "csd rests: the drive is full"
    assert page().held_up is None


def test_a_run_that_no_device_works_for_is_stalled_and_not_one_that_pauses() -> None:
    assert live(stalled=True).stalled
    assert not live(stalled=True, state=RunState.PAUSED).stalled
    assert not live().stalled
    assert not page().stalled


def test_a_run_over_changed_files_is_not_offered_a_retry_that_would_fail_again() -> None:
    reason = f"batch 3 of epoch 0: a.jpg: {CHANGED}; rescan the dataset with: ddlp dataset rescan x"
    stale = page(run_info(state=RunState.FAILED, reason=reason))
    assert stale.stale
    assert [action.label for action in stale.actions] == ["Delete"]
    other = page(run_info(state=RunState.FAILED, reason="the trainer left"))
    assert not other.stale
    assert [action.label for action in other.actions] == ["Retry", "Delete"]


@pytest.mark.parametrize("state", [RunState.FAILED, RunState.CANCELLED])
def test_nothing_on_the_page_of_a_run_that_is_over_speaks_of_yet(state: RunState) -> None:
    sentence = limit({}, Circumstances(over=True)).sentence
    stall = StallInfo(spent_s={}, shares={}, limited_by=None, sentence=sentence)
    view = page(run_info(state=state, on_bad=BadPolicy.FAIL, stall=stall))
    words = {"run": view, "bad": bad_view(run_info(state=state, on_bad=BadPolicy.FAIL), [])}
    empty = TimelineInfo(now=0.0, lanes=[], spans=[])
    html = "".join(
        templates.get_template(f"run/{part}.html").render(
            **words, timeline=timeline_view(empty, 10.0)
        )
        for part in ("head", "fronts", "tiles", "spent", "energy", "timeline", "epochs", "events",
                     "reads", "bad")
    )  # fmt: skip
    text = re.sub(r"<[^>]+>", " ", html)
    assert not re.search(r"\byet\b", text), re.findall(r".{30}\byet\b", text)
    assert "Bad samples ·" not in text


@pytest.mark.parametrize(
    ("state", "epochs", "least"),
    [
        (RunState.COMPLETED, 2, 3),
        (RunState.INCOMPLETE, 2, 3),
        (RunState.COMPLETED, None, None),
        (RunState.RUNNING, 2, None),
        (RunState.CANCELLED, 2, None),
    ],
)
def test_a_run_that_is_over_and_can_go_on_is_offered_more_epochs(
    state: RunState, epochs: int | None, least: int | None
) -> None:
    assert page(run_info(state=state, epochs=epochs)).extend_to == least
