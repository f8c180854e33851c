"""A store in a folder: on tmpfs, on a drive, or on a filesystem that several hosts share.

    ROOT/ddlp-run-RUN/making/TOKEN-…     being written
    ROOT/ddlp-run-RUN/EPOCH-INDEX-TOKEN  finished: renamed here in one step
    ROOT/ddlp-run-RUN/free/…             consumed; its room is used again by the next batch

A file is taken from `free` by renaming it, so that it never has two writers, and a holder that was
given up for dead writes to a file that nobody else will ever open. In memory a batch is made in its
mapped file; for a drive it is made in memory and written past the page cache.
"""

import errno
import os
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ddlp.core.batchfile import (
    PAGE_BYTES,
    Array,
    BatchId,
    TensorSpec,
    clear_gaps,
    compress,
    layout,
    seal,
    tensor_views,
)
from ddlp.core.codecs import Codec
from ddlp.core.direct import DirectFiles, PageMemory
from ddlp.core.errors import NoRoom, Refused
from ddlp.core.filesystem import direct_refusal, filesystem_at
from ddlp.core.maps import OUTLIVES_LOSS, MappedFile, Maps
from ddlp.core.passing import is_full
from ddlp.core.patience import Patience, system_call
from ddlp.core.private import let_group_look, make_private_folder, shares_with_group
from ddlp.core.store.address import FILE, StoreAddress
from ddlp.core.store.base import Fill, Room, StoredBatch
from ddlp.core.store.names import RUN_PREFIX, batch_name, parse_run, run_folder
from ddlp.core.store.room import usable_bytes, used_bytes

_OWN, _SHARED = 0o600, 0o640
"""The mode of files, the second where the store's folder lets its group look into it.

Who else may write to them could change what was checked.
"""


@dataclass(frozen=True)
class Made:
    """A filled batch in memory: how large its file is, and what it contains."""

    nbytes: int
    checksum: int


class FolderStore:
    """Writes and sweeps the batches of one device."""

    def __init__(
        self, root: Path, *, quota_bytes: int | None = None, codec: Codec = Codec.OFF
    ) -> None:
        self.root = root
        self._url = StoreAddress(FILE, root).url
        self._quota_bytes = quota_bytes
        self._codec = codec
        self._maps = Maps(writable=True)
        self._direct: bool | None = None
        self._files: DirectFiles | None = None
        self._memory = PageMemory()
        self._patience = Patience()

    def write(self, batch: BatchId, tensors: Sequence[TensorSpec], fill: Fill) -> StoredBatch:
        """Make one batch: `fill` writes into its memory, then it appears under its final name."""
        folder = self.root / run_folder(batch.run)
        making = folder / "making" / f"{batch.token}-{uuid.uuid4().hex}"
        name = batch_name(batch.run, batch.epoch, batch.index, batch.token)
        try:
            self._patience.call("mkdir", folder, partial(_make_folders, self.root, folder))
            made = self._make(making, batch, tensors, fill)
            self._patience.call("rename", making, partial(making.rename, self.root / name))
        except BaseException as error:
            lost = isinstance(error, FileNotFoundError) and not os.path.lexists(making)
            with suppress(OSError):  # then it goes with its run
                making.unlink(missing_ok=True)
            if lost:
                raise Refused(f"batch {batch.index} was made by someone else meanwhile") from error
            if isinstance(error, OSError) and is_full(error):
                raise self._no_room(error) from error
            raise
        return StoredBatch(f"{self._url}/{name}", made.nbytes, made.checksum)

    def _make(
        self, making: Path, batch: BatchId, tensors: Sequence[TensorSpec], fill: Fill
    ) -> Made:
        _, nbytes = layout(tensors)
        if self._maps_files:
            file = self._map(making, nbytes)
            made = fill_batch(file.memory, batch, tensors, fill)
            file.check_whole()
            if made.nbytes < nbytes:
                self._shorten(making, made.nbytes)
            return made
        # So that a full drive is found before the work is done.
        self._patience.wait_out(partial(self._open, making, nbytes))
        with self._memory.taken(nbytes) as memory, self._saving(making) as save:
            if self._codec is not Codec.OFF:
                made = fill_batch(memory, batch, tensors, fill)
                packed = compress(memory[: made.nbytes], self._codec)
                memory[: len(packed)] = packed
                made = replace(made, nbytes=len(packed))
                save(memory[: made.nbytes], 0)
            else:
                payload = partial(_save_payload, save)
                made = fill_batch(memory, batch, tensors, fill, filled=payload)
                save(memory[:PAGE_BYTES], 0)
        if made.nbytes < nbytes:
            self._shorten(making, made.nbytes)
        return made

    def _shorten(self, making: Path, nbytes: int) -> None:
        self._patience.call("truncate", making, partial(os.truncate, making, nbytes))

    @property
    def _maps_files(self) -> bool:
        return OUTLIVES_LOSS and self._codec is Codec.OFF and not self._is_direct

    @property
    def _is_direct(self) -> bool:
        """Whether its files are written past the page cache; found out once."""
        if self._direct is None:
            self._direct = self._patience.call("open", self.root, partial(_takes_direct, self.root))
        return self._direct

    def _map(self, making: Path, nbytes: int) -> MappedFile:
        """Memory of a file to write: recycled where one lies free, else allocated."""

        def mapped() -> MappedFile:
            self._open(making, nbytes)
            with system_call("mmap", making), making.open("r+b") as file:
                return MappedFile(self._maps.map(file, nbytes), str(making))

        return self._patience.wait_out(mapped, self._maps.clear)

    def _open(self, making: Path, nbytes: int) -> None:
        """A file of a size to write: recycled where one lies free, else allocated."""
        with system_call("open", making):
            if not self._take_free(making, nbytes):
                making.touch(_OWN)
            opened = making.open("r+b")
            mode = _SHARED if shares_with_group(self.root) else _OWN
        with opened as file, system_call("fallocate", making):
            status = os.fstat(file.fileno())
            if stat.S_IMODE(status.st_mode) != mode:
                with suppress(OSError):  # a filesystem without modes
                    os.fchmod(file.fileno(), mode)
            self._make_room(nbytes - status.st_blocks * 512)
            # Reserved now: a map over a full disk would kill the process at the first write.
            if status.st_size > nbytes:
                os.ftruncate(file.fileno(), nbytes)
            os.posix_fallocate(file.fileno(), 0, nbytes)

    @contextmanager
    def _saving(self, making: Path) -> Iterator[Callable[[memoryview, int], None]]:
        """Takes parts of a file to be written; all of them are when it ends."""
        self._files = self._files or DirectFiles()
        flags = os.O_WRONLY | (os.O_DIRECT if self._is_direct else 0)
        descriptor = self._patience.call("open", making, partial(os.open, making, flags))
        try:
            with self._files.writing(descriptor) as save:
                yield save
        finally:
            os.close(descriptor)

    def _take_free(self, making: Path, nbytes: int) -> bool:
        """Take a file that is used no more: of this run, or of any where there is no room left."""
        if _take(making.parent.parent / "free", making, self._maps):
            return True
        others = self.root.glob(f"{RUN_PREFIX}*/free")
        return self._short_bytes(nbytes) > 0 and any(
            _take(free, making, self._maps) for free in others
        )

    def _make_room(self, more_bytes: int) -> None:
        """Find room for so much more: what lies free is given up for it, of any run."""
        if more_bytes <= 0:
            return
        short = self._short_bytes(more_bytes)
        if short > 0 and _drop_free(self.root, short):
            self._maps.clear()  # what is mapped here would stay
        if self._over_bytes(more_bytes) > 0:
            raise NoRoom(
                f"the store {self.root} has used up its quota of {self._quota_bytes} bytes; raise "
                "DDLP_STORE_QUOTA_BYTES, cancel runs that nobody trains with, or wait until "
                "batches are consumed"
            )
        if usable_bytes(self.root) < more_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _short_bytes(self, more_bytes: int) -> int:
        """What is lacking for so much more, by the quota or the filesystem."""
        return max(self._over_bytes(more_bytes), more_bytes - usable_bytes(self.root))

    def _over_bytes(self, more_bytes: int) -> int:
        """How far so much more would go beyond the quota."""
        if self._quota_bytes is None:
            return 0
        return used_bytes(self.root, RUN_PREFIX) + more_bytes - self._quota_bytes

    def _no_room(self, error: OSError) -> NoRoom:
        kind = filesystem_at(self.root)
        remedy = (
            f"enlarge it (mount -o remount,size=… {kind.place}; a container: --shm-size), or name"
            if kind.in_memory
            else "free some space, or name"
        )
        return NoRoom(
            f"no room for another batch at {self.root} ({error.strerror}, {kind.kind} on "
            f"{kind.place}); {remedy} another place with DDLP_CPU_STORE or DDLP_CSD_STORE"
        )

    def discard(self, run: uuid.UUID, epoch: int, index: int, token: int) -> None:
        """Forget what an attempt left that counts no more."""
        path = self.root / batch_name(run, epoch, index, token)
        path.unlink(missing_ok=True)
        with suppress(FileNotFoundError):  # others may remove the whole run meanwhile
            for making in (path.parent / "making").glob(f"{token}-*"):
                making.unlink(missing_ok=True)

    def remove_run(self, run: uuid.UUID) -> None:
        """Forget all files of a run."""
        shutil.rmtree(self.root / run_folder(run), ignore_errors=True)

    def runs(self) -> dict[uuid.UUID, float]:
        """The runs of which there is something, and for how many seconds nothing has changed."""
        found = {}
        for folder in self.root.glob(f"{RUN_PREFIX}*"):
            run = parse_run(folder.name)
            if run is not None:
                found[run] = max(0.0, time.time() - _changed_at(folder))
        return found

    def room(self) -> Room:
        """How full it is, by its quota and its filesystem."""
        recyclable = sum(used_bytes(place, "") for place in self.root.glob(f"{RUN_PREFIX}*/free"))
        used = used_bytes(self.root, RUN_PREFIX) - recyclable
        free = usable_bytes(self.root) + recyclable
        if self._quota_bytes is not None:
            free = min(free, max(0, self._quota_bytes - used))
        return Room(used, free)

    def relax(self) -> None:
        """Let go of mappings and of the memory in which batches are made."""
        self._maps.clear()
        self._memory.relax()


def fill_batch(
    memory: memoryview,
    batch: BatchId,
    tensors: Sequence[TensorSpec],
    fill: Fill,
    filled: Callable[[memoryview], None] | None = None,
) -> Made:
    """Have a batch made in memory and seal it; where samples were left out it is shorter.

    `filled` is shown the file before it is sealed, its payload as it will stay: for a drive, which
    needs a fold, to be written while the checksums are taken.
    """
    arrays = tensor_views(memory, tensors)
    samples = fill(arrays)
    if samples < batch.samples:
        batch = replace(batch, samples=samples)
        tensors = _shorten(memory, tensors, arrays, samples)
    _, nbytes = layout(tensors)
    if filled is not None:
        clear_gaps(memory, tensors)
        filled(memory[:nbytes])
    return Made(nbytes, seal(memory[:nbytes], batch, tensors, folded=filled is not None))


def _make_folders(root: Path, folder: Path) -> None:
    if not root.exists():
        make_private_folder(root)
    for place in (folder, folder / "making", folder / "free"):
        place.mkdir(mode=0o755, exist_ok=True)
    if shares_with_group(root):
        let_group_look(folder)


def _takes_direct(root: Path) -> bool:
    return not filesystem_at(root).in_memory and direct_refusal(root) is None


def _save_payload(save: Callable[[memoryview, int], None], file: memoryview) -> None:
    save(file[PAGE_BYTES:], PAGE_BYTES)


def release(path: Path) -> None:
    """Give a consumed batch's room back for the next one."""
    try:
        os.rename(path, path.parent / "free" / path.name)
    except FileNotFoundError:
        path.unlink(missing_ok=True)


def _shorten(
    memory: memoryview, tensors: Sequence[TensorSpec], arrays: dict[str, Array], samples: int
) -> list[TensorSpec]:
    """Move the tensors of a batch together that holds fewer samples than were planned."""
    shorter = [replace(tensor, shape=(samples, *tensor.shape[1:])) for tensor in tensors]
    moved = tensor_views(memory, shorter)
    for tensor in tensors[1:]:  # the first one begins where it did
        moved[tensor.name][:] = arrays[tensor.name][:samples].copy()
    return shorter


def _changed_at(folder: Path) -> float:
    try:
        return max(place.stat().st_mtime for place in (folder, *folder.iterdir()))
    except FileNotFoundError:
        return time.time()


def _take(free: Path, making: Path, maps: Maps) -> bool:
    """Take a file that is used no more: one that is still mapped here, if there is one."""
    try:
        with os.scandir(free) as entries:
            found = sorted(entries, key=lambda entry: entry.inode() not in maps)
    except FileNotFoundError:
        return False
    for entry in found:
        try:
            os.rename(entry.path, making)
        except FileNotFoundError:
            continue
        return True
    return False


def _drop_free(root: Path, wanted_bytes: int) -> bool:
    """Remove files that are used no more, of any run, until so much is free; was there any?"""
    dropped = 0
    for path in root.glob(f"{RUN_PREFIX}*/free/*"):
        try:
            found = path.stat().st_blocks * 512
            path.unlink()
        except FileNotFoundError:
            continue
        dropped += found
        if dropped >= wanted_bytes:
            break
    return dropped > 0
