"""What a reader is: it brings a batch from where it lies into memory, checked from end to end.

Reader
├── mapped.MappedReader    mmap     a file's own memory
├── copied.CopyReader      copy     by plain reads, into memory of ours
├── direct.DirectReader    direct   past the page cache, into pages of ours
├── gds.GdsReader          gds      from the drive into the accelerator
├── http.HttpReader        http     from the host that made it
└── s3.S3Reader            s3       from an object store
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from ddlp.core.batchfile import Array, BatchId
from ddlp.core.maps import MappedFile
from ddlp.core.types import ReadPath


@dataclass(frozen=True)
class Wanted:
    """A batch to be read."""

    batch: BatchId
    """Which it must be; engine and device are not compared."""
    checksum: int
    """Of its payload, as it was committed."""
    nbytes: int
    """Of its file."""
    location: str
    """Its address: file:///…, s3://… or http://…"""
    access: str | None = None
    """What a host that serves it wants to be shown."""


@dataclass(frozen=True)
class Loaded:
    """A batch in memory."""

    tensors: Mapping[str, Array | torch.Tensor]
    """By name: arrays in the host's memory, or tensors that are on the accelerator already."""
    nbytes: int
    """Bytes that were read."""
    give_back: Callable[[], None]
    """To be called once nothing uses the batch's place in its store any more."""
    borrowed: bool = False
    """Whether the arrays lie in the store's own memory, so that they end with `give_back`."""
    file: MappedFile | None = None
    """The mapped file that they lie in: somebody may cut it short."""


@runtime_checkable
class ReadsAhead(Protocol):
    """A reader that gains by knowing what is read next."""

    def expect(self, wanted: Wanted) -> None:
        """Begin with a batch that is wanted soon."""


class Reader(Protocol):
    """One way to read batches; of one thread at a time."""

    path: ReadPath

    def read(self, wanted: Wanted) -> Loaded:
        """Read and check a batch; raises `DamagedBatch`, or `MissingBatch` where it is gone."""

    def close(self) -> None:
        """Let go of connections and memory."""
