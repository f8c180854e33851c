"""The demo's images: always the same, of many sizes, and made again where they are not whole."""

import random
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ddlp.core.dataset import DatasetIndex, scan
from ddlp.core.demo_images import CLASSES, draw, make_dataset

COUNT = 30


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.jpg")}


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("demo") / "shapes", COUNT)


def test_it_is_a_dataset_with_as_many_images_of_every_class(shapes: Path, tmp_path: Path) -> None:
    scan(shapes, tmp_path / "index")
    index = DatasetIndex(tmp_path / "index")
    assert index.classes == CLASSES
    assert [len(index.members(label)) for label in range(len(CLASSES))] == [5] * len(CLASSES)


def test_it_is_the_same_every_time(shapes: Path, tmp_path: Path) -> None:
    assert contents(make_dataset(tmp_path / "again", COUNT)) == contents(shapes)


def test_another_seed_draws_other_images(shapes: Path, tmp_path: Path) -> None:
    first, other = contents(shapes), contents(make_dataset(tmp_path / "other", COUNT, seed=2))
    assert first.keys() == other.keys()
    assert not set(first.values()) & set(other.values())


def test_the_images_have_many_sizes(shapes: Path) -> None:
    sizes = set()
    for path in shapes.rglob("*.jpg"):
        with Image.open(path) as image:
            assert image.mode == "RGB"
            sizes.add(image.size)
    assert len(sizes) > COUNT / 2
    assert all(96 <= side <= 320 for size in sizes for side in size)


@pytest.mark.parametrize("label", CLASSES)
def test_a_shape_stands_out_from_its_ground(label: str) -> None:
    # The corners are ground; the colour that is farthest from theirs is the shape's.
    for seed in range(5):
        pixels = np.asarray(draw(label, random.Random(seed)), dtype=float)
        ground = np.median(pixels[:8, :8], axis=(0, 1))
        distance = np.abs(pixels - ground).sum(axis=-1)
        assert 0.02 < (distance > 150).mean() < 0.8


def test_shapes_of_one_chance_differ_by_label() -> None:
    drawn = {draw(label, random.Random(3)).tobytes() for label in CLASSES}
    assert len(drawn) == len(CLASSES)


def test_what_is_whole_is_not_drawn_again(tmp_path: Path) -> None:
    root = make_dataset(tmp_path / "shapes", 6)
    marked = root / "circle" / "00000.jpg"
    marked.write_bytes(b"touched")
    assert make_dataset(root, 6) == root
    assert marked.read_bytes() == b"touched"


def test_what_was_interrupted_is_drawn_again(tmp_path: Path) -> None:
    root = tmp_path / "shapes"
    (root / "circle").mkdir(parents=True)
    (root / "circle" / "00000.jpg").write_bytes(b"half an im")
    whole = make_dataset(tmp_path / "whole", 6)
    assert contents(make_dataset(root, 6)) == contents(whole)


def test_what_is_half_made_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(label: str, chance: random.Random) -> Image.Image:
        if label == CLASSES[3]:
            raise KeyboardInterrupt
        return draw(label, chance)

    root = tmp_path / "shapes"
    with monkeypatch.context() as patch:
        patch.setattr("ddlp.core.demo_images.draw", interrupted)
        with pytest.raises(KeyboardInterrupt):
            make_dataset(root, 6)
    assert not root.exists()
    assert len(contents(make_dataset(root, 6))) == 6
    assert list(tmp_path.iterdir()) == [root], "nothing half-made is left"


def test_a_smaller_one_in_the_same_place_is_smaller(tmp_path: Path) -> None:
    make_dataset(tmp_path / "shapes", 12)
    smaller = contents(make_dataset(tmp_path / "shapes", 6))
    assert smaller == contents(make_dataset(tmp_path / "other", 6))


def test_another_seed_in_the_same_place_is_another_dataset(tmp_path: Path) -> None:
    first = contents(make_dataset(tmp_path / "shapes", 6))
    second = contents(make_dataset(tmp_path / "shapes", 6, seed=2))
    assert first.keys() == second.keys()
    assert not set(first.values()) & set(second.values())


def test_a_larger_one_holds_the_smaller_one(tmp_path: Path) -> None:
    small = contents(make_dataset(tmp_path / "shapes", 6))
    large = contents(make_dataset(tmp_path / "shapes", 12))
    assert len(large) == 12
    assert small.items() <= large.items()
