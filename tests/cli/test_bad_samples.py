"""The list of a run's bad samples is read page by page, up to a limit or to its end."""

import re
from typing import Any

import pytest

from ddlp.cli import bad_samples as module
from ddlp.cli.bad_samples import bad_samples

COUNT = 25


class Pages:
    """A client of a server that knows 25 bad samples."""

    def __init__(self) -> None:
        self.asked = 0

    def get(self, path: str) -> list[dict[str, Any]]:
        found = re.fullmatch(r"/runs/r50/bad-samples\?limit=(\d+)(?:&before=(\d+))?", path)
        assert found, path
        self.asked += 1
        newest = int(found[2]) - 1 if found[2] else COUNT
        return [{"id": number} for number in range(newest, 0, -1)][: int(found[1])]


@pytest.mark.parametrize(
    ("before", "limit", "ids", "asked"),
    [
        (None, None, range(25, 0, -1), 3),
        (None, 4, range(25, 21, -1), 1),
        (None, 13, range(25, 12, -1), 2),
        (None, 200, range(25, 0, -1), 3),
        (6, None, range(5, 0, -1), 1),
        (6, 2, range(5, 3, -1), 1),
        (1, None, range(0), 1),
        (11, None, range(10, 0, -1), 2),
    ],
)
def test_as_many_are_read_as_were_asked_for(
    monkeypatch: pytest.MonkeyPatch, before: int | None, limit: int | None, ids: range, asked: int
) -> None:
    monkeypatch.setattr(module, "_PAGE", 10)
    pages = Pages()
    found = bad_samples(pages, "r50", before, limit)  # type: ignore[arg-type]
    assert [entry["id"] for entry in found] == list(ids)
    assert pages.asked == asked
