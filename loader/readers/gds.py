"""Reads the images of a batch from a drive straight into an accelerator's memory, with KvikIO.

The header and the small tensors come by plain reads. Images never pass through the host, so the
payload is checked by its fold: what is here and what is there are folded apart, and added up.
"""

import logging
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from ddlp.core.batchfile import PAGE_BYTES, Array, Head, Placed, parse_head
from ddlp.core.codecs import Codec
from ddlp.core.errors import DamagedBatch, Unavailable
from ddlp.core.fold import fold
from ddlp.core.store.reading import check_expected, reading
from ddlp.core.types import ReadPath
from ddlp.loader.readers.base import Loaded, Wanted
from ddlp.loader.readers.device_fold import DeviceFold
from ddlp.loader.readers.device_memory import DeviceMemory, DeviceTarget, Target
from ddlp.loader.readers.files import find_file, give_back_file
from ddlp.loader.readers.gds_probe import Cause, Refusal, size_refusal
from ddlp.loader.readers.kvikio_files import Files, KvikioFiles

_DTYPES = {
    "|u1": torch.uint8,
    "<i4": torch.int32,
    "<i8": torch.int64,
    "<f2": torch.float16,
    "<f4": torch.float32,
}
_MASK = (1 << 64) - 1

log = logging.getLogger(__name__)


class NotByGds(Unavailable):
    """A batch cannot take this path, but another."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal)
        self.refusal = refusal


@dataclass(frozen=True)
class _OpenFile:
    """A batch's file, its header, and which of its tensors goes to the device."""

    path: Path
    descriptor: int
    head: Head
    images: Placed

    @property
    def span_bytes(self) -> int:
        """The images' whole pages."""
        return self.images.end - self.images.offset

    @property
    def first_page(self) -> int:
        """Of the images, in the payload."""
        return self.images.offset // PAGE_BYTES - 1


class GdsReader:
    """Reads files into a CUDA device."""

    path = ReadPath.GDS

    def __init__(
        self, device: str, *, target: Target | None = None, files: Files | None = None
    ) -> None:
        self._target = target or DeviceTarget(device)
        self._files = files or KvikioFiles()
        self._memory = DeviceMemory(self._target, self._files)
        self._fold = DeviceFold(self._target.device)
        self._refused: dict[int, Refusal] = {}
        """By filesystem: what KvikIO reads through the host it would read so again."""

    def read(self, wanted: Wanted) -> Loaded:
        """Read a batch and check it; raises `NotByGds` where another path must be taken."""
        path = find_file(wanted)
        with reading("read", path), self._opened(path, wanted) as file:
            rest = _rest_of(file)
            block = self._memory.take(file.span_bytes)
            try:
                self._fetch(file, block)
                self._check(file, rest, block)
            except BaseException:
                self._memory.put(block)
                raise
        tensors: dict[str, Array | torch.Tensor] = {"images": _images(file.images, block)}
        tensors.update(_arrays(file, rest))
        return Loaded(tensors, wanted.nbytes, partial(self._give_back, path, block), borrowed=True)

    def close(self) -> None:
        """Let go of the device's memory."""
        self._memory.close()
        self._files.close()

    def _give_back(self, path: Path, block: torch.Tensor) -> None:
        self._memory.put(block)
        give_back_file(path)

    @contextmanager
    def _opened(self, path: Path, wanted: Wanted) -> Iterator[_OpenFile]:
        with reading("open", path):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            refused = self._refused.get(os.fstat(descriptor).st_dev)
            if refused is not None:
                raise NotByGds(refused)
            head = _head(descriptor, path, wanted)
            images = next((e for e in head.tensors if e.tensor.name == "images"), None)
            if images is None:
                raise DamagedBatch(f"{path} holds no images")
            self._check_form(head, images)
            yield _OpenFile(path, descriptor, head, images)
        finally:
            os.close(descriptor)

    def _check_form(self, head: Head, images: Placed) -> None:
        if images.codec is not Codec.OFF:
            words = f"images are compressed by {images.codec}; set DDLP_STORE_COMPRESSION=off"
            raise NotByGds(Refusal(Cause.COMPRESSED, words))
        if head.fold is None:
            words = "the batch has no fold to check it by; write it to a drive, uncompressed"
            raise NotByGds(Refusal(Cause.NO_FOLD, words))
        small = size_refusal(images.stored_bytes, self._files.least_bytes)
        if small is not None:
            raise NotByGds(small)

    def _fetch(self, file: _OpenFile, block: torch.Tensor) -> None:
        """By the open file, which nothing can be renamed over."""
        place, nbytes = f"/proc/self/fd/{file.descriptor}", file.span_bytes
        memory = self._target.exposed(block)
        try:
            found = self._files.read(place, memory, nbytes, file.images.offset)
        except RuntimeError as error:
            _check_size(file)
            log.warning("KvikIO cannot read %s: %s", file.path, error)
            words = "KvikIO fails at reading some files; see this log, and cufile.log"
            raise NotByGds(Refusal(Cause.READ_FAILED, words)) from error
        if found != nbytes:
            raise DamagedBatch(f"{file.path} has {found} bytes of images, not {nbytes}")
        if self._files.passed_host() and not self._target.is_host:
            words = f"KvikIO reads {file.path.parent} through the host; see cufile.log"
            refusal = Refusal(Cause.COMPAT_MODE, words)
            self._refused[os.fstat(file.descriptor).st_dev] = refusal
            raise NotByGds(refusal)

    def _check(self, file: _OpenFile, rest: Array, block: torch.Tensor) -> None:
        before, after = _around(file, rest)
        with self._target.working():
            there = self._fold(block[: file.span_bytes], file.first_page)
        behind = file.first_page + file.span_bytes // PAGE_BYTES
        here = fold(before.view("<u8")) + fold(after.view("<u8"), behind)
        if (here + there) & _MASK != file.head.fold:
            raise DamagedBatch(f"{file.path}: the payload's fold is wrong")


def _head(descriptor: int, path: Path, wanted: Wanted) -> Head:
    page = _read(descriptor, 0, PAGE_BYTES, path)
    try:
        head = parse_head(page.data)
    except DamagedBatch as error:
        raise DamagedBatch(f"{path}: {error}") from error
    check_expected(head, wanted.batch, wanted.checksum, str(path))
    if head.nbytes != wanted.nbytes:
        raise DamagedBatch(f"{path} is for {head.nbytes} bytes, not {wanted.nbytes}")
    return head


def _rest_of(file: _OpenFile) -> Array:
    """The payload without the images' pages."""
    ahead = file.images.offset - PAGE_BYTES
    rest = np.empty(file.head.payload_bytes - file.span_bytes, np.uint8)
    rest[:ahead] = _read(file.descriptor, PAGE_BYTES, ahead, file.path)
    rest[ahead:] = _read(file.descriptor, file.images.end, len(rest) - ahead, file.path)
    return rest


def _around(file: _OpenFile, rest: Array) -> tuple[Array, Array]:
    """What lies before the images, and what behind."""
    ahead = file.images.offset - PAGE_BYTES
    return rest[:ahead], rest[ahead:]


def _read(descriptor: int, offset: int, nbytes: int, path: Path) -> Array:
    memory = np.empty(nbytes, np.uint8)
    done = 0
    while done < nbytes:
        found = os.preadv(descriptor, [memory.data[done:]], offset + done)
        if not found:
            raise DamagedBatch(f"{path} ends at {offset + done}, before its last tensor")
        done += found
    return memory


def _check_size(file: _OpenFile) -> None:
    nbytes = os.fstat(file.descriptor).st_size
    if nbytes != file.head.nbytes:
        raise DamagedBatch(f"{file.path} has {nbytes} bytes, not {file.head.nbytes}")


def _images(entry: Placed, block: torch.Tensor) -> torch.Tensor:
    stored = block[: entry.stored_bytes].view(_DTYPES[entry.tensor.dtype])
    return stored.view(entry.tensor.shape)


def _arrays(file: _OpenFile, rest: Array) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for entry in file.head.tensors:
        if entry is file.images:
            continue
        gap = file.span_bytes if entry.offset > file.images.offset else 0
        tensor, count = entry.tensor, math.prod(entry.tensor.shape)
        flat = np.frombuffer(rest, tensor.dtype, count, entry.offset - PAGE_BYTES - gap)
        arrays[tensor.name] = flat.reshape(tensor.shape)
    return arrays
