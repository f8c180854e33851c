"""Extras: what a pipeline may emit, the same values in any company, and mistakes in words."""

import uuid
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

from ddlp.core.batchfile import BatchId, TensorSpec, layout, seal, tensor_views, unseal
from ddlp.core.dataset import DatasetIndex
from ddlp.core.errors import InvalidInput
from ddlp.core.pipeline import TRANSFORMS, Extra, Pipeline, PipelineSpec, Seen, kept
from ddlp.core.pipeline.extras import DTYPES, MAX_TENSORS
from ddlp.core.types import BadPolicy
from tests.core.pipeline.making import (
    CROP,
    MIDDLE,
    dataset,
    encoded,
    engine,
    fill,
    replace_unseen,
    smooth,
)

Array = npt.NDArray[Any]
VIEW = {"name": "view"}
FLIP = {"name": "flip"}


class Told(Extra):
    """Emits all that it is told, and what it draws."""

    name: ClassVar[str] = "told"
    draws: ClassVar[int] = 2
    called: str = "told"

    @property
    def tensor(self) -> TensorSpec:
        return TensorSpec(self.called, "<f4", (7,))

    def make(self, seen: Seen) -> Array:
        columns = (seen.samples, seen.labels, seen.widths, seen.heights, seen.views.left)
        return np.stack([*columns, *seen.drawn.T], axis=1)


class Wrong(Extra):
    """Emits whatever a test wants."""

    name: ClassVar[str] = "wrong"
    tensor_is: ClassVar[TensorSpec] = TensorSpec("wrong", "<i4", (2,))
    made: ClassVar[Array] = np.zeros((6, 2), np.int64)

    @property
    def tensor(self) -> TensorSpec:
        return self.tensor_is

    def make(self, seen: Seen) -> Array:
        return self.made


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (Told, Wrong):
        monkeypatch.setitem(TRANSFORMS, kind.name, kind)


@pytest.fixture(scope="module")
def varied(tmp_path_factory: pytest.TempPathFactory) -> DatasetIndex:
    images = (smooth(40 + 9 * n, 70 - 7 * n) for n in range(6))
    return dataset(tmp_path_factory.mktemp("varied"), *(encoded(image) for image in images))


def told(index: DatasetIndex, *samples: int, epoch: int = 0, **options: Any) -> Array:
    making = engine(index, CROP, FLIP, {"name": "told"}, **options)
    return making.extras(epoch, np.asarray(samples))["told"]


def parse(*transforms: dict[str, Any]) -> Pipeline:
    return Pipeline.parse(PipelineSpec(transforms=list(transforms)))


def test_an_extra_is_told_numbers_labels_and_sizes(varied: DatasetIndex) -> None:
    made = told(varied, 4, 1)
    heads = varied.heads(np.asarray([4, 1]))
    assert made[:, 0].tolist() == [4, 1]
    assert made[:, 1].tolist() == varied.labels(np.asarray([4, 1])).tolist()
    assert made[:, 2].tolist() == heads.width.tolist()
    assert made[:, 3].tolist() == heads.height.tolist()


def test_labels_are_told_as_mapped(varied: DatasetIndex) -> None:
    labels = {"name": "label-map", "labels": {"class0": 70, "class1": 80}}
    for steps in ([CROP, {"name": "told"}, labels], [labels, CROP, {"name": "told"}]):
        made = engine(varied, *steps).extras(0, np.arange(6))["told"]
        assert made[:, 1].tolist() == [70, 70, 70, 80, 80, 80]


def test_its_values_are_the_same_alone_and_in_any_batch(varied: DatasetIndex) -> None:
    together = told(varied, 3, 0, 5, 3, epoch=2, seed=8)
    for row, sample in zip(together, (3, 0, 5, 3), strict=True):
        np.testing.assert_array_equal(row, told(varied, sample, epoch=2, seed=8)[0])


def test_what_it_draws_changes_with_seed_and_epoch(varied: DatasetIndex) -> None:
    drawn = [
        told(varied, *range(6), epoch=epoch, seed=seed)[:, 5:]
        for seed, epoch in ((0, 0), (0, 1), (1, 0))
    ]
    assert len({numbers.tobytes() for numbers in drawn}) == 3
    assert min(numbers.min() for numbers in drawn) >= 0
    assert max(numbers.max() for numbers in drawn) < 1


def test_two_of_one_kind_draw_apart(varied: DatasetIndex) -> None:
    twice = engine(varied, CROP, {"name": "told"}, {"name": "told", "called": "again"})
    made = twice.extras(0, np.arange(6))
    np.testing.assert_array_equal(made["told"][:, :5], made["again"][:, :5])
    assert (made["told"][:, 5:] != made["again"][:, 5:]).all()


def test_images_are_the_same_with_and_without_extras(varied: DatasetIndex) -> None:
    colour = {"name": "colour-jitter", "brightness": 0.5}
    plain = fill(engine(varied, CROP, FLIP, colour), *range(6))
    emitting = engine(varied, CROP, FLIP, VIEW, {"name": "told"}, colour)
    np.testing.assert_array_equal(fill(emitting, *range(6)), plain)


def test_without_extras_there_is_nothing_to_make(varied: DatasetIndex) -> None:
    assert engine(varied, CROP).extras(0, np.arange(6)) == {}


@pytest.fixture
def spoilt(tmp_path: Path) -> DatasetIndex:
    """Eight images in two classes; the third and the sixth, one of each class, are damaged."""
    index = dataset(tmp_path, *(encoded(smooth(30 + n, 40), "JPEG") for n in range(8)))
    for sample in (2, 5):
        replace_unseen(Path(index.name(sample)), b"nothing")
    return index


@pytest.mark.parametrize("policy", [BadPolicy.SKIP, BadPolicy.REPLACE])
def test_what_was_left_out_or_replaced_has_the_values_of_what_is_there(
    spoilt: DatasetIndex, policy: BadPolicy
) -> None:
    careful = engine(spoilt, MIDDLE, FLIP, VIEW, {"name": "told"}, on_bad=policy)
    samples, out = np.arange(8), np.zeros((8, 16, 16, 3), np.uint8)
    mishaps = careful.fill(0, samples, out)
    left = kept(samples, mishaps)
    assert len(left) == (6 if policy is BadPolicy.SKIP else 8)
    made = careful.extras(0, left)
    assert made["told"][:, 0].tolist() == left.tolist()
    for place, sample in enumerate(left.tolist()):
        alone = careful.extras(0, np.asarray([sample]))
        for name, rows in made.items():
            np.testing.assert_array_equal(rows[place], alone[name][0])
        mirrored = out[place, 8, 0, 0] > out[place, 8, -1, 0]
        assert made["view"][place, 4] == mirrored


def test_extras_are_explained_after_the_steps(varied: DatasetIndex) -> None:
    for steps in engine(varied, CROP, VIEW, {"name": "grayscale"}).explain(0, np.arange(6)):
        assert [step["transform"] for step in steps] == ["random-resized-crop", "grayscale", "view"]
        crop, _, view = steps
        assert all(view[side] == crop[side] for side in ("left", "top", "width", "height"))
        assert view["mirrored"] is False


def test_every_type_can_be_written_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for dtype in DTYPES:
        monkeypatch.setattr(Wrong, "tensor_is", TensorSpec("wrong", dtype, (2, 1, 3, 1, 1)))
        tensors = parse(CROP, {"name": "wrong"}).batch_tensors(3)
        memory = memoryview(bytearray(layout(tensors)[1]))
        tensor_views(memory, tensors)["wrong"][:] = 7
        seal(memory, BatchId(uuid.uuid4(), 0, 0, 1, 3, "ab" * 32, "engine", "host"), tensors)
        _, read = unseal(memory)
        assert (read["wrong"].dtype.str, read["wrong"].shape) == (dtype, (3, 2, 1, 3, 1, 1))
        assert (read["wrong"] == 7).all()


def test_a_batch_has_no_more_tensors_than_its_file_can_name() -> None:
    extras = [{"name": "told", "called": f"told-{n}"} for n in range(30)]
    parse(CROP, *extras[:-1])
    with pytest.raises(InvalidInput, match=f"at most {MAX_TENSORS} tensors; leave out .* 30 extr"):
        parse(CROP, *extras)


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (TensorSpec("labels", "<f4", ()), "wrong: every batch has a tensor 'labels'; name it"),
        (TensorSpec("", "<f4", ()), "wrong: '' is no name for a tensor; take 1 to 16 letters"),
        (TensorSpec("seventeen-letters", "<f4", ()), "is no name for a tensor"),
        (TensorSpec("größe", "<f4", ()), "is no name for a tensor"),
        (TensorSpec("box", "float64", ()), "cannot be of 'float64'; take one of <f4, <f2, <i8"),
        (TensorSpec("box", "<f4", (2, 0)), r"cannot have the shape \(2, 0\) for a sample"),
        (TensorSpec("box", "<f4", (1,) * 6), "at most 5 sides of at least 1"),
    ],
)
def test_a_tensor_that_no_batch_can_hold_is_refused(
    monkeypatch: pytest.MonkeyPatch, tensor: TensorSpec, words: str
) -> None:
    monkeypatch.setattr(Wrong, "tensor_is", tensor)
    with pytest.raises(InvalidInput, match=words):
        parse(CROP, {"name": "wrong"})


@pytest.mark.parametrize(
    "made",
    [
        np.zeros((6, 3), np.int64),
        np.zeros(6, np.int64),
        np.zeros((1, 2), np.int64),
        np.ones((6, 2)),
    ],
)
def test_what_is_not_as_the_tensor_says_is_refused(
    varied: DatasetIndex, monkeypatch: pytest.MonkeyPatch, made: Array
) -> None:
    monkeypatch.setattr(Wrong, "made", made)
    with pytest.raises(
        InvalidInput, match=r"wrong made .* 'wrong' is int32 of shape \(6, 2\); corr"
    ):
        engine(varied, CROP, {"name": "wrong"}).extras(0, np.arange(6))


def test_what_is_wider_than_the_tensor_is_narrowed(varied: DatasetIndex) -> None:
    made = engine(varied, CROP, {"name": "wrong"}).extras(0, np.arange(6))["wrong"]
    assert made.dtype == np.int32


def test_a_single_number_is_explained_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Wrong().explain(np.zeros((2, 2))) == [{}, {}]
    monkeypatch.setattr(Wrong, "tensor_is", TensorSpec("weight", "<f4", ()))
    assert Wrong().explain(np.asarray([0.5, 1])) == [{"weight": 0.5}, {"weight": 1.0}]
