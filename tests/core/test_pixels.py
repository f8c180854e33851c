"""What became of the pixels of a dataset that was packed, in words."""

import pytest

from ddlp.core.pixels import in_words
from ddlp.core.records import PackOptions


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (PackOptions(keep_heads=True), "the origin's, bit for bit"),
        (PackOptions(max_side=400), "lossy: longest side 400, quality 90"),
        (PackOptions(quality=80), "lossy: quality 80"),
        (PackOptions(max_side=400, quality=80), "lossy: longest side 400, quality 80"),
    ],
)
def test_it_is_said_what_was_lost(options: PackOptions, words: str) -> None:
    assert in_words(options) == words
