"""The grid of samples and the list of quarantined ones: every page can be reached, and left."""

from urllib.parse import parse_qs

import pytest

from ddlp.core.messages.statistics import QuarantinedInfo, QuarantinePage, SampleInfo, SamplePage
from ddlp.web.sample_views import GRID, Asked, Shown, grid_view, quarantine_view

SHOWN = Shown("my photos", "v" * 64, ["cat", "dog"])


def samples(count: int, total: int) -> SamplePage:
    found = [
        SampleInfo(
            sample=number,
            name=f"/data/{number}.jpg",
            label=0,
            class_name="cat",
            width=640,
            height=480,
            bytes=110_000,
        )
        for number in range(count)
    ]
    return SamplePage(total=total, samples=found)


def test_a_cell_names_class_and_size_and_leads_to_this_very_version() -> None:
    cell = grid_view(SHOWN, Asked(), samples(1, 1)).cells[0]
    assert (cell.label, cell.words) == ("cat", "640 × 480 px · 110.0 kB")
    assert cell.picture == (
        "/api/v1/datasets/my%20photos/samples/0/thumbnail?version=vvvvvvvvvvvv&placeholder=true"
    )


@pytest.mark.parametrize(
    ("offset", "count", "words", "previous", "following"),
    [
        (0, GRID, "1 to 24 of 1,000", None, {"at": ["24"]}),
        (24, GRID, "25 to 48 of 1,000", {}, {"at": ["48"]}),
        (990, 10, "991 to 1,000 of 1,000", {"at": ["966"]}, None),
        (2000, 0, "none of 1,000", {"at": ["1976"]}, None),
    ],
)
def test_pages_follow_each_other(
    offset: int,
    count: int,
    words: str,
    previous: dict[str, list[str]] | None,
    following: dict[str, list[str]] | None,
) -> None:
    view = grid_view(SHOWN, Asked(offset=offset), samples(count, 1000))
    assert view.words == words
    assert (None if view.previous is None else parse_qs(view.previous)) == previous
    assert (None if view.next is None or count == 0 else parse_qs(view.next)) == following


def test_class_and_order_stay_while_one_pages_and_shuffling_begins_anew() -> None:
    view = grid_view(SHOWN, Asked("black cat", 5, 24), samples(GRID, 100))
    assert view.next == "class=black+cat&seed=5&at=48"
    assert view.shuffled == "class=black+cat&seed=6"
    assert view.in_order == "class=black+cat&seed=0"
    assert grid_view(SHOWN, Asked(seed=0), samples(1, 1)).in_order is None


def test_too_many_classes_are_typed_instead_of_listed() -> None:
    many = Shown("d", "v", [f"class {number}" for number in range(1000)])
    assert grid_view(many, Asked(), samples(1, 1)).classes == []
    assert grid_view(SHOWN, Asked(), samples(1, 1)).classes == ["cat", "dog"]


def quarantined(**changes: object) -> QuarantinedInfo:
    values = {
        "sample": 7,
        "name": "a.jpg",
        "reason": "it is truncated",
        "times": 1,
        "runs": ["r2", "r1"],
        "run_count": 2,
    }
    return QuarantinedInfo.model_validate(values | changes)


def test_a_quarantined_sample_names_reason_runs_and_how_often() -> None:
    page = QuarantinePage(total=30, samples=[quarantined(), quarantined(times=1200, run_count=9)])
    view = quarantine_view(SHOWN, 10, page)
    first, second = view.rows
    assert (first.reason, first.times, first.runs, first.further) == (
        "it is truncated",
        "once",
        ["r2", "r1"],
        "",
    )
    assert (second.times, second.further) == ("1,200 times", "and 7 more")
    assert first.picture.endswith("/samples/7/thumbnail?version=vvvvvvvvvvvv&placeholder=true")
    assert (view.total, view.next) == (30, 12)
    assert quarantine_view(SHOWN, 28, page).next is None
