"""Batches become tensors: values, shapes, memory layout, and independence of the file."""

import numpy as np
import pytest
import torch

from ddlp.core.batchfile import Array
from ddlp.core.pipeline import Pipeline, PipelineSpec
from ddlp.loader.tensors import Buffers, ToTensors

PLAIN = [{"name": "centre-crop", "size": 4}]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def pipeline(normalize: dict[str, object] | None = None) -> Pipeline:
    last = [] if normalize is None else [{"name": "normalize", **normalize}]
    return Pipeline.parse(PipelineSpec(transforms=PLAIN + last))


@pytest.fixture
def arrays() -> dict[str, Array]:
    """A batch of three images that hold every value from 0 to 143."""
    return {
        "images": np.arange(3 * 4 * 4 * 3, dtype=np.uint8).reshape(3, 4, 4, 3),
        "labels": np.asarray([5, 0, 2**40], dtype=np.int64),
        "samples": np.asarray([7, 8, 9], dtype=np.int64),
    }


def test_images_are_normalised_with_the_pipelines_values(arrays: dict[str, Array]) -> None:
    batch = ToTensors(pipeline({}), "cpu", normalize=True)(0, arrays)
    expected = (arrays["images"] / 255 - np.asarray(MEAN)) / np.asarray(STD)
    assert batch.images.dtype == torch.float32
    np.testing.assert_allclose(batch.images.numpy(), expected.transpose(0, 3, 1, 2), atol=1e-5)


def test_own_values_are_used(arrays: dict[str, Array]) -> None:
    own = pipeline({"mean": [0, 0.5, 1], "std": [1, 0.5, 2]})
    images = ToTensors(own, "cpu", normalize=True)(0, arrays).images
    value = arrays["images"][1, 2, 3].astype(float) / 255
    expected = [value[0], (value[1] - 0.5) / 0.5, (value[2] - 1) / 2]
    np.testing.assert_allclose(images[1, :, 2, 3].numpy(), expected, atol=1e-6)


@pytest.mark.parametrize(("wanted", "described"), [(False, {}), (True, None)])
def test_bytes_stay_bytes_where_nothing_is_to_be_normalised(
    arrays: dict[str, Array], wanted: bool, described: dict[str, object] | None
) -> None:
    images = ToTensors(pipeline(described), "cpu", normalize=wanted)(0, arrays).images
    assert images.dtype == torch.uint8
    np.testing.assert_array_equal(images.numpy(), arrays["images"].transpose(0, 3, 1, 2))


@pytest.mark.parametrize("normalize", [True, False])
def test_images_have_channels_first_and_lie_channels_last(
    arrays: dict[str, Array], normalize: bool
) -> None:
    images = ToTensors(pipeline({}), "cpu", normalize)(0, arrays).images
    assert images.shape == (3, 3, 4, 4)
    assert images.is_contiguous(memory_format=torch.channels_last)


def test_labels_and_samples_come_along(arrays: dict[str, Array]) -> None:
    batch = ToTensors(pipeline({}), "cpu", normalize=True)(41, arrays)
    assert batch.index == 41
    assert batch.labels.tolist() == [5, 0, 2**40]
    assert batch.samples.tolist() == [7, 8, 9]
    assert batch.labels.dtype == batch.samples.dtype == torch.int64


@pytest.mark.parametrize("normalize", [True, False])
def test_a_batch_stays_when_its_file_is_used_again(
    arrays: dict[str, Array], normalize: bool
) -> None:
    batch = ToTensors(pipeline({}), "cpu", normalize)(0, arrays)
    before = [tensor.clone() for tensor in (batch.images, batch.labels, batch.samples)]
    for array in arrays.values():
        array[...] = 1
    after = (batch.images, batch.labels, batch.samples)
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_a_mapped_batch_that_is_read_only_is_taken(arrays: dict[str, Array]) -> None:
    for array in arrays.values():
        array.flags.writeable = False
    batch = ToTensors(pipeline({}), "cpu", normalize=True)(0, arrays)
    batch.images.zero_()
    batch.labels.zero_()
    assert arrays["labels"].tolist() == [5, 0, 2**40]


def test_a_short_last_batch_is_a_batch(arrays: dict[str, Array]) -> None:
    short = {name: array[:1] for name, array in arrays.items()}
    batch = ToTensors(pipeline({}), "cpu", normalize=True)(0, short)
    assert batch.images.shape == (1, 3, 4, 4)
    assert batch.labels.tolist() == [5]


def test_memory_is_used_again_when_nobody_holds_a_tensor_over_it() -> None:
    buffers = Buffers()

    def take() -> torch.Tensor:
        return torch.from_numpy(buffers.take((1 << 20, 2), np.dtype(np.uint8)))

    first, second = take(), take()
    place = first.data_ptr()
    assert second.data_ptr() != place
    part = first[3:10].permute(1, 0)
    del first
    third = take()
    assert third.data_ptr() != place, "a view still shows it"
    del part
    assert take().data_ptr() == place


def test_batches_that_are_kept_stay_as_they_are() -> None:
    to_tensors = ToTensors(Pipeline.preset("imagenet-val"), "cpu", normalize=True)
    kept = []
    for value in range(4):
        arrays = {
            "images": np.full((2, 224, 224, 3), value, np.uint8),
            "labels": np.full(2, value),
            "samples": np.arange(2),
        }
        kept.append(to_tensors(value, arrays))
    first = [batch.images[0, 0, 0, 0].item() for batch in kept]
    assert first == sorted(first)
    assert len(set(first)) == 4
