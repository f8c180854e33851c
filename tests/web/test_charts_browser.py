"""What charts draw, and what they leave out: gaps, single readings, ticks."""

import itertools
from typing import Any

import pytest
from playwright.sync_api import Page

from ddlp.core.client import Client
from tests.end_to_end.trainer import new_run

pytestmark = pytest.mark.browser

STEADY = [{"at": list(range(100, 110)), "values": [5] * 10}]
SLOW = [{"at": list(range(100, 160, 5)), "values": [5] * 12}]
STOPPED = [{"at": [100, 101, 140, 141, 142], "values": [7, 5, 0, 0, 0]}]
TWO = [
    {"at": [100, 101, 102, 103, 120, 121], "values": [1] * 6},
    {"at": list(range(100, 122)), "values": [2] * 22},
]


@pytest.fixture
def chart(page: Page, api: Client) -> Page:
    """A page that has the charts' scripts."""
    run = new_run(api)
    page.goto(f"/runs/{run}")
    page.wait_for_function("() => window.ddlp?.chart !== undefined")
    api.post(f"/runs/{run}/cancel")
    return page


def table(page: Page, lines: list[dict[str, Any]]) -> tuple[list[int], list[list[Any]]]:
    """Times and columns; what only other lines have a reading for is "across"."""
    times, *columns = page.evaluate(
        "lines => window.ddlp.table(lines).map(column => "
        "column.map(value => value === undefined ? 'across' : value))",
        lines,
    )
    return times, columns


def test_nothing_is_drawn_where_a_line_was_silent(chart: Page) -> None:
    assert None not in table(chart, STEADY)[1][0]
    assert None not in table(chart, SLOW)[1][0]
    times, [values] = table(chart, STOPPED)
    assert dict(zip(times, values, strict=True)) == {
        100: 7, 101: 5, 102: None, 140: 0, 141: 0, 142: 0
    }  # fmt: skip
    # Slow batches of which the page saw the last ones come live, once a second.
    turning = [*range(100, 130, 5), *range(126, 140)]
    assert None not in table(chart, [{"at": turning, "values": [3] * len(turning)}])[1][0]


def test_a_silent_line_has_no_part_in_what_the_others_go_on_with(chart: Page) -> None:
    times, [first, second] = table(chart, TWO)
    silent = [at for at, value in zip(times, first, strict=True) if value is None]
    assert silent == list(range(104, 120))
    assert second == [2] * 22


DRAW = """data => {
    const place = document.createElement("div");
    place.style.cssText = "width: 600px; height: 200px";
    document.querySelector("main").replaceChildren(place);
    const words = [];
    const fillText = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
        words.push(text);
        return fillText.call(this, text, ...rest);
    };
    const lines = [{ label: "one", colour: "--bad" }];
    window.ddlp.chart(place, { lines, unit: "W", data: window.ddlp.table(data) });
    return new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(() => {
        CanvasRenderingContext2D.prototype.fillText = fillText;
        const canvas = place.querySelector("canvas");
        const { width, height } = canvas;
        const bits = canvas.getContext("2d").getImageData(0, 0, width, height).data;
        const columns = [];
        for (let x = 0; x < width; x++) {
            for (let y = 0; y < height; y++) {
                const at = 4 * (y * width + x);
                if (!bits[at + 3] || bits[at] - bits[at + 1] <= 80) continue;
                columns.push(x / width);
                break;
            }
        }
        resolve({ columns, words });
    })));
}"""


def test_the_canvas_is_empty_in_a_silence_and_shows_a_single_reading(chart: Page) -> None:
    before = {"at": list(range(100, 110)), "values": [5] * 10}
    after = {"at": list(range(190, 200)), "values": [5] * 10}
    both = {name: before[name] + after[name] for name in before}
    drawn = chart.evaluate(DRAW, [both])["columns"]
    assert [x for x in drawn if 0.4 < x < 0.8] == []
    assert len([x for x in drawn if x < 0.4]) > 10
    assert len([x for x in drawn if x > 0.8]) > 10
    single = chart.evaluate(DRAW, [{"at": [100], "values": [5]}])
    assert 3 <= len(single["columns"]) <= 20


@pytest.mark.parametrize("seconds", [1, 2, 4, 40])
def test_no_two_ticks_say_the_same(chart: Page, seconds: int) -> None:
    at = [1_795_123_909 + second for second in range(seconds)]
    words = chart.evaluate(DRAW, [{"at": at, "values": [0.004] * seconds}])["words"]
    assert len(words) > 4
    assert [pair for pair in itertools.pairwise(words) if pair[0] == pair[1]] == []
