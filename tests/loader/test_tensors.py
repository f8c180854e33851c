"""Batches become tensors: values, devices, memory, and when a store gets its file back."""

import gc
import os
import queue
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ddlp.core.batchfile import Array, BatchId, batch_tensors
from ddlp.core.errors import InvalidInput
from ddlp.core.image import Span, backend
from ddlp.core.pipeline import Pipeline, PipelineSpec
from ddlp.core.pipeline.renderer import levels_of
from ddlp.core.store import FolderStore, path_of
from ddlp.loader.readers.base import Loaded, Wanted
from ddlp.loader.readers.mapped import MappedReader
from ddlp.loader.tensors import TensorBatch, TensorOptions, ToTensors

PLAIN = [{"name": "centre-crop", "size": 4}]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BYTES = TensorOptions(normalize=False)


def pipeline(normalize: dict[str, object] | None = None) -> Pipeline:
    last = [] if normalize is None else [{"name": "normalize", **normalize}]
    return Pipeline.parse(PipelineSpec(transforms=PLAIN + last))


def nothing() -> None:
    pass


def loaded(
    arrays: dict[str, Array], give_back: Callable[[], None] = nothing, borrowed: bool = False
) -> Loaded:
    return Loaded(arrays, sum(a.nbytes for a in arrays.values()), give_back, borrowed)


@pytest.fixture
def arrays() -> dict[str, Array]:
    """A batch of three images that hold every value from 0 to 143."""
    return {
        "images": np.arange(3 * 4 * 4 * 3, dtype=np.uint8).reshape(3, 4, 4, 3),
        "labels": np.asarray([5, 0, 2**40], dtype=np.int64),
        "samples": np.asarray([7, 8, 9], dtype=np.int64),
    }


def test_images_are_normalised_with_the_pipelines_values(arrays: dict[str, Array]) -> None:
    batch = ToTensors(pipeline({}))(0, loaded(arrays))
    expected = (arrays["images"] / 255 - np.asarray(MEAN)) / np.asarray(STD)
    assert batch.images.dtype == torch.float32
    np.testing.assert_allclose(batch.images.numpy(), expected.transpose(0, 3, 1, 2), atol=1e-5)


def test_late_floats_are_those_of_workers_that_normalise_early(arrays: dict[str, Array]) -> None:
    """By the same engine's way for slots: what `early` lets workers write."""
    normalize = pipeline({}).normalize
    assert normalize is not None
    whole = Span(0, 4, 0, 4, 4)
    early = np.empty((3, 4, 4, 3), np.float32)
    for place, image in enumerate(arrays["images"]):
        backend().render_pixels(image, whole, whole, early[place], levels_of(normalize))
    late = ToTensors(pipeline({}))(0, loaded(arrays)).images
    assert late.permute(0, 2, 3, 1).numpy().tobytes() == early.tobytes()
    arrays["images"] = early
    passed_on = ToTensors(pipeline({"early": True}))(0, loaded(arrays)).images
    assert torch.equal(passed_on, late)


def test_own_values_are_used(arrays: dict[str, Array]) -> None:
    own = pipeline({"mean": [0, 0.5, 1], "std": [1, 0.5, 2]})
    images = ToTensors(own)(0, loaded(arrays)).images
    value = arrays["images"][1, 2, 3].astype(float) / 255
    expected = [value[0], (value[1] - 0.5) / 0.5, (value[2] - 1) / 2]
    np.testing.assert_allclose(images[1, :, 2, 3].numpy(), expected, atol=1e-6)


@pytest.mark.parametrize(("wanted", "described"), [(False, {}), (True, None), ("host", None)])
def test_bytes_stay_bytes_where_nothing_is_to_be_normalised(
    arrays: dict[str, Array], wanted: Any, described: dict[str, object] | None
) -> None:
    dtype = torch.float16 if wanted else torch.float32
    options = TensorOptions(normalize=wanted, dtype=dtype)
    images = ToTensors(pipeline(described), options)(0, loaded(arrays)).images
    assert images.dtype == torch.uint8
    np.testing.assert_array_equal(images.numpy(), arrays["images"].transpose(0, 3, 1, 2))


@pytest.mark.parametrize("normalize", [True, False, "host"])
@pytest.mark.parametrize("channels_last", [True, False])
def test_images_have_channels_first_and_lie_as_asked(
    arrays: dict[str, Array], normalize: Any, channels_last: bool
) -> None:
    options = TensorOptions(normalize=normalize, channels_last=channels_last)
    images = ToTensors(pipeline({}), options)(0, loaded(arrays)).images
    assert images.shape == (3, 3, 4, 4)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    assert images.is_contiguous(memory_format=layout)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("early", [True, False])
def test_normalised_images_have_the_type_that_was_asked_for(
    arrays: dict[str, Array], dtype: torch.dtype, early: bool
) -> None:
    if early:
        arrays["images"] = arrays["images"].astype(np.float32)
    to_tensors = ToTensors(pipeline({"early": early}), TensorOptions(dtype=dtype))
    assert to_tensors(0, loaded(arrays)).images.dtype == dtype


def test_labels_and_samples_come_along(arrays: dict[str, Array]) -> None:
    batch = ToTensors(pipeline({}))(41, loaded(arrays), from_tail=True)
    assert (batch.index, batch.from_tail) == (41, True)
    assert batch.labels.tolist() == [5, 0, 2**40]
    assert batch.samples.tolist() == [7, 8, 9]
    assert batch.labels.dtype == batch.samples.dtype == torch.int64
    assert batch.extras == {}


def test_whatever_else_a_batch_holds_comes_along_by_name(arrays: dict[str, Array]) -> None:
    arrays["boxes"] = np.arange(12, dtype=np.float32).reshape(3, 4)
    arrays["masks"] = np.ones((3, 700, 700), np.uint8)
    batch = ToTensors(pipeline({}))(0, loaded(arrays))
    assert set(batch.extras) == {"boxes", "masks"}
    assert batch.extras["boxes"].tolist() == arrays["boxes"].tolist()
    arrays["masks"][:] = 0
    assert bool(batch.extras["masks"].all()), "it was copied"


@pytest.mark.parametrize("options", [TensorOptions(), TensorOptions(channels_last=False)])
def test_a_batch_stays_when_its_file_is_used_again(
    arrays: dict[str, Array], options: TensorOptions
) -> None:
    batch = ToTensors(pipeline({}), options)(0, loaded(arrays, borrowed=True))
    before = [tensor.clone() for tensor in (batch.images, batch.labels, batch.samples)]
    for array in arrays.values():
        array[...] = 1
    after = (batch.images, batch.labels, batch.samples)
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_a_mapped_batch_that_is_read_only_is_taken(arrays: dict[str, Array]) -> None:
    for array in arrays.values():
        array.flags.writeable = False
    for options in (TensorOptions(), BYTES):
        batch = ToTensors(pipeline({}), options)(0, loaded(arrays))
        batch.images.zero_()
        batch.labels.zero_()
    assert arrays["labels"].tolist() == [5, 0, 2**40]
    assert arrays["images"][0, 0, 0].tolist() == [0, 1, 2]


def test_a_short_last_batch_is_a_batch(arrays: dict[str, Array]) -> None:
    short = {name: array[:1] for name, array in arrays.items()}
    batch = ToTensors(pipeline({}))(0, loaded(short))
    assert batch.images.shape == (1, 3, 4, 4)
    assert batch.labels.tolist() == [5]


def test_batches_that_are_kept_stay_as_they_are() -> None:
    to_tensors = ToTensors(Pipeline.preset("imagenet-val"))
    kept = []
    for value in range(4):
        arrays = {
            "images": np.full((2, 224, 224, 3), value, np.uint8),
            "labels": np.full(2, value),
            "samples": np.arange(2),
        }
        kept.append(to_tensors(value, loaded(arrays)))
    first = [batch.images[0, 0, 0, 0].item() for batch in kept]
    assert first == sorted(first)
    assert len(set(first)) == 4


# Devices


@pytest.mark.parametrize("normalize", [True, False, "host"])
def test_another_device_gets_all_but_the_samples(arrays: dict[str, Array], normalize: Any) -> None:
    arrays["boxes"] = np.zeros((3, 4), np.float32)
    options = TensorOptions("meta", normalize, torch.bfloat16 if normalize else torch.float32)
    to_tensors = ToTensors(pipeline({}), options)
    batch = to_tensors.take_over(to_tensors(0, loaded(arrays)))
    moved = (batch.images, batch.labels, batch.extras["boxes"])
    assert {tensor.device.type for tensor in moved} == {"meta"}
    assert batch.samples.tolist() == [7, 8, 9]
    assert batch.images.shape == (3, 3, 4, 4)
    assert batch.images.dtype == (torch.bfloat16 if normalize else torch.uint8)
    assert batch.images.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"normalize": False, "dtype": torch.bfloat16}, "is for normalised images"),
        ({"device": "gpu"}, "'gpu' is not known.*'cuda'"),
        ({"device": "cuda:99"}, "'cuda:99' is not there.*use 'cpu'"),
        ({"normalize": "device"}, "'device' is not True, False or 'host'"),
        ({"dtype": torch.float64}, "torch.float64 is not.*torch.bfloat16"),
        ({"dtype": "float16"}, "'float16' is not.*torch.float16"),
        ({"channels_last": 1}, "channels_last=1 is not True or False"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        TensorOptions(**options)


# When a store gets its file back


class Given:
    """Counts how often a batch's place was given back, and in which thread."""

    def __init__(self) -> None:
        self.threads: list[str] = []

    def __call__(self) -> None:
        self.threads.append(threading.current_thread().name)


def borrowing(arrays: dict[str, Array], given: Given) -> TensorBatch:
    """A batch of bytes over the store's own memory, which nobody else knows."""
    mine = {name: array.copy() for name, array in arrays.items()}
    return ToTensors(pipeline({}), BYTES)(0, loaded(mine, given, borrowed=True))


def test_bytes_lie_in_the_stores_memory(arrays: dict[str, Array]) -> None:
    batch = ToTensors(pipeline({}), BYTES)(0, loaded(arrays, borrowed=True))
    arrays["images"][0, 0, 0] = 77
    assert batch.images[0, :, 0, 0].tolist() == [77, 77, 77]


def test_a_file_is_given_back_when_the_last_tensor_over_it_is_gone(
    arrays: dict[str, Array],
) -> None:
    given = Given()
    batch = borrowing(arrays, given)
    gc.collect()
    assert not given.threads
    images, view = batch.images, batch.images[1:, 0].flip(0)[..., 0:2]
    rows = batch.images[1].numpy()
    del batch, images
    gc.collect()
    assert not given.threads, "an array still shows it"
    assert rows[0].tolist() == arrays["images"][1, :, :, 0].tolist()
    del rows
    gc.collect()
    assert len(given.threads) == 1, "a flipped tensor is a copy"
    del view
    gc.collect()
    assert len(given.threads) == 1


@pytest.mark.parametrize("hold", ["slice", "reshape", "detach", "numpy"])
def test_any_view_keeps_a_file(arrays: dict[str, Array], hold: str) -> None:
    given = Given()
    batch = borrowing(arrays, given)
    views: dict[str, Callable[[torch.Tensor], object]] = {
        "slice": lambda images: images[2:, 1],
        "reshape": lambda images: images.permute(0, 2, 3, 1).view(-1),
        "detach": lambda images: images.detach(),
        "numpy": lambda images: images.numpy()[0, 0],
    }
    held = [views[hold](batch.images)]
    del batch
    gc.collect()
    assert not given.threads
    held.clear()
    gc.collect()
    assert len(given.threads) == 1


def test_a_file_is_given_back_by_whichever_thread_is_last(arrays: dict[str, Array]) -> None:
    given = Given()
    batches: queue.Queue[TensorBatch] = queue.Queue()
    batches.put(borrowing(arrays, given))

    def train() -> None:
        images = batches.get().images
        assert not given.threads
        del images
        gc.collect()

    thread = threading.Thread(target=train, name="trainer")
    thread.start()
    thread.join()
    assert given.threads == ["trainer"]


@pytest.mark.parametrize(
    ("options", "borrowed", "writable"),
    [
        (TensorOptions(), True, True),
        (TensorOptions(channels_last=False, normalize=False), True, True),
        (TensorOptions("meta", normalize=False), True, True),
        (BYTES, True, False),
        (BYTES, False, True),
    ],
    ids=["normalised", "other layout", "other device", "copied", "not the store's"],
)
def test_a_file_is_given_back_at_once_where_nothing_lies_in_it(
    arrays: dict[str, Array], options: TensorOptions, borrowed: bool, writable: bool
) -> None:
    arrays["images"].flags.writeable = writable
    given = Given()
    batch = ToTensors(pipeline({}), options)(0, loaded(arrays, given, borrowed))
    assert len(given.threads) == 1
    del batch
    gc.collect()
    assert len(given.threads) == 1


def test_an_empty_batch_is_given_back_at_once(arrays: dict[str, Array]) -> None:
    given = Given()
    none = {name: array[:0] for name, array in arrays.items()}
    batch = ToTensors(pipeline({}), BYTES)(0, loaded(none, given, borrowed=True))
    assert batch.images.shape == (0, 3, 4, 4)
    del batch
    gc.collect()
    assert len(given.threads) == 1


def test_a_file_of_a_store_is_free_again_when_training_is_done_with_it(tmp_path: Path) -> None:
    """With the store, the reader and the map that a run on tmpfs uses."""
    batch = BatchId(uuid.uuid4(), 0, 0, 1, 3, "00" * 32, "test", "test")

    def fill(arrays: dict[str, Array]) -> int:
        arrays["images"][:] = 9
        return 3

    stored = FolderStore(tmp_path).write(batch, batch_tensors(3, (4, 4, 3), "uint8"), fill)
    wanted = Wanted(batch, stored.checksum, stored.nbytes, stored.location)
    path = path_of(stored.location)
    made = ToTensors(pipeline({}), BYTES)(0, MappedReader().read(wanted))
    assert path.exists()
    assert bool((made.images == 9).all())
    del made
    gc.collect()
    assert not path.exists()
    assert (path.parent / "free" / path.name).exists()


def test_a_forked_child_that_lets_go_of_a_tensor_does_not_give_its_file_back(
    arrays: dict[str, Array], tmp_path: Path
) -> None:
    """Its parent still has it, and the file would be written over."""
    given_back = tmp_path / "given back"
    options = TensorOptions(normalize=False)
    batch = ToTensors(pipeline({}), options)(0, loaded(arrays, given_back.touch, borrowed=True))
    arrays.clear()
    child = os.fork()
    if child == 0:
        del batch
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert not given_back.exists()
    del batch
    gc.collect()
    assert given_back.exists()
