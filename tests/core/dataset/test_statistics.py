"""How samples are spread over classes and sizes, and which of them a page shows."""

from pathlib import Path

import pytest

from ddlp.core.dataset import DatasetIndex
from ddlp.core.dataset.selection import page
from ddlp.core.dataset.statistics import Spread, statistics
from ddlp.core.errors import NotFound
from tests.core.dataset.making import index_of, picture, put


@pytest.fixture
def index(tmp_path: Path) -> DatasetIndex:
    """Three cats of 5 × 4, and a dog of 30 × 20 that lies on its side."""
    root = tmp_path / "pets"
    put(root, "cat/1.jpg", "cat/2.jpg", "cat/3.jpg")
    put(root, "dog/1.jpg", data=picture("JPEG", 30, 20, orientation=6))
    (root / "eel").mkdir()
    return index_of(root)


def test_classes_are_counted(index: DatasetIndex) -> None:
    found = statistics(index)
    counted = [(entry.label, entry.name, entry.samples) for entry in found.largest_classes]
    assert counted == [(0, "cat", 3), (1, "dog", 1), (2, "eel", 0)]
    assert found.smallest_classes == []
    assert (found.samples, found.classes, found.empty_classes) == (4, 3, 1)
    assert found.imbalance == 3.0
    assert found.version == index.version


def test_sizes_are_spread_over_round_bins(index: DatasetIndex) -> None:
    found = statistics(index)
    side, encoded = found.short_side, found.encoded_bytes
    assert (side.smallest, side.largest, side.mean) == (4, 20, 8.0)
    assert [(b.start, b.end, b.count) for b in side.bins if b.count] == [(4, 5, 3), (20, 30, 1)]
    assert all(a.end == b.start for a, b in zip(side.bins, side.bins[1:], strict=False))
    assert (found.pixels.smallest, found.pixels.largest) == (20, 600)
    sizes = [len(index.read(sample)) for sample in range(4)]
    assert (encoded.smallest, encoded.largest) == (min(sizes), max(sizes))
    assert encoded.mean == sum(sizes) / 4
    assert sum(b.count for b in encoded.bins) == 4


def test_of_many_classes_both_ends_are_listed(tmp_path: Path) -> None:
    root = tmp_path / "many"
    for number in range(40):
        put(root, *(f"{number:02d}/{image}.jpg" for image in range(1 + number // 20)))
    found = statistics(index_of(root))
    assert (len(found.largest_classes), len(found.smallest_classes)) == (20, 10)
    assert {entry.samples for entry in found.largest_classes} == {2}
    assert [entry.name for entry in found.smallest_classes] == [f"{n:02d}" for n in range(10, 20)]
    assert [(b.start, b.count) for b in found.class_samples.bins] == [(1, 20), (2, 20)]


def test_nothing_counted_is_no_bin() -> None:
    assert Spread().histogram().bins == []


def test_a_page_keeps_the_order_or_shuffles_it(index: DatasetIndex) -> None:
    first = page(index, None, 0, 0, 3)
    assert (first.total, [entry.sample for entry in first.samples]) == (4, [0, 1, 2])
    assert [entry.sample for entry in page(index, None, 0, 3, 3).samples] == [3]
    assert page(index, None, 0, 9, 3).samples == []
    orders = set()
    for seed in range(1, 9):
        shown = [entry.sample for at in (0, 2) for entry in page(index, None, seed, at, 2).samples]
        assert sorted(shown) == [0, 1, 2, 3]
        orders.add(tuple(shown))
    assert len(orders) > 1


def test_a_page_of_one_class(index: DatasetIndex) -> None:
    found = page(index, "dog", 0, 0, 5)
    [dog] = found.samples
    assert (found.total, dog.sample, dog.class_name, dog.label) == (1, 3, "dog", 1)
    assert (dog.width, dog.height) == (20, 30)
    assert dog.name.endswith("dog/1.jpg")
    assert dog.bytes == len(index.read(3))
    assert page(index, "eel", 5, 0, 5).samples == []
    with pytest.raises(NotFound, match="there is no class 'cow'; there are 3, such as cat, dog"):
        page(index, "cow", 0, 0, 5)
