"""Figures in words: joules, durations, shares and progress, and what is not known."""

import pytest

from ddlp.web.views import RunView, run_view
from tests.web.examples import energy, live, run_info, snapshot


def figures(view: RunView) -> dict[str, str]:
    return {tile.caption: tile.figure for tile in view.tiles}


def test_the_unknown_is_a_dash_and_never_zero() -> None:
    info = run_info(energy=[energy("cpu", None), energy("csd", None)], images={"cpu": 9, "csd": 1})
    nothing_made = run_info(energy=info.energy)
    views = [run_view(i, [], seen) for i in (info, nothing_made) for seen in (snapshot(), None)]
    for view in views:
        shown = figures(view)
        assert shown["of the trainer's time spent waiting"] == "—"
        assert shown["per image"] == "—"
        assert [row[1:4] for row in view.energy] == [("—", "—", "unavailable")] * 2
        assert energy_tile(view) == ("—", "unavailable")


def test_a_zero_that_is_known_is_a_zero() -> None:
    shown = figures(live(wait_share=0.0))
    assert shown["of the trainer's time spent waiting"] == "0.0%"
    assert shown["images/s delivered now"] == "0"


def energy_tile(view: RunView) -> tuple[str, str | None]:
    (tile,) = [tile for tile in view.tiles if tile.caption == "per image"]
    return tile.figure, tile.mark


MADE = {"cpu": 60, "csd": 40}


def test_a_modelled_figure_is_marked_as_one() -> None:
    info = run_info(energy=[energy("cpu", 30.0), energy("csd", 10.0)], images=MADE)
    view = run_view(info, [], snapshot())
    assert energy_tile(view) == ("0.4 J", "modelled")
    assert view.energy == [
        ("CPU workers", "30 J", "0.3 J", "modelled", "x"),
        ("CSD (emulated)", "10 J", "0.1 J", "modelled", "x"),
    ]


@pytest.mark.parametrize(
    ("cpu", "csd", "mark"),
    [
        ("measured", "measured", "measured"),
        ("measured", "modelled", "measured + modelled"),
        ("modelled", "measured", "measured + modelled"),
    ],
)
def test_a_figure_is_marked_as_what_it_was_made_from(cpu: str, csd: str, mark: str) -> None:
    used = [energy("cpu", 30.0, cpu), energy("csd", 10.0, csd)]
    view = run_view(run_info(energy=used, images=MADE), [], None)
    assert energy_tile(view) == ("0.4 J", mark)


@pytest.mark.parametrize("known", ["cpu", "csd"])
def test_the_energy_of_an_image_is_unknown_when_one_prong_is_unknown(known: str) -> None:
    used = [energy(prong, 30.0 if prong == known else None) for prong in ("cpu", "csd")]
    view = run_view(run_info(energy=used, images=MADE), [], None)
    assert energy_tile(view) == ("—", "unavailable")


def test_a_prong_that_made_nothing_need_not_be_known() -> None:
    used = [energy("cpu", 30.0), energy("csd", None)]
    view = run_view(run_info(energy=used, images={"cpu": 60, "csd": 0}), [], None)
    assert energy_tile(view) == ("0.5 J", "modelled")


@pytest.mark.parametrize(
    ("joules", "text"),
    [
        (0.0, "0 J"),
        (0.000001234, "1.23 µJ"),
        (0.001234, "1.23 mJ"),
        (0.01234, "0.0123 J"),
        (9.876, "9.88 J"),
        (250.4, "250 J"),
        (12_345.6, "12,346 J"),
    ],
)
def test_joules_have_three_digits_or_no_fraction(joules: float, text: str) -> None:
    view = run_view(run_info(energy=[energy("cpu", joules)]), [], None)
    assert view.energy[0][1] == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.4, "0 s"),
        (1, "1 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (61, "1 min 1 s"),
        (3599, "59 min 59 s"),
        (3599.7, "1 h 0 min"),
        (7325, "2 h 2 min"),
        (360_000, "100 h 0 min"),
        (-5, "0 s"),
    ],
)
def test_durations_are_said_in_the_two_largest_units(seconds: float, text: str) -> None:
    view = run_view(run_info(started_at=50.0, ended_at=50.0 + seconds), [], None)
    assert figures(view)["in all"] == text


def test_a_run_that_goes_on_counts_from_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddlp.web.views.time.time", lambda: 100.0)
    view = run_view(run_info(started_at=10.0, ended_at=None), [], snapshot())
    assert figures(view)["so far"] == "1 min 30 s"


def test_figures_are_those_of_now_while_the_run_is_live_and_of_all_when_it_ended() -> None:
    info = run_info(wait_share=0.5, images={"cpu": 1500, "csd": 500})
    caption = "of the trainer's time spent waiting"
    now = figures(run_view(info, [], snapshot(wait_share=0.125, delivered_images_per_s=1234.5)))
    assert (now["images/s delivered now"], now[caption]) == ("1,234", "12.5%")
    in_all = figures(run_view(info, [], None))
    assert (in_all["images made"], in_all[caption]) == ("2,000", "50.0%")


def test_progress_is_the_share_of_all_epochs() -> None:
    for consumed, percent in ((0, 0), (50, 25), (150, 75), (200, 100)):
        assert run_view(run_info(), [], snapshot(), consumed).percent == percent
        assert run_view(run_info(), [], None, consumed).percent == percent


@pytest.mark.parametrize(("consumed", "percent"), [(996, 99), (999, 99), (1000, 100), (9, 0)])
def test_a_run_that_is_not_done_is_not_at_100_percent(consumed: int, percent: int) -> None:
    info = run_info(batches=1000, samples=10_000, epochs=1)
    assert run_view(info, [], snapshot(batches=1000), consumed).percent == percent
