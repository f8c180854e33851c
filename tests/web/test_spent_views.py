"""The bar of the trainer's time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddlp.core.types import Spending
from ddlp.web.spent_views import WORDS, spent_view

spent = st.dictionaries(st.sampled_from(Spending), st.floats(0, 1e6), min_size=1)


@given(spent)
def test_the_parts_fill_the_bar_without_gaps(spent_s: dict[Spending, float]) -> None:
    view = spent_view(spent_s, "x", live=True)
    if sum(spent_s.values()) <= 0:
        assert view.parts == []
        return
    edge = 0.0
    for part in view.parts:
        assert part.x == pytest.approx(edge, abs=0.051)
        edge = part.x + part.width
    assert edge == pytest.approx(1000, abs=0.1)


def test_every_account_has_words_and_its_share_is_said() -> None:
    assert set(WORDS) == set(Spending)
    view = spent_view({Spending.TRAINING: 3.0, Spending.CSD: 1.0}, "The CSD.", live=False)
    assert [(part.kind, part.percent) for part in view.parts] == [
        ("training", "75.0 %"),
        ("csd", "25.0 %"),
    ]
    assert view.summary == "training 75.0 %, waiting for the CSD 25.0 %"
    assert view.title.endswith("over 4 s")
    assert view.sentence == "The CSD."


def test_what_hardly_happened_is_not_shown_as_nothing() -> None:
    view = spent_view({Spending.TRAINING: 10_000.0, Spending.CSD: 0.1}, "x", live=True)
    assert view.parts[1].percent == "< 0.1 %"
