"""Runs side by side in words: what was different, what that changed, and how sure that is."""

from typing import Any

import pytest

from ddlp.core.messages import RunInfo
from ddlp.core.messages.comparison import ComparisonInfo, DifferenceInfo, FigureInfo, GroupInfo
from ddlp.core.messages.reports import Joules, PartReport, RunReport, StallInfo
from ddlp.core.types import Provenance, RunState, Spending
from ddlp.web.compare_views import Cell, CompareView, compare_address, compare_view
from tests.web.examples import device_report, run_info

ENERGY = Joules(joules=2000.0, provenance=Provenance.MODELLED, method="x", period_s=20.0)
NOTHING = StallInfo(spent_s={}, shares={}, limited_by=None, sentence="Nothing yet.")
CONDITIONS = {"dataset": "fruit (d)", "strategy": "wrr", "epochs": "2"}


def report(info: RunInfo, **changes: Any) -> RunReport:
    """A run that delivered 1,000 images in 10 seconds for 2 modelled joules each."""
    values: dict[str, Any] = {
        "images": 1000,
        "delivered": 1000,
        "seconds": 12.0,
        "measured_s": 10.0,
        "images_per_s": 100.0,
        "stall": NOTHING,
        "devices": [device_report("cpu", "cpu0", energy=[ENERGY])],
        "cpu_s_per_1000_images": None,
        "memory_byte_s_per_1000_images": None,
        "joules_per_image": 2.0,
        "provenance": [Provenance.MODELLED],
        "idle_joules": None,
    }
    conditions = CONDITIONS | {"strategy": info.strategy}
    return RunReport(
        id=info.id,
        run=info.name,
        state=info.state.value,
        conditions=conditions,
        whole=PartReport(**values | changes),
        epochs=[],
    )


def figure(mean: float | None, change: float | None = None, **more: Any) -> FigureInfo:
    return FigureInfo(mean=mean, change=change, **{"n": 1, "half_interval": None, **more})


def repeated(mean: float, change: float, low: float, high: float) -> FigureInfo:
    clear = low > 0 or high < 0
    return figure(
        mean, change, half_interval=1.0, change_low=low, change_high=high, clear=clear, n=3
    )


def group(*runs: str, **figures: FigureInfo) -> GroupInfo:
    return GroupInfo(runs=list(runs), figures=figures)


def different(**values: list[str | None]) -> list[DifferenceInfo]:
    return [DifferenceInfo(condition=name, values=found) for name, found in values.items()]


def compared(
    groups: list[GroupInfo],
    differences: list[DifferenceInfo] | None = None,
    infos: list[RunInfo] | None = None,
    **changes: Any,
) -> CompareView:
    """A comparison; its runs have the names of the groups'."""
    names = [name for one in groups for name in one.runs]
    found = infos or [run_info(name=name) for name in names]
    apart = different(strategy=["wrr", "mte"]) if differences is None else differences
    reports = [report(info, **changes) for info in found]
    return compare_view(ComparisonInfo(groups=groups, differences=apart), found, reports)


def cell(name: str, changed: FigureInfo) -> Cell:
    """What the second of two groups says of a figure."""
    groups = [group("a", **{name: figure(100.0)}), group("b", **{name: changed})]
    [(_, [_, found])] = compared(groups).figures
    return found


@pytest.mark.parametrize(
    ("name", "change", "verdict"),
    [
        ("images_per_s", 0.1, "better"),
        ("images_per_s", -0.1, "worse"),
        ("images_per_s", 0.0001, "same"),
        ("seconds", 0.1, "worse"),
        ("seconds", -0.1, "better"),
        ("joules_per_image", -0.1, "better"),
        ("cpu_share_of_images", 0.5, ""),
    ],
)
def test_a_change_is_for_the_better_or_for_the_worse(
    name: str, change: float, verdict: str
) -> None:
    assert cell(name, figure(110.0, change)).verdict == verdict


def test_an_interval_that_holds_no_change_decides_nothing() -> None:
    unclear = cell("images_per_s", repeated(110.0, 0.1, -0.05, 0.25))
    assert unclear.verdict == "same"
    assert unclear.figure == "110 images/s ± 1 images/s"
    assert unclear.change == "+10.0 % (95 %: -5.0 to +25.0 %)"
    assert cell("images_per_s", repeated(110.0, 0.1, 0.02, 0.18)).verdict == "better"


def test_the_unknown_is_a_dash_and_what_nobody_knows_has_no_row() -> None:
    groups = [
        group("a", images_per_s=figure(100.0), joules_per_image=figure(None)),
        group("b", images_per_s=figure(None)),
    ]
    found = compared(groups)
    assert [label for label, _ in found.figures] == ["delivered"]
    assert found.figures[0][1] == [Cell("100 images/s", "", ""), Cell("—", "", "")]
    assert found.summary == (
        "What mte changed against wrr is not known: one of them delivered nothing."
    )


def test_a_share_changes_by_points() -> None:
    """2.3 % of waiting that become 26.2 % are no "+1042.8 %"."""
    groups = [
        group("a", wait_share=figure(0.023)),
        group("b", wait_share=figure(0.262, 10.391)),
        group("c", wait_share=repeated(0.0345, 0.5, -0.5, 1.5)),
    ]
    apart = different(strategy=["wrr", "mte", "cpu"])
    [(label, [base, worse, unclear])] = compared(groups, apart).figures
    assert label == "trainer's time spent waiting"
    assert base == Cell("2.3 %", "", "")
    assert worse == Cell("26.2 %", "+23.9 points", "worse")
    assert unclear.change == "+1.1 points (95 %: -1.1 to +3.4 points)"
    assert unclear.verdict == "same"


def test_a_row_of_energies_has_one_unit() -> None:
    groups = [
        group("a", joules_per_image=figure(0.0138)),
        group("b", joules_per_image=figure(0.00251, -0.82)),
    ]
    [(_, cells)] = compared(groups).figures
    assert [cell.figure for cell in cells] == ["13.8 mJ", "2.51 mJ"]


@pytest.mark.parametrize(
    ("name", "mean", "said"),
    [
        ("images_per_s", 12_345.6, "12,346 images/s"),
        ("images_per_s", 1.234, "1.23 images/s"),
        ("seconds", 3.21, "3.21 s"),
        ("seconds", 75.0, "1 min 15 s"),
        ("wait_share", 0.4567, "45.7 %"),
        ("joules_per_image", 0.0012, "0.0012 J"),
        ("cpu_s_per_1000_images", 2.5, "2.5 cpu s"),
        ("memory_byte_s_per_1000_images", 2.5e9, "2.5 GB × s"),
    ],
)
def test_figures_have_units(name: str, mean: float, said: str) -> None:
    assert cell(name, figure(mean)).figure == said


def test_with_one_run_each_nobody_can_say_how_sure_it_is() -> None:
    groups = [
        group("a", images_per_s=figure(100.0), joules_per_image=figure(2.0)),
        group("b", images_per_s=figure(112.0, 0.12), joules_per_image=figure(1.9, -0.05)),
    ]
    assert compared(groups).summary == (
        "mte delivered 12 % more images/s than wrr and used 5.0 % fewer joules per image; "
        "with one run each it cannot be said how sure that is."
    )


def test_with_repeats_the_sentence_says_whether_it_is_clear() -> None:
    def summary(high: float) -> str:
        base = group("a", "b", images_per_s=figure(100.0))
        other = group("c", "d", "e", images_per_s=repeated(96.0, -0.04, -0.06, high))
        return compared([base, other], different(epochs=["1", "2"])).summary

    ours = "c, d, e delivered 4.0 % fewer images/s than a, b; the difference in images/s"
    assert summary(-0.02) == f"{ours} is clear over 2 and 3 runs."
    assert summary(0.02) == f"{ours} is not clear over 2 and 3 runs."


def test_of_a_run_that_delivered_nothing_yet_only_the_energy_is_compared() -> None:
    groups = [
        group("a", images_per_s=figure(100.0), joules_per_image=figure(2.0)),
        group("b", joules_per_image=figure(3.0, 0.5)),
    ]
    assert compared(groups).summary.startswith("mte used 50 % more joules per image than wrr;")


def test_groups_are_called_by_their_strategy_where_only_that_tells_them_apart() -> None:
    groups = [
        group("a", images_per_s=figure(100.0)),
        group("b", images_per_s=figure(100.0, 0.0001)),
    ]
    strategies: list[str | None] = ["wrr", "mte"]
    only = compared(groups, different(strategy=strategies))
    assert only.summary.startswith("mte delivered as many images/s as wrr;")
    both = compared(groups, different(strategy=strategies, epochs=["1", "2"]))
    assert both.summary.startswith("b delivered as many images/s as a;")


def test_repeats_of_each_other_are_called_that() -> None:
    found = compared([group("a", "b", images_per_s=figure(100.0))], [])
    assert found.summary.startswith("These runs are repeats of each other")
    assert found.columns == ["a, b"]
    assert found.differences == []


def test_what_was_different_stands_apart_from_what_was_the_same() -> None:
    groups = [group("a"), group("b")]
    found = compared(groups, different(strategy=["wrr", None]))
    assert found.columns == ["a", "b"]
    assert found.differences == [("strategy", ["wrr", "—"])]
    assert found.same == "The same everywhere: dataset fruit (d), epochs 2."
    apart = different(dataset=["x", "y"], strategy=["wrr", "mte"], epochs=["1", "2"])
    assert compared(groups, apart).same == "Nothing was the same everywhere."


def test_each_run_can_become_the_base_or_leave() -> None:
    first, second, third = compared([group("a"), group("b"), group("c d")], []).runs
    assert [run.number for run in (first, second, third)] == [1, 2, 3]
    assert first.make_base is None
    assert second.make_base == "/runs/compare?run=b&run=a&run=c+d"
    assert third.make_base == "/runs/compare?run=c+d&run=a&run=b"
    assert second.without == "/runs/compare?run=a&run=c+d"
    assert compare_address(["a&b", "c"]) == "/runs/compare?run=a%26b&run=c"


def test_what_the_charts_show_is_said_in_words_too() -> None:
    groups = [group("a"), group("b")]
    known = compared(groups).runs[0]
    assert known.words == (
        "100 images/s delivered on average over 10 s; 100 W on average over 20 s (modelled)"
    )
    assert known.energy_known
    unknown = compared(groups, measured_s=1.25, joules_per_image=None, provenance=[]).runs[0]
    assert unknown.words.endswith("over 1.25 s; its energy is not known")
    assert not unknown.energy_known
    unmeasured = compared(groups, images_per_s=None, measured_s=0.0).runs[0].words
    assert unmeasured.startswith("1,000 images delivered; images/s not measured")
    none = compared(groups, images_per_s=None, delivered=0, devices=[]).runs[0].words
    assert none == "no trainer has taken an image yet; its energy is not known"


def test_a_run_that_goes_on_and_what_is_emulated_are_said() -> None:
    over = run_info(name="a", state=RunState.COMPLETED, emulated=[])
    goes_on = run_info(name="b", state=RunState.RUNNING, ended_at=None, emulated=[])
    found = compared([group("a"), group("b")], infos=[over, goes_on])
    assert [(run.state, run.live) for run in found.runs] == [
        ("completed", False),
        ("running", True),
    ]
    assert found.note == ""
    emulated = over.model_copy(update={"emulated": ["csd"]})
    found = compared([group("a"), group("b")], infos=[emulated, goes_on])
    assert "emulated CSD" in found.note


def test_where_the_time_went_is_shown_run_by_run() -> None:
    spent = NOTHING.model_copy(update={"spent_s": {Spending.TRAINING: 3.0, Spending.CSD: 1.0}})
    infos = [run_info(name="a", stall=spent), run_info(name="b")]
    busy, idle = compared([group("a"), group("b")], infos=infos).runs
    assert busy.spent.summary == "training 75.0 %, waiting for the CSD 25.0 %"
    assert idle.spent.parts == []
