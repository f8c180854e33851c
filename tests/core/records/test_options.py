"""Options check themselves."""

from typing import Any

import pytest

from ddlp.core.errors import InvalidInput
from ddlp.core.records import PackOptions, PackProgress


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_side": 0},
        {"max_side": 65_536},
        {"max_side": 10.5},
        {"max_side": True},
        {"quality": 0},
        {"quality": 101},
        {"quality": "90"},
        {"keep_heads": 1},
        {"on_bad": "replace"},
    ],
)
def test_what_cannot_be_is_refused_with_its_value(wrong: dict[str, Any]) -> None:
    [(name, value)] = wrong.items()
    with pytest.raises(InvalidInput, match=f"{name}={value!r} is "):
        PackOptions(**wrong)


def test_a_side_or_a_quality_loses_pixels() -> None:
    assert not PackOptions(keep_heads=True, on_bad="skip").lossy
    assert PackOptions(max_side=256).lossy
    assert PackOptions(max_side=256).new_quality == 90
    assert PackOptions(quality=75).lossy
    assert PackOptions(quality=75).new_quality == 75


def test_what_bad_samples_do_is_not_said_of_the_good_ones() -> None:
    assert PackOptions(on_bad="skip").as_stored() == PackOptions(on_bad="fail").as_stored()
    assert PackOptions(keep_heads=True).as_stored() != PackOptions().as_stored()


def test_progress_adds_up() -> None:
    total = PackProgress(1, 1, 0, 10, 12, 0, "a") + PackProgress(2, 1, 1, 5, 6, 1)
    assert total == PackProgress(3, 2, 1, 15, 18, 1, "a")
