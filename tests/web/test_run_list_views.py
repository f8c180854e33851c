"""The list of runs in words: rows, chips, columns, and addresses that keep what was chosen."""

import time
import uuid
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ddlp.core.energy import PowerModel
from ddlp.core.lifecycle import TERMINAL
from ddlp.core.messages import DeviceInfo, RoomInfo, RunInfo
from ddlp.core.messages.run_list import RunListQuery, RunSort
from ddlp.core.types import DeviceKind, Prong, RunState
from ddlp.server.run_list import Delivered, LiveRate, RunChoices
from ddlp.web.run_list_views import (
    ListFacts,
    RunListView,
    RunRow,
    address,
    day,
    glance,
    run_list_view,
    run_row,
)
from tests.web.examples import energy, run_info

CHOICES = RunChoices(["fruit", "trees"], ["mte", "wrr"], ["small"])
DAY_S = 86_400.0


def row(delivered: Delivered | None = None, rate: LiveRate | None = None, **changes: Any) -> RunRow:
    return run_row(run_info(**changes), delivered or Delivered(), rate)


def listed(
    infos: list[RunInfo] | None = None, asked: RunListQuery | None = None, **facts: Any
) -> RunListView:
    usual = {"counts": {RunState.RUNNING: 2, RunState.FAILED: 1}, "choices": CHOICES}
    known = ListFacts(infos=[run_info()] if infos is None else infos, **{**usual, **facts})
    return run_list_view(known, asked or RunListQuery())


def given(place: str) -> dict[str, list[str]]:
    """What an address asks for."""
    assert urlsplit(place).path == "/"
    return parse_qs(urlsplit(place).query)


def test_a_row_says_what_the_run_is_and_how_far() -> None:
    found = row(Delivered(cpu=100, csd=50), name="r50")
    assert (found.key, found.name, found.state) == (uuid.UUID(int=1).hex, "r50", "running")
    assert found.what == "fruit · wrr · imagenet-train"
    assert (found.percent, found.cpu_percent, found.csd_percent) == (75, 50.0, 25.0)
    assert found.progress == (
        "75 % of all batches delivered: 50 % made by the CPU, 25 % by the emulated CSD"
    )
    assert found.duration == "10 s"


def test_what_is_not_known_is_a_dash_and_never_a_zero() -> None:
    found = row(started_at=None, ended_at=None)
    unknown = (found.images_per_s, found.wait, found.millijoules, found.duration)
    assert unknown == ("—", "—", "—", "—")
    assert found.provenance is None
    assert not found.live


def test_what_is_known_to_be_nothing_is_a_zero() -> None:
    found = row(rate=LiveRate(0.0, 0.0))
    assert (found.images_per_s, found.wait) == ("0", "0.0 %")


def test_energy_says_how_it_is_known() -> None:
    used = [energy("cpu", 50.0), energy("csd", 30.0, "measured")]
    found = row(images={"cpu": 100, "csd": 100}, energy=used)
    assert (found.millijoules, found.provenance) == ("400.00", "measured + modelled")
    partly = row(images={"cpu": 100, "csd": 100}, energy=[*used[:1], energy("csd", None)])
    assert (partly.millijoules, partly.provenance) == ("—", None)


def test_energies_of_a_list_are_in_one_unit_with_one_number_of_decimals() -> None:
    for used, said in ((1.38, "13.80"), (0.251, "2.51"), (2345.6, "23,456.00"), (1e-4, "< 0.01")):
        found = row(images={"cpu": 100, "csd": 0}, energy=[energy("cpu", used)])
        assert found.millijoules == said


def test_a_live_run_says_what_the_trainer_gets_now_and_one_that_is_over_its_mean() -> None:
    images = {"cpu": 9_000, "csd": 3_345}
    now = row(rate=LiveRate(1_234.4, 0.456), images=images, wait_share=0.9)
    assert (now.images_per_s, now.live, now.wait) == ("1,234", True, "45.6 %")
    over = row(images=images, wait_share=0.9, delivered_images_per_s=98.7)
    assert (over.images_per_s, over.live, over.wait) == ("99", False, "90.0 %")


def test_what_was_made_in_the_time_of_a_run_is_not_taken_for_its_throughput() -> None:
    prepared = row(images={"cpu": 7_489, "csd": 0}, started_at=10.0, ended_at=11.0)
    assert prepared.images_per_s == "—"
    assert row(rate=LiveRate(None, None)).images_per_s == "—"


def test_an_incomplete_run_says_what_it_left() -> None:
    assert row(state=RunState.INCOMPLETE, samples_left=1250).left == "1,250 samples left"
    assert row(state=RunState.COMPLETED).left is None


def test_a_row_of_a_run_that_goes_on_lasts_until_now() -> None:
    found = row(started_at=time.time() - 7200, ended_at=None)
    assert found.duration == "2 h 0 min"
    assert row(started_at=10.0, ended_at=10.4).duration == "under 1 s"


def test_bars_never_overlap_however_often_batches_were_made() -> None:
    found = row(Delivered(cpu=150, csd=120))
    assert (found.percent, found.cpu_percent, found.csd_percent) == (100, 75.0, 25.0)


def test_the_bar_shows_what_its_number_says() -> None:
    found = row(Delivered(cpu=40, csd=20, taken_over=50))
    parts = (found.cpu_percent, found.csd_percent, found.taken_over_percent)
    assert parts == (20.0, 10.0, 25.0)
    assert sum(parts) == found.percent == 55
    assert found.progress.endswith("10 % by the emulated CSD, 25 % by the run before")


@pytest.mark.parametrize(("emulated", "said"), [(["csd"], True), ([], False)])
def test_what_an_emulated_csd_made_is_said(emulated: list[str], said: bool) -> None:
    found = row(emulated=emulated)
    assert found.emulated is said
    assert ("the emulated CSD" in found.progress) is said


@pytest.mark.parametrize("state", RunState)
def test_only_runs_that_are_not_over_can_be_cancelled(state: RunState) -> None:
    assert row(state=state).active is (state not in TERMINAL)
    assert listed([run_info(state=state)]).live is (state not in TERMINAL)


def test_a_chip_chooses_its_state_and_leaves_it_again() -> None:
    running, failed = listed().chips
    assert (running.state, running.count, running.chosen) == ("running", "2", False)
    assert given(running.address) == {"state": ["running"]}
    running, failed = listed(asked=RunListQuery(state=[RunState.RUNNING])).chips
    assert running.chosen
    assert running.address == "/"
    assert given(failed.address) == {"state": ["running", "failed"]}


def test_a_column_sorts_by_itself_first_and_then_the_other_way() -> None:
    columns = listed().columns
    assert given(columns["name"].address) == {"sort": ["name"], "order": ["up"]}
    assert given(columns["duration"].address) == {"sort": ["duration"], "order": ["down"]}
    assert (columns["name"].order, columns["created"].order) == ("none", "descending")
    assert given(columns["created"].address) == {"sort": ["created"], "order": ["up"]}
    asked = RunListQuery(sort=RunSort.NAME, ascending=True)
    column = listed(asked=asked).columns["name"]
    assert column.order == "ascending"
    assert given(column.address) == {"sort": ["name"], "order": ["down"]}
    assert listed(asked=asked).columns["created"].address == "/"


def test_every_address_keeps_what_was_chosen() -> None:
    asked = RunListQuery(
        search="a&b",
        dataset="fruit",
        strategy="wrr",
        pipeline="small",
        after=0.0,
        before=3 * DAY_S,
        sort=RunSort.NAME,
        ascending=True,
    )
    kept = {
        "search": ["a&b"],
        "dataset": ["fruit"],
        "strategy": ["wrr"],
        "pipeline": ["small"],
        "since": ["1970-01-01"],
        "until": ["1970-01-03"],
    }
    order = {"sort": ["name"], "order": ["up"]}
    found = listed(asked=asked, next="further")
    assert given(found.here) == kept | order
    assert found.older is not None
    assert given(found.older) == kept | order | {"cursor": ["further"]}
    assert given(found.chips[0].address) == kept | order | {"state": ["running"]}
    assert given(found.columns["state"].address) == kept | {"sort": ["state"], "order": ["up"]}


def test_the_form_shows_what_was_chosen_among_what_there_is() -> None:
    asked = RunListQuery(
        search="r5", dataset="trees", state=[RunState.FAILED], after=DAY_S, before=2 * DAY_S
    )
    filters = listed(asked=asked).filters
    assert (filters.search, filters.states) == ("r5", ["failed"])
    assert (filters.since, filters.until) == ("1970-01-02", "1970-01-02")
    assert filters.selects == [
        ("dataset", "trees", ["fruit", "trees"]),
        ("strategy", "", ["mte", "wrr"]),
        ("pipeline", "", ["small"]),
    ]


def test_pages_lead_to_those_beside_them_and_any_change_begins_at_the_first() -> None:
    asked = RunListQuery(cursor="here", search="r")
    found = listed(asked=asked, next="on", previous="back")
    assert found.older == "/?search=r&cursor=on"
    assert found.newer == "/?search=r&cursor=back"
    assert given(found.here)["cursor"] == ["here"]
    assert "cursor" not in given(found.chips[0].address)
    assert "cursor" not in given(found.columns["name"].address)
    alone = listed()
    assert (alone.older, alone.newer, alone.here) == (None, None, "/")


def test_no_run_at_all_is_not_the_same_as_none_that_matches() -> None:
    nothing = listed([], counts={})
    assert (nothing.empty, nothing.filtered, nothing.total) == (True, False, "0 runs")
    unmatched = listed([], RunListQuery(search="x"), counts={})
    assert (unmatched.empty, unmatched.filtered) == (False, True)
    beyond = listed([], RunListQuery(cursor="far"))
    assert (beyond.empty, beyond.filtered) == (False, False)


def test_runs_are_counted_over_all_states() -> None:
    assert listed().total == "3 runs"
    assert listed(counts={RunState.CREATED: 1}).total == "1 run"
    assert listed(counts={RunState.COMPLETED: 12_345}).chips[0].count == "12,345"


def test_the_newest_first_needs_no_words_in_the_address() -> None:
    assert address(RunListQuery(sort=RunSort.CREATED, ascending=False)) == "/"
    assert day(None) == ""


def test_a_glance_counts_what_is_live_and_says_what_is_emulated() -> None:
    def device(live: bool, emulated: bool) -> DeviceInfo:
        return DeviceInfo(
            name="d",
            prong=Prong.CSD,
            kind=DeviceKind.EMULATED_CSD,
            emulated=emulated,
            slots=1,
            host="here",
            engine="fused-2",
            store="file:///drive",
            serves=None,
            room=RoomInfo(),
            power=PowerModel(active_w=None, source="nobody"),
            live=live,
            last_seen_at=5.0,
        )

    some = [device(True, True), device(True, False), device(False, True)]
    assert glance(some, 1) == ("2 devices live (1 emulated)", "1 dataset")
    assert glance(some[1:2], 1200) == ("1 device live", "1,200 datasets")
