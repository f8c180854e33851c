"""Class balance and histograms: bars to scale, round edges below them, and one true sentence."""

from typing import Any

import pytest

from ddlp.core.messages.statistics import (
    ClassCount,
    DatasetStatistics,
    HistogramBin,
    HistogramInfo,
)
from ddlp.web.statistics_views import HEIGHT, SCALE, statistics_view

SIZES = HistogramInfo(
    smallest=12_000,
    largest=49_000,
    mean=30_400.0,
    bins=[
        HistogramBin(start=10_000, end=15_000, count=10),
        HistogramBin(start=15_000, end=20_000, count=0),
        HistogramBin(start=20_000, end=30_000, count=1),
        HistogramBin(start=30_000, end=50_000, count=1000),
    ],
)
NONE = HistogramInfo(smallest=0, largest=0, mean=0.0, bins=[])


def counted(*samples: int) -> list[ClassCount]:
    return [ClassCount(label=i, name=f"class {i}", samples=n) for i, n in enumerate(samples)]


def statistics(**changes: Any) -> DatasetStatistics:
    values: dict[str, Any] = {
        "version": "v",
        "samples": 1011,
        "classes": 3,
        "empty_classes": 0,
        "imbalance": 4.0,
        "largest_classes": counted(800, 400, 200),
        "smallest_classes": [],
        "class_samples": SIZES,
        "encoded_bytes": SIZES,
        "short_side": SIZES,
        "pixels": SIZES,
    }
    return DatasetStatistics(**values | changes)


def test_bars_of_classes_are_to_the_scale_of_the_largest() -> None:
    view = statistics_view("my photos", statistics())
    assert [(row.name, row.samples, row.percent) for row in view.classes] == [
        ("class 0", "800", 100.0),
        ("class 1", "400", 50.0),
        ("class 2", "200", 25.0),
    ]
    assert view.classes[0].address == "/datasets/my%20photos?class=class+0#samples"
    assert (view.left_out, view.smallest) == (None, [])


def test_of_many_classes_both_ends_are_listed() -> None:
    view = statistics_view(
        "d", statistics(classes=1000, smallest_classes=counted(2, 1), class_samples=SIZES)
    )
    assert view.left_out == "995 classes in between"
    assert [row.samples for row in view.smallest] == ["2", "1"]
    assert [histogram.title for histogram in view.histograms] == [
        "Encoded size",
        "Shorter side",
        "Samples a class",
    ]


@pytest.mark.parametrize(
    ("imbalance", "empty", "sentence"),
    [
        (None, 0, "All samples are of one class."),
        (1.0, 0, "Balanced: all classes have about as many samples."),
        (3.04, 0, "The largest class has 3.04 times the samples of the smallest."),
        (
            2.0,
            2,
            "2 of 3 classes have no sample at all. "
            "The largest class has 2 times the samples of the smallest.",
        ),
    ],
)
def test_the_balance_is_said_in_words(imbalance: float | None, empty: int, sentence: str) -> None:
    found = statistics(imbalance=imbalance, empty_classes=empty)
    assert statistics_view("d", found).balance == sentence


def test_bins_stand_side_by_side_and_none_that_holds_something_is_invisible() -> None:
    histogram = statistics_view("d", statistics()).histograms[0]
    assert [bar.x for bar in histogram.bars] == [0, 250, 500, 750]
    assert sum(bar.width for bar in histogram.bars) == SCALE
    first, empty, single, most = (bar.height for bar in histogram.bars)
    assert (empty, most) == (0, HEIGHT)
    assert 1 <= single <= first < 2
    assert histogram.bars[3].title == "30 kB up to 50 kB: 1,000 samples"
    assert histogram.summary == "from 12 kB to 49 kB, 30.4 kB on average"


def test_ticks_are_edges_from_the_first_to_the_last() -> None:
    ticks = statistics_view("d", statistics()).histograms[0].ticks
    assert [tick.label for tick in ticks] == ["10 kB", "15 kB", "20 kB", "30 kB", "50 kB"]
    assert [tick.percent for tick in ticks] == [0, 25, 50, 75, 100]
    assert (ticks[0].anchor, ticks[-1].anchor) == ("start", "end")


def test_a_histogram_of_nothing_is_not_drawn() -> None:
    view = statistics_view("d", statistics(encoded_bytes=NONE))
    assert [histogram.title for histogram in view.histograms] == ["Shorter side"]


def test_one_bin_is_enough() -> None:
    one = HistogramInfo(
        smallest=224, largest=224, mean=224.0, bins=[HistogramBin(start=200, end=300, count=7)]
    )
    histogram = statistics_view("d", statistics(short_side=one)).histograms[1]
    assert [tick.label for tick in histogram.ticks] == ["200 px", "300 px"]
    assert histogram.bars[0].width == SCALE
