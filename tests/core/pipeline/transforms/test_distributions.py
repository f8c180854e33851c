"""The parameters drawn are distributed as those of torchvision's transforms of the same kind.

Two-sample Kolmogorov–Smirnov tests over the explanations that transforms give and over what the
real torchvision draws. Seeds are fixed, so a test that passes once passes always; the last tests
show that a wrong distribution would be found.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from ddlp.core.pipeline.transforms.colour_jitter import ColourJitter
from ddlp.core.pipeline.transforms.flip import Flip
from ddlp.core.pipeline.transforms.grayscale import Grayscale
from ddlp.core.pipeline.transforms.pad_crop import PadCrop
from ddlp.core.pipeline.transforms.random_resized_crop import RandomResizedCrop
from tests.core.pipeline.transforms.batches import drawn, whole
from tests.torchvision_reference import torchvision_module

SAMPLES = 6000
Values = npt.NDArray[Any]


@pytest.fixture
def theirs() -> Iterator[Any]:
    """torchvision.transforms, with a fixed seed."""
    transforms = torchvision_module("torchvision.transforms")
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield transforms


def distance(ours: Sequence[Any] | Values, others: Sequence[Any] | Values) -> float:
    """The largest difference between two samples' distribution functions, in units of chance.

    Two samples of one distribution come to more than 1.95 once in a thousand times.
    """
    first, second = np.sort(np.asarray(ours, float)), np.sort(np.asarray(others, float))
    places = np.concatenate([first, second])
    below = [np.searchsorted(values, places, "right") / len(values) for values in (first, second)]
    scale = np.sqrt(len(first) * len(second) / (len(first) + len(second)))
    return float(np.abs(below[0] - below[1]).max() * scale)


def assert_same(ours: dict[str, Values], others: dict[str, Values]) -> None:
    distances = {name: distance(ours[name], others[name]) for name in others}
    assert max(distances.values()) < 1.95, distances


def columns(told: list[dict[str, Any]]) -> dict[str, Values]:
    return {name: np.asarray([sample[name] for sample in told], float) for name in told[0]}


def with_shape(boxes: dict[str, Values]) -> dict[str, Values]:
    """A crop's area, aspect ratio and middle, which a mistake shows in first."""
    width, height = boxes["width"], boxes["height"]
    middle = boxes["left"] + width / 2
    return {**boxes, "area": width * height, "ratio": width / height, "middle": middle}


def our_crops(size: tuple[int, int], **parameters: float) -> dict[str, Values]:
    crop = RandomResizedCrop(size=8, **parameters)
    told = crop.explain(whole(*size, SAMPLES), drawn(SAMPLES, crop.draws))
    return with_shape(columns(told))


def their_crops(theirs: Any, size: tuple[int, int], scale: Any, ratio: Any) -> dict[str, Values]:
    image = Image.new("RGB", size)
    rows = [
        theirs.RandomResizedCrop.get_params(image, list(scale), list(ratio)) for _ in range(SAMPLES)
    ]
    top, left, height, width = np.asarray(rows, float).T
    return with_shape({"left": left, "top": top, "width": width, "height": height})


@pytest.mark.parametrize("size", [(500, 375), (375, 500), (300, 300), (40, 25), (600, 120)])
def test_random_resized_crop(theirs: Any, size: tuple[int, int]) -> None:
    assert_same(our_crops(size), their_crops(theirs, size, (0.08, 1), (3 / 4, 4 / 3)))


def test_random_resized_crop_with_other_parameters(theirs: Any) -> None:
    ours = our_crops((500, 375), min_area=0.3, max_area=0.7, max_stretch=2)
    assert_same(ours, their_crops(theirs, (500, 375), (0.3, 0.7), (1 / 2, 2)))


@pytest.mark.parametrize(("size", "padding"), [((32, 32), 4), ((40, 33), 2), ((50, 64), 0)])
def test_pad_crop(theirs: Any, size: tuple[int, int], padding: int) -> None:
    told = PadCrop(size=32, padding=padding).explain(whole(*size, SAMPLES), drawn(SAMPLES, 2))
    padded = theirs.functional.pad(Image.new("RGB", size), padding)
    rows = [theirs.RandomCrop.get_params(padded, (32, 32)) for _ in range(SAMPLES)]
    top, left, _, _ = np.asarray(rows, float).T
    assert_same(columns(told), {"left": left, "top": top})


@pytest.mark.parametrize("p", [0.5, 0.2])
def test_flip(theirs: Any, p: float) -> None:
    told = Flip(p=p).explain(whole(2, 1, SAMPLES), drawn(SAMPLES, 1))
    image = Image.fromarray(np.asarray([[0, 255]], dtype=np.uint8))
    flip = theirs.RandomHorizontalFlip(p)
    mirrored = np.asarray([flip(image).getpixel((0, 0)) == 255 for _ in range(SAMPLES)], float)
    assert_same(columns(told), {"mirrored": mirrored})


@pytest.mark.parametrize("p", [0.1, 0.7])
def test_grayscale(theirs: Any, p: float) -> None:
    told = Grayscale(p=p).explain(drawn(SAMPLES, 1))
    image, turn_grey = Image.new("RGB", (1, 1), (200, 100, 0)), theirs.RandomGrayscale(p)
    grey = [turn_grey(image).getpixel((0, 0)) != (200, 100, 0) for _ in range(SAMPLES)]
    assert_same(columns(told), {"grey": np.asarray(grey, float)})


@pytest.mark.parametrize("reach", [(0.4, 0.4, 0.4, 0.1), (1.5, 0.2, 0.9, 0.5)])
def test_colour_jitter(theirs: Any, reach: tuple[float, float, float, float]) -> None:
    names = ("brightness", "contrast", "saturation", "hue")
    jitter = ColourJitter(**dict(zip(names, reach, strict=True)))
    told = columns(jitter.explain(drawn(SAMPLES, 5)))
    other = theirs.ColorJitter(*reach)
    limits = [getattr(other, name) for name in names]
    rows = [theirs.ColorJitter.get_params(*limits) for _ in range(SAMPLES)]
    orders = np.asarray([row[0].tolist() for row in rows])
    expected = {name: np.asarray([row[1 + n] for row in rows]) for n, name in enumerate(names)}
    turns = {f"{name}_turn": (orders == n).argmax(axis=1) for n, name in enumerate(names)}
    assert_same({**told, "order": in_order(told)}, {**expected, **turns, "order": in_order(turns)})


def in_order(turns: dict[str, Any]) -> Values:
    """A number for each order of the four, so that their joint distribution is compared too."""
    places = [turns[f"{name}_turn"] for name in ("brightness", "contrast", "saturation", "hue")]
    return np.asarray(sum(place * 4**digit for digit, place in enumerate(places)), float)


# A wrong distribution is found


def test_a_uniform_aspect_ratio_would_be_found(theirs: Any) -> None:
    expected = their_crops(theirs, (500, 375), (0.08, 0.5), (3 / 4, 4 / 3))
    ours = our_crops((500, 375), max_area=0.5)
    wrong = np.random.default_rng(0).uniform(3 / 4, 4 / 3, SAMPLES)
    assert distance(ours["ratio"], expected["ratio"]) < 1.95
    assert distance(wrong, expected["ratio"]) > 3


def test_an_area_drawn_by_its_side_would_be_found(theirs: Any) -> None:
    expected = their_crops(theirs, (500, 375), (0.08, 0.5), (3 / 4, 4 / 3))
    sides = np.random.default_rng(0).uniform(np.sqrt(0.08), np.sqrt(0.5), SAMPLES)
    assert distance(sides**2 * 500 * 375, expected["area"]) > 3


def test_a_crop_that_never_reaches_the_last_place_would_be_found(theirs: Any) -> None:
    padded = theirs.functional.pad(Image.new("RGB", (32, 32)), 4)
    rows = [theirs.RandomCrop.get_params(padded, (32, 32)) for _ in range(SAMPLES)]
    wrong = np.random.default_rng(0).integers(0, 8, SAMPLES)
    assert distance(wrong, [row[1] for row in rows]) > 3


def test_a_fixed_order_and_a_one_sided_factor_would_be_found(theirs: Any) -> None:
    rows = [theirs.ColorJitter.get_params([0.6, 1.4], None, None, None) for _ in range(SAMPLES)]
    assert distance(np.zeros(SAMPLES), [row[0].tolist().index(0) for row in rows]) > 3
    wrong = np.random.default_rng(0).uniform(1, 1.4, SAMPLES)
    assert distance(wrong, [row[1] for row in rows]) > 3
