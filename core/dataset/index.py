"""An index at work: sample numbers in; bytes, heads, labels and names out of a mapped file.

Opening reads the head only. Batches of samples are looked up in the map, whose pages are let go of
again when they may have become 32 MiB, so that ten million samples cost a worker no more memory
than a thousand; what is asked of a single sample is read from the file, which maps nothing. All is
checked where it is read: numbers that lead outside the file, or outside what they count, are an
error and never a crash.
"""

import json
import mmap
import os
import struct
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ddlp.core.dataset.files import open_unchanged, read_unchanged, shown
from ddlp.core.dataset.layout import MAGIC, RECORD, SECTIONS, SampleRow, padding
from ddlp.core.dataset.open_files import OpenFiles
from ddlp.core.dataset.writer import pixels_beside
from ddlp.core.errors import DdlpError, InvalidInput, SystemFault
from ddlp.core.image import Encoded, Kind
from ddlp.core.maps import FileMap
from ddlp.core.passing import failed_words, is_passing
from ddlp.core.patience import Patience, fault_of

Samples = npt.NDArray[np.int64]

PACKED = "packed"
KINDS = ("folder", "manifest", "tar", "array", PACKED)
_REACH_BYTES = mmap.PAGESIZE // 8 * mmap.PAGESIZE
"""How much of a file one touch may map: kernels map all that lies together in the page cache."""
_KEPT = max(1, (32 << 20) // _REACH_BYTES)
"""Touches after which pages are let go of."""
_SMALL_BYTES = 8 << 20
"""A mapped index up to this size is kept: to fault its pages in again would cost more."""
_SMALL_PIXELS_BYTES = 256 << 20
"""The same for pixels, of which much more is read; all workers share those pages."""
_MAX_TEXT = 1 << 20


@dataclass(frozen=True)
class Heads:
    """What is known of samples before they are read, side by side."""

    kind: npt.NDArray[np.uint8]
    width: Samples
    height: Samples
    """As stored, before the orientation is applied."""
    orientation: npt.NDArray[np.uint8]
    nbytes: Samples
    """As encoded, before they were packed."""


@dataclass(frozen=True)
class Rejected:
    """A file that was left out, and why."""

    name: str
    reason: str


class DatasetIndex:
    """A mapped index."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cure = ""
        """What to do about a file that was changed since, if whoever opened the index knows."""
        self._touched = 0
        self._pixels: npt.NDArray[np.uint8] | None = None
        self._pixels_map: FileMap | None = None
        self._shards = OpenFiles()
        self._expected: dict[int, tuple[int, int, int]] = {}
        self.patience = Patience()
        """How long errors that pass are waited for where its samples are read."""
        try:
            self._file = self.patience.call("open", path, self._open)
            weakref.finalize(self, os.close, self._file)
            self._parse()
        except PermissionError as error:
            raise InvalidInput(
                f"{failed_words(error, 'open', path)}; give this user the right to read it"
            ) from error
        except (
            OSError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
            struct.error,
        ) as error:
            raise InvalidInput(
                f"{path} is not a dataset index of this version ({error}); rescan its dataset"
            ) from error

    def _open(self) -> int:
        """Map the file; gives a descriptor of it."""
        with self.path.open("rb") as file:
            self._map = FileMap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._map.guard()
            return os.dup(file.fileno())

    def _parse(self) -> None:
        if self._map[:8] != MAGIC:
            raise ValueError("it begins otherwise")
        (length,) = struct.unpack_from("<Q", self._map, 8)
        head = json.loads(self._map[16 : 16 + length])
        self.version: str = head["version"]
        self.root = Path(head["root"])
        self._folder = os.fsencode(self.root)
        self.classes: tuple[str, ...] = tuple(head["classes"])
        self.kind: str = head["kind"]
        self.packing: dict[str, Any] | None = head.get("packing")
        self.notes = [str(note) for note in head.get("notes", [])]
        if self.kind not in KINDS:
            raise ValueError(f"its kind is {self.kind!r}")
        if not all(isinstance(text, str) for text in (self.version, *self.classes)):
            raise ValueError("its version or classes are no text")
        self.samples = _count(head["samples"])
        self.total_bytes = _count(head["total_bytes"])
        self.rejected = _count(head["rejected"])
        self._place = _Place.parse(head["pixels"]) if head["pixels"] is not None else None
        self._map_sections(head["sections"], 16 + length + padding(16 + length))

    def _map_sections(self, places: dict[str, list[int]], body: int) -> None:
        sections, end = {}, 0
        self._at: dict[str, int] = {}
        for name, dtype in SECTIONS.items():
            start, size = (_count(number) for number in places[name])
            if start != end + padding(end) or size % dtype.itemsize:
                raise ValueError(f"its section {name} is out of place")
            end = start + size
            if body + end > len(self._map):
                raise ValueError("it is cut short or has grown")
            self._at[name] = body + start
            sections[name] = np.frombuffer(self._map, dtype, size // dtype.itemsize, body + start)
        if body + end != len(self._map):
            raise ValueError("it is cut short or has grown")
        self._rows, self._files = sections["rows"], sections["files"]
        self._starts, self._members = sections["class_starts"], sections["members"]
        self._rejected_ends = sections["rejected_ends"]
        self._lengths = {name: len(section) for name, section in sections.items()}
        counts = len(self._rows), len(self._members), len(self._starts), len(self._rejected_ends)
        if counts != (self.samples, self.samples, len(self.classes) + 1, self.rejected):
            raise ValueError("its counts do not agree")

    @property
    def pixels_shape(self) -> tuple[int, int] | None:
        """Height and width where every sample is raw pixels of that size."""
        return (self._place.height, self._place.width) if self._place else None

    def heads(self, samples: Samples) -> Heads:
        """What is known of samples before they are read."""
        rows = self._take(samples)
        sound = (rows["width"] > 0) & (rows["height"] > 0) & (rows["kind"] <= max(Kind))
        if not np.all(sound & (rows["orientation"] >= 1) & (rows["orientation"] <= 8)):
            raise self._damaged("a sample's size or kind")
        width, height = rows["width"].astype(np.int64), rows["height"].astype(np.int64)
        nbytes = np.where(rows["origin_size"] > 0, rows["origin_size"], rows["size"])
        return Heads(
            rows["kind"].copy(), width, height, rows["orientation"].copy(), nbytes.astype(np.int64)
        )

    def sizes(self, samples: Samples) -> Samples:
        """How many bytes samples take as they are encoded."""
        return self._take(samples)["size"].astype(np.int64)

    def labels(self, samples: Samples) -> Samples:
        """The class numbers of samples."""
        labels = self._take(samples)["label"].astype(np.int64)
        if np.any(labels >= len(self.classes)):
            raise self._damaged("a sample's label")
        return labels

    def members(self, label: int) -> Samples:
        """The samples of one class, ascending."""
        if not 0 <= label < len(self.classes):
            raise InvalidInput(f"there is no class {label}; there are {len(self.classes)}")
        start, end = int(self._starts[label]), int(self._starts[label + 1])
        if not 0 <= start <= end <= self.samples:
            raise self._damaged("a class's members")
        return self._members[start:end]

    def read(self, sample: int) -> bytes:
        """A sample's encoded bytes, if its file is still the one that was indexed."""
        return bytes(self.encoded(sample))

    def another(self, sample: int) -> Callable[[], object] | None:
        """What reads a sample that lies elsewhere: if that works, the drive does."""
        if self.samples < 2:
            return None
        return partial(self._read_other, (sample + self.samples // 2) % self.samples)

    def _read_other(self, sample: int) -> None:
        try:
            self.read(sample)
        except SystemFault:
            raise
        except OSError as error:
            if is_passing(error):
                raise fault_of(error, "read", self.name(sample)) from error
        except (DdlpError, ValueError):
            pass  # the drive has answered, if not with what was wanted

    def encoded(self, sample: int) -> Encoded:
        """The same, of a packed dataset yet to be read: a part of a shard, good until `relax`."""
        if self._place is not None:
            picture: bytes = self.pixels()[self._checked(sample)].tobytes()
            return picture
        if sample in self._expected:
            return self._shards.part(self._container, *self._expected[sample])
        row, name = self.row(sample)
        if not len(self._files):
            path = os.path.join(self._folder, name)
            return read_unchanged(path, row.size, row.time_ns, 0, row.size)
        if self.kind == PACKED:
            return self._shards.part(self._container, row.file, row.place, row.size)
        return read_unchanged(*self._container(row.file), row.place, row.size)

    def expect(self, samples: Samples) -> None:
        """Say which samples of a packed dataset will be read next, so that disks are kept busy.

        Its shards stay open until `relax`; that they are unchanged is checked when they are opened.
        """
        if self.kind != PACKED:
            return
        rows = self._take(samples)
        places = zip(*(rows[name].tolist() for name in ("file", "place", "size")), strict=True)
        self._expected = dict(zip(samples.tolist(), places, strict=True))
        for place in self._expected.values():
            self._shards.expect(self._container, *place)

    def pixels(self) -> npt.NDArray[np.uint8]:
        """All samples of an array dataset, mapped; each call checks that the file is unchanged."""
        if self._place is None:
            raise InvalidInput(f"{self.root} is a dataset of kind {self.kind}: it has no pixels")
        path, size, time_ns = self._pixel_file()
        with open_unchanged(path, size, time_ns) as file:
            if self._pixels is None or self.pixels_lost:
                shape = (self.samples, self._place.height, self._place.width, 3)
                count = self.samples * self._place.height * self._place.width * 3
                if self._place.offset + count > size:
                    raise self._damaged("the place of its pixels")
                self._pixels_map = FileMap(file.fileno(), 0, access=mmap.ACCESS_READ)
                self._pixels_map.guard()
                if size > _SMALL_PIXELS_BYTES and hasattr(mmap, "MADV_RANDOM"):
                    self._pixels_map.madvise(mmap.MADV_RANDOM)
                flat = np.frombuffer(self._pixels_map, np.uint8, count, self._place.offset)
                self._pixels = flat.reshape(shape)
        return self._pixels

    @property
    def pixels_lost(self) -> bool:
        """Whether zeros were seen where the file of the pixels was cut short meanwhile."""
        return self._pixels_map is not None and self._pixels_map.lost

    def name(self, sample: int) -> str:
        """What a sample is called in messages and lists."""
        row, name = self.row(sample)
        if not len(self._files):
            return shown(os.path.join(self._folder, name))
        path = shown(self._container(row.file)[0])
        return f"{path}:{shown(name)}" if self._place is None else f"{path}[{row.place}]"

    def list_rejected(self, offset: int = 0, limit: int = 100) -> list[Rejected]:
        """Some of the files that were left out, in the order they were found."""
        found = []
        for number in range(max(0, offset), min(self.rejected, offset + limit)):
            start = int(self._rejected_ends[number - 1]) if number else 0
            text = shown(self._text("rejected", start, int(self._rejected_ends[number])))
            name, _, reason = text.partition("\0")
            found.append(Rejected(name, reason))
        return found

    def relax(self) -> None:
        """Let go of the pages and shards that were touched; they come back when they are needed."""
        self._touched = 0
        self._shards.close()
        self._expected = {}
        _let_go(self._map, _SMALL_BYTES)
        if self._pixels_map is not None:
            _let_go(self._pixels_map, _SMALL_PIXELS_BYTES)

    def _take(self, samples: Samples) -> npt.NDArray[Any]:
        """Copies of the rows of samples."""
        if len(samples) and not 0 <= int(samples.min()) <= int(samples.max()) < self.samples:
            raise InvalidInput(f"there are samples 0 to {self.samples - 1} only")
        taken = self._rows[samples] if len(self._map) <= _SMALL_BYTES else self._take_far(samples)
        if self._map.lost:
            raise self._damaged("it was cut short")
        return taken

    def _take_far(self, samples: Samples) -> npt.NDArray[Any]:
        """The same of an index of which not all may stay in memory."""
        order = np.argsort(samples)
        windows = samples[order] * self._rows.itemsize // _REACH_BYTES
        groups = np.cumsum(np.diff(windows, prepend=windows[:1]) != 0) // _KEPT
        taken = np.empty(len(samples), dtype=self._rows.dtype)
        for piece in np.split(order, np.flatnonzero(np.diff(groups)) + 1):
            self._touch(min(len(piece), _KEPT))
            taken[piece] = self._rows[samples[piece]]
        return taken

    def row(self, sample: int) -> tuple[SampleRow, bytes]:
        """All that is known of a sample, and its name as bytes, without the root."""
        before = 1 if self._checked(sample) else 0
        at = self._at["rows"] + (sample - before) * RECORD.size
        data = self._read((1 + before) * RECORD.size, at)
        start = RECORD.unpack_from(data)[0] if before else 0
        end, *fields = RECORD.unpack_from(data, before * RECORD.size)
        return SampleRow(*fields), self._text("names", start, end)

    def _checked(self, sample: int) -> int:
        if not 0 <= sample < self.samples:
            raise InvalidInput(f"there is no sample {sample}; there are {self.samples}")
        return sample

    def _touch(self, places: int) -> None:
        """Say that so many places of the map will be read."""
        if self._touched + places > _KEPT:
            _let_go(self._map, _SMALL_BYTES)
            self._touched = 0
        self._touched += places

    def _container(self, number: int) -> tuple[bytes, int, int]:
        """The path of a shard or array, its size, and when it was changed."""
        if number >= len(self._files):
            raise self._damaged("a sample's file")
        start = int(self._files["name_end"][number - 1]) if number else 0
        end, size, time_ns = self._files[number].tolist()
        name = self._text("file_names", start, end)
        return os.path.join(self._folder, name), size, time_ns

    def _text(self, section: str, start: int, end: int) -> bytes:
        if not start <= end <= min(self._lengths[section], start + _MAX_TEXT):
            raise self._damaged(f"the section {section}")
        return self._read(end - start, self._at[section] + start)

    def _read(self, nbytes: int, at: int) -> bytes:
        return self.patience.call("pread", self.path, partial(os.pread, self._file, nbytes, at))

    def _pixel_file(self) -> tuple[bytes, int, int]:
        assert self._place is not None
        if self._place.beside is not None:
            return os.fsencode(pixels_beside(self.path)), *self._place.beside
        if len(self._files) != 1:
            raise self._damaged("the place of its pixels")
        return self._container(0)

    def _damaged(self, what: str) -> InvalidInput:
        return InvalidInput(f"{self.path} is damaged ({what}); rescan its dataset")


@dataclass(frozen=True)
class _Place:
    """Where the pixels of an array dataset lie."""

    height: int
    width: int
    offset: int
    beside: tuple[int, int] | None
    """Size and time of the file beside the index; None: they lie in the dataset's own file."""

    @classmethod
    def parse(cls, said: dict[str, Any]) -> "_Place":
        height, width = _count(said["height"]), _count(said["width"])
        if not height or not width:
            raise ValueError("its samples have no pixels")
        beside = (_count(said["size"]), _count(said["time_ns"])) if said["beside"] else None
        return cls(height, width, _count(said["offset"]), beside)


def _let_go(mapped: mmap.mmap, small_bytes: int) -> None:
    if len(mapped) > small_bytes and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def _count(number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise ValueError(f"{number!r} is not a count")
    return number
