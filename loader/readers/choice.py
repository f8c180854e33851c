"""Decides by which path a batch is read, says so once, and counts it.

A file in memory is mapped: it is memory of this host already; or copied, where others may write to
it. From a drive bytes go straight into
the accelerator where GPUDirect Storage works, else past the page cache into memory of ours, else
through a map. What this host does not see is fetched from the host that made it.
"""

import logging
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from ddlp.core.batchfile import BatchId
from ddlp.core.errors import (
    DamagedBatch,
    DdlpError,
    InvalidInput,
    MissingBatch,
    SystemFault,
    Unavailable,
)
from ddlp.core.filesystem import direct_read_refusal, filesystem_at
from ddlp.core.messages import FedBatch
from ddlp.core.patience import Patience
from ddlp.core.store import path_of
from ddlp.core.store.reading import reading
from ddlp.core.types import Prong, ReadPath
from ddlp.loader.buffers import Buffers
from ddlp.loader.readers.base import Loaded, Reader, ReadsAhead, Wanted
from ddlp.loader.readers.copied import CopyReader
from ddlp.loader.readers.counts import ReadCounts
from ddlp.loader.readers.direct import DirectReader
from ddlp.loader.readers.gds import GdsReader, NotByGds
from ddlp.loader.readers.gds_probe import Cause, Refusal, device_refusal, file_refusal
from ddlp.loader.readers.http import HttpReader
from ddlp.loader.readers.mapped import MappedReader, NotByMap
from ddlp.loader.readers.s3 import S3Reader

Preference = Literal["auto", "mmap", "direct", "gds"]

_BOUND_S = 8.0
"""How long errors that pass are waited for, at one batch."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReadOptions:
    """How files that this host sees are to be read."""

    device: str = "cpu"
    reader: Preference = "auto"
    require_gds: bool = False
    """Whether what drives wrote must reach the accelerator without passing through the host."""

    def __post_init__(self) -> None:
        if self.reader not in get_args(Preference):
            known = ", ".join(get_args(Preference))
            raise InvalidInput(f"reader={self.reader!r} is not one of: {known}")
        if self.require_gds and self.reader not in ("auto", "gds"):
            raise InvalidInput(f"reader={self.reader!r} and require_gds=True exclude each other")

    def check_gds(self) -> Refusal | None:
        """Why GDS does not reach the device; an error where it must."""
        refusal = device_refusal(self.device)
        if refusal is not None and (self.require_gds or self.reader == "gds"):
            raise _no_gds(refusal)
        return refusal


@dataclass(frozen=True)
class Choice:
    """A path, and why it is taken."""

    path: ReadPath
    reason: str


class Readers:
    """Reads batches by the best path there is; of one thread at a time."""

    def __init__(
        self, options: ReadOptions, buffers: Buffers, counts: ReadCounts | None = None
    ) -> None:
        self._options = options
        self._buffers = buffers
        self._patience = Patience(_BOUND_S)
        self._host = socket.gethostname()
        self._made: dict[ReadPath, Reader] = {}
        self._chosen: dict[Path, Choice] = {}
        self.counts = counts or ReadCounts()
        self._gds_refusal = options.check_gds()

    def read(self, fed: FedBatch, expected: BatchId) -> Loaded:
        """Read a batch and check that it is the one that was committed.

        Errors of the moment are waited out. A drive that goes on refusing this one file may have
        lost it: then it is damaged, as is said once; after that the fault lies here.
        """
        try:
            return self._patience.wait_out(partial(self._read, fed, expected), self._relieve)
        except SystemFault as fault:
            if fault.perhaps_lost:
                raise DamagedBatch(str(fault)) from fault
            raise

    def _read(self, fed: FedBatch, expected: BatchId) -> Loaded:
        choice, wanted = self._choose(fed, expected)
        if fed.prong is Prong.CSD and choice.path is not ReadPath.GDS and self._options.require_gds:
            raise _no_gds(f"batch {fed.index} would be read by {choice.path}: {choice.reason}")
        try:
            loaded = self._reader(choice.path).read(wanted)
        except NotByGds as error:
            if self._options.require_gds:
                raise _no_gds(f"batch {fed.index}: {error}") from error
            choice = Choice(ReadPath.DIRECT, f"no GDS: {error}")
            loaded = self._reader(choice.path).read(wanted)
        except NotByMap as error:
            choice = Choice(ReadPath.COPY, str(error))
            loaded = self._reader(choice.path).read(wanted)
        if self.counts.add((choice.path, choice.reason), loaded.nbytes):
            log.info("batches of %s are read by %s (%s)", fed.device, choice.path, choice.reason)
        return loaded

    def expect(self, fed: FedBatch, expected: BatchId) -> None:
        """A batch is read soon: what can be done before, is."""
        with suppress(DdlpError):  # said when it is read
            choice, wanted = self._choose(fed, expected)
            reader = self._reader(choice.path)
            if isinstance(reader, ReadsAhead):
                reader.expect(wanted)

    def is_remote(self, fed: FedBatch) -> bool:
        """Whether a batch comes over the network."""
        return fed.location.startswith("s3:") or (fed.served is not None and not self._sees(fed))

    def is_gone(self, fed: FedBatch) -> bool:
        """Whether a batch can be seen to be there no more, without reading it."""
        if not fed.location.startswith("file:") or fed.served is not None:
            return False
        return not self._sees(fed) and self._would_see(fed)

    def _relieve(self) -> None:
        """Let go of descriptors and mappings that are only kept to be quick."""
        if ReadPath.MMAP in self._made:
            self._made[ReadPath.MMAP].close()

    def close(self) -> None:
        """Let go of connections and memory."""
        for reader in self._made.values():
            reader.close()
        self._made = {}

    def _choose(self, fed: FedBatch, expected: BatchId) -> tuple[Choice, Wanted]:
        wanted = Wanted(expected, fed.checksum, fed.nbytes, fed.location)
        if fed.location.startswith("s3:"):
            return Choice(ReadPath.S3, "it lies in an object store"), wanted
        if self._sees(fed):
            return self._choose_local(_file(fed)), wanted
        if fed.served is not None:
            served = Wanted(expected, fed.checksum, fed.nbytes, fed.served, fed.access)
            return Choice(
                ReadPath.HTTP, f"{fed.host} serves it, and this host sees no file"
            ), served
        if _is_closed(fed):
            raise Unavailable(
                f"{fed.location} lies in a folder of another user, which this one may not read; "
                "run the worker and this process as one user, make the worker's store folder "
                "belong to a group of this user, with mode 2750, or set DDLP_SERVE_STORE for that "
                "worker"
            )
        if self._would_see(fed):
            raise MissingBatch(f"{fed.location} is gone")
        raise Unavailable(
            f"{fed.device} on {fed.host} wrote batch {fed.index} to {fed.location}, which this "
            f"host ({self._host}) does not see; mount that folder here under the same path, or set "
            "DDLP_SERVE_STORE for that worker"
        )

    def _sees(self, fed: FedBatch) -> bool:
        """Whether this user has the file here. Its folder says little: hosts may share a path."""
        path = _file(fed)
        try:
            self._patience.call("stat", path, path.stat)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return False
        return os.access(path, os.R_OK)

    def _would_see(self, fed: FedBatch) -> bool:
        """Whether a file that is not here is gone, rather than on another host."""
        if _is_closed(fed):
            return False
        return fed.host in ("", self._host) or _file(fed).parent.is_dir()

    def _choose_local(self, path: Path) -> Choice:
        store = path.parent.parent
        if store not in self._chosen:
            with reading("open", path):
                self._chosen[store] = self._probe(path)
        return self._chosen[store]

    def _probe(self, path: Path) -> Choice:
        """The best path to the files beside this one."""
        asked = self._options.reader
        found = filesystem_at(path)
        if asked == "mmap":
            return Choice(ReadPath.MMAP, "asked for")
        if found.in_memory and asked == "auto":
            return Choice(ReadPath.MMAP, f"{found.kind} is memory of this host")
        gds = self._gds_refusal or file_refusal(path)
        if asked in ("auto", "gds") and gds is None:
            return Choice(ReadPath.GDS, "from the drive into the accelerator")
        if asked == "gds":
            raise _no_gds(str(gds))
        direct = direct_read_refusal(path)
        if direct is None:
            return Choice(ReadPath.DIRECT, "asked for" if asked == "direct" else _why_direct(gds))
        if asked == "direct":
            raise Unavailable(f"reader='direct' cannot be had: {direct}")
        return Choice(ReadPath.MMAP, f"through the page cache: {direct}")

    def _reader(self, path: ReadPath) -> Reader:
        if path not in self._made:
            self._made[path] = self._make(path)
        return self._made[path]

    def _make(self, path: ReadPath) -> Reader:
        match path:
            case ReadPath.MMAP:
                return MappedReader()
            case ReadPath.COPY:
                return CopyReader(self._buffers)
            case ReadPath.DIRECT:
                return DirectReader(self._buffers)
            case ReadPath.GDS:
                return GdsReader(self._options.device)
            case ReadPath.HTTP:
                return HttpReader(self._buffers)
            case ReadPath.S3:
                return S3Reader(self._buffers)


def _why_direct(refusal: Refusal | None) -> str:
    """Why a drive is read so: where no accelerator is fed, nobody misses GDS."""
    if refusal is None or refusal.cause is Cause.NOT_CUDA:
        return "a drive, read past the page cache"
    return f"no GDS: {refusal}"


def _no_gds(refusal: str) -> Unavailable:
    return Unavailable(f"GPUDirect Storage is required and cannot be had: {refusal}")


def _is_closed(fed: FedBatch) -> bool:
    """Whether it is not for this user to read, by its mode or its folder's."""
    path = _file(fed)
    try:
        path.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return not os.access(path, os.R_OK)


def _file(fed: FedBatch) -> Path:
    return path_of(fed.location)
