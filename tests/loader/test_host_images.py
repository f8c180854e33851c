"""Images that are made in the host's memory: values, types, layouts, and whose memory it is."""

import numpy as np
import pytest
import torch

from ddlp.core.image import Levels
from ddlp.core.image.reference import Reference
from ddlp.loader import host_images
from ddlp.loader.buffers import Buffers
from ddlp.loader.host_images import Form, HostImages

LEVELS = Levels(
    np.asarray([0.017, 0.0175, 0.0174], np.float32), np.asarray([-2.1, -2.0, -1.8], np.float32)
)
FORMS = [
    Form(dtype, channels_last)
    for dtype in (torch.float32, torch.float16, torch.bfloat16)
    for channels_last in (True, False)
]
SHAPES = [
    (0, 4, 4, 3),
    (1, 1, 1, 3),
    (3, 5, 7, 3),
    (9, 61, 97, 3),
    (2, 150, 151, 3),
    (1, 2, 11_000, 3),
]


def pixels(shape: tuple[int, ...]) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
    return np.random.default_rng(2).integers(0, 256, shape, dtype=np.uint8)


def floats(shape: tuple[int, ...]) -> torch.Tensor:
    made = np.empty(shape, np.float32)
    Reference().floats(pixels(shape), LEVELS, made)
    return torch.from_numpy(made).permute(0, 3, 1, 2)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_levels_become_floats_of_any_type_and_layout(form: Form, shape: tuple[int, ...]) -> None:
    images = HostImages(LEVELS, form, Buffers())(pixels(shape))
    assert torch.equal(images, floats(shape).to(form.dtype))
    assert images.dtype == form.dtype
    layout = torch.channels_last if form.channels_last else torch.contiguous_format
    assert not len(images) or images.is_contiguous(memory_format=layout)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("values", [1, 50, 2 * 7 * 3, 5 * 7 * 3, 3 * 5 * 7 * 3, 10_000])
def test_blocks_leave_no_seams(form: Form, values: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_images, "_BLOCK_VALUES", values)
    images = HostImages(LEVELS, form, Buffers())(pixels((5, 5, 7, 3)))
    assert torch.equal(images, floats((5, 5, 7, 3)).to(form.dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("channels_last", [True, False])
def test_levels_that_are_not_normalised_stay_bytes(dtype: torch.dtype, channels_last: bool) -> None:
    given = pixels((3, 5, 7, 3))
    images = HostImages(None, Form(dtype, channels_last), Buffers())(given)
    assert images.dtype == torch.uint8
    np.testing.assert_array_equal(images.numpy(), given.transpose(0, 3, 1, 2))
    assert images.is_contiguous() is not channels_last
    assert (images.data_ptr() == given.ctypes.data) is channels_last


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_early_floats_only_change_their_type_and_layout(form: Form) -> None:
    given = np.random.default_rng(3).random((3, 5, 7, 3), np.float32)
    images = HostImages(None, form, Buffers())(given)
    assert torch.equal(images, torch.from_numpy(given).permute(0, 3, 1, 2).to(form.dtype))
    assert (images.data_ptr() == given.ctypes.data) is (form == Form())


@pytest.mark.parametrize("levels", [LEVELS, None], ids=["normalised", "bytes"])
@pytest.mark.parametrize("channels_last", [True, False])
def test_memory_that_cannot_be_written_is_only_read(
    levels: Levels | None, channels_last: bool
) -> None:
    given = pixels((3, 5, 7, 3))
    given.flags.writeable = False
    images = HostImages(levels, Form(channels_last=channels_last), Buffers())(given)
    images.zero_()
    np.testing.assert_array_equal(given, pixels((3, 5, 7, 3)))


def test_memory_is_taken_from_the_buffers_and_goes_back() -> None:
    make = HostImages(LEVELS, Form(torch.bfloat16), Buffers())
    given = pixels((40, 61, 97, 3))
    first = make(given)
    place = first.data_ptr()
    assert make(given).data_ptr() != place
    del first
    assert make(given).data_ptr() == place
