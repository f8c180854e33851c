"""The way to an accelerator, with stand-ins: `meta` for the device, a recorder for its library."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from ddlp.core.batchfile import Array
from ddlp.core.image import Levels
from ddlp.core.image.reference import Reference
from ddlp.loader.accelerator import Accelerator, DeviceImages, PlainSide, side_of
from ddlp.loader.buffers import Buffers
from ddlp.loader.host_images import Form

CPU = torch.device("cpu")
LEVELS = Levels(
    np.asarray([0.017, 0.0175, 0.0174], np.float32), np.asarray([-2.1, -2.0, -1.8], np.float32)
)
FORMS = [
    Form(dtype, channels_last)
    for dtype in (torch.float32, torch.float16, torch.bfloat16)
    for channels_last in (True, False)
]


class RecordingSide:
    """Writes down in which order things are asked of a device's library."""

    def __init__(self, pinned: bool = True) -> None:
        self.calls: list[str] = []
        self.recorded: list[torch.Tensor] = []
        self._pinned = pinned

    @contextmanager
    def working(self) -> Iterator[None]:
        self.calls.append("begin")
        yield
        self.calls.append("synchronise")

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        self.calls.append("pinned?")
        return self._pinned

    def used_by_trainer(self, tensor: torch.Tensor) -> None:
        self.calls.append("record")
        self.recorded.append(tensor)


class CountingBuffers(Buffers):
    def __init__(self) -> None:
        super().__init__()
        self.taken: list[Array] = []

    def take(self, shape: tuple[int, ...], dtype: "np.dtype[np.generic]") -> Array:
        self.taken.append(super().take(shape, dtype))
        return self.taken[-1]


def batch() -> dict[str, Array | torch.Tensor]:
    pixels = np.random.default_rng(1).integers(0, 256, (3, 5, 7, 3), dtype=np.uint8)
    return {"images": pixels, "labels": np.arange(3), "boxes": np.zeros((3, 4), np.float32)}


def accelerator(side: RecordingSide, buffers: Buffers | None = None) -> Accelerator:
    images = DeviceImages(CPU, LEVELS, Form())
    return Accelerator(CPU, images, buffers or Buffers(), side)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_one_kernel_gives_type_values_and_layout(form: Form) -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (3, 5, 7, 3), dtype=np.uint8)
    images = DeviceImages(CPU, LEVELS, form)(torch.from_numpy(pixels))
    floats = np.empty(pixels.shape, np.float32)
    Reference().floats(pixels, LEVELS, floats)
    assert images.dtype == form.dtype
    assert images.shape == (3, 3, 5, 7)
    layout = torch.channels_last if form.channels_last else torch.contiguous_format
    assert images.is_contiguous(memory_format=layout)
    tolerance = 1e-6 if form.dtype == torch.float32 else 2e-2
    expected = torch.from_numpy(floats).permute(0, 3, 1, 2)
    torch.testing.assert_close(images.float(), expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_the_same_shapes_and_layouts_come_out_on_another_device(form: Form) -> None:
    meta = torch.device("meta")
    made = DeviceImages(meta, LEVELS, form)(
        torch.empty((3, 5, 7, 3), dtype=torch.uint8, device=meta)
    )
    assert made.device == meta
    assert (made.shape, made.dtype) == ((3, 3, 5, 7), form.dtype)
    here = DeviceImages(CPU, LEVELS, form)(torch.zeros((3, 5, 7, 3), dtype=torch.uint8))
    assert made.stride() == here.stride()


@pytest.mark.parametrize("channels_last", [True, False])
def test_levels_that_are_not_normalised_stay_bytes(channels_last: bool) -> None:
    pixels = torch.arange(3 * 5 * 7 * 3, dtype=torch.uint8).view(3, 5, 7, 3)
    images = DeviceImages(CPU, None, Form(torch.float16, channels_last))(pixels)
    assert images.dtype == torch.uint8
    assert torch.equal(images, pixels.permute(0, 3, 1, 2))
    assert images.is_contiguous() is not channels_last


def test_early_floats_only_change_their_type() -> None:
    floats = torch.rand(2, 4, 4, 3)
    images = DeviceImages(CPU, None, Form(torch.bfloat16))(floats)
    assert torch.equal(images, floats.permute(0, 3, 1, 2).bfloat16())


def test_all_is_finished_before_it_is_handed_on_and_recorded() -> None:
    side = RecordingSide()
    there = accelerator(side)(batch())
    assert side.calls == [*["pinned?"] * 3, "begin", "synchronise", *["record"] * 3]
    assert {id(tensor) for tensor in side.recorded} == {id(t) for t in there.values()}


def test_pinned_memory_is_fetched_in_place_and_other_memory_through_a_buffer() -> None:
    for pinned in (True, False):
        buffers = CountingBuffers()
        accelerator(RecordingSide(pinned), buffers)(batch())
        assert len(buffers.taken) == (0 if pinned else 3)


def test_memory_that_cannot_be_written_is_fetched_through_a_buffer() -> None:
    given = batch()
    for array in given.values():
        assert isinstance(array, np.ndarray)
        array.flags.writeable = False
    there = accelerator(RecordingSide())(given)
    assert there["labels"].tolist() == [0, 1, 2]


def test_nothing_that_was_given_is_kept() -> None:
    given = batch()
    there = accelerator(RecordingSide())(given)
    kept = {name: tensor.clone() for name, tensor in there.items()}
    for array in given.values():
        array[...] = 1
    assert all(torch.equal(kept[name], tensor) for name, tensor in there.items())


@pytest.mark.parametrize("levels", [LEVELS, None], ids=["normalised", "bytes"])
def test_a_readers_own_memory_on_the_device_is_left_to_it(levels: Levels | None) -> None:
    pixels = torch.randint(0, 256, (2, 4, 4, 3), dtype=torch.uint8)
    images = DeviceImages(CPU, levels, Form())
    there = Accelerator(CPU, images, Buffers(), RecordingSide())(batch() | {"images": pixels})
    before = there["images"].clone()
    pixels.zero_()
    assert torch.equal(there["images"], before)


def test_images_that_were_made_on_the_host_are_only_moved() -> None:
    images = torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last)
    there = accelerator(RecordingSide())(batch() | {"images": images}, made=True)
    assert torch.equal(there["images"], images)
    assert there["images"].is_contiguous(memory_format=torch.channels_last)


def test_a_device_that_is_not_there_yet_gets_every_tensor() -> None:
    meta = torch.device("meta")
    images = DeviceImages(meta, LEVELS, Form(torch.float16))
    there = Accelerator(meta, images, Buffers(), PlainSide())(batch())
    assert {tensor.device for tensor in there.values()} == {meta}
    assert there["images"].dtype == torch.float16


# CUDA's own calls, with a recorder in the place of its library


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked of CUDA, in order."""
    calls: list[str] = []

    class Stream:
        def __init__(self, device: torch.device) -> None:
            calls.append(f"make a stream on {device}")

        def synchronize(self) -> None:
            calls.append("synchronise")

    @contextmanager
    def stream(used: Stream) -> Iterator[None]:
        calls.append("enter")
        try:
            yield
        finally:
            calls.append("leave")

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"stream of {device}")
    return calls


def test_cuda_works_on_a_stream_of_its_own_and_waits_for_it(cuda: list[str]) -> None:
    side = side_of(torch.device("cuda:1"))
    with side.working():
        cuda.append("work")
    assert cuda == ["make a stream on cuda:1", "enter", "work", "leave", "synchronise"]


def test_cuda_is_waited_for_when_something_goes_wrong(cuda: list[str]) -> None:
    """The host's memory may still be read by what was started before."""
    side = side_of(torch.device("cuda:0"))
    with pytest.raises(ValueError, match="wrong"), side.working():
        raise ValueError("something goes wrong")
    assert cuda[-1] == "synchronise"


def test_the_trainers_stream_is_the_one_that_is_recorded(cuda: list[str]) -> None:
    class Tensor(torch.Tensor):
        def record_stream(self, stream: object) -> None:
            cuda.append(f"record {stream}")

    side = side_of(torch.device("cuda:0"))
    side.used_by_trainer(torch.zeros(1).as_subclass(Tensor))
    assert cuda[-1] == "record stream of cuda:0"
