"""Tar shards in WebDataset's layout, read in place.

Members that follow each other and share a key, which is the name up to the first dot of its last
part, make up one sample: an image, and what is known of it.
"""

import functools
import itertools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ddlp.core.dataset.check import inspect, reason_of
from ddlp.core.dataset.files import (
    IMAGE_SUFFIXES,
    Fence,
    open_regular,
    raise_if_passing,
    read_at,
    shown,
)
from ddlp.core.dataset.labels import LabelBook
from ddlp.core.dataset.layout import SampleRow
from ddlp.core.dataset.progress import ScanOptions
from ddlp.core.dataset.sources.base import Classes, EncodedSource, Listing, join
from ddlp.core.dataset.tar_members import Member, TarMembers

COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst")
_MAX_LABEL = 1 << 20


class TarSource(EncodedSource):
    """A tar file, or all of a folder by name; samples keep the order they have in them."""

    kind = "tar"

    def __init__(self, uri: Path, options: ScanOptions) -> None:
        super().__init__(uri, options)
        self._fence = Fence(self.root, options.allowed)
        self._shards: list[tuple[str, int, int]] = []

    @functools.cached_property
    def root(self) -> Path:
        """The folder of the shards."""
        return self.uri if self.uri.is_dir() else self.uri.parent

    @property
    def expected(self) -> str:
        """A key with an image and a label."""
        return (
            f"{self.uri} holds no samples; expected members such as 0001.jpg with 0001.cls "
            "or 0001.json, or CLASS/0001.jpg"
        )

    def list_samples(self, listing: Listing) -> Classes:
        """Name the samples of every shard."""
        book = LabelBook()
        for path in tar_files(self.uri):
            self._fence.check(str(path))
            try:
                with open_regular(str(path)) as file:
                    self._list_shard(path, file, listing, book)
            except (OSError, ValueError) as error:
                raise_if_passing(error, str(path))
                listing.reject(shown(os.fsencode(path)), reason_of(error))
        return book.settle()

    def _list_shard(self, path: Path, file: BinaryIO, listing: Listing, book: LabelBook) -> None:
        status = os.fstat(file.fileno())
        number = listing.writer.add_file(os.fsencode(path.name), status.st_size, status.st_mtime_ns)
        self._shards.append((path.name, status.st_size, status.st_mtime_ns))
        members = TarMembers(file, shown(os.fsencode(path)))
        parts = (_Part.of(member) for member in members)
        for key, group in itertools.groupby(parts, key=lambda part: part.key):
            sample = {part.ending: part for part in reversed(list(group))}
            image = _image(sample)
            if image is None:
                if sample.keys() & {"cls", "json"}:
                    listing.reject(f"{path}:{key}", "it has a label but no image")
                continue
            name = image.member.name.encode("utf-8", "surrogateescape")
            row = SampleRow(image.member.size, 0, image.member.start, number)
            try:
                listing.add(name, row._replace(label=book.number(_label(file, key, sample))))
            except ValueError as error:
                listing.reject(self.show(name, row), str(error))
        if members.damage:
            listing.reject(shown(os.fsencode(path)), f"{members.damage}; the rest was left out")

    def inspect(self, name: bytes, row: SampleRow) -> SampleRow:
        """Look at an image between its neighbours in the shard."""
        shard, size, time_ns = self._shards[row.file]
        with open_regular(str(self.root / shard)) as file:
            status = os.fstat(file.fileno())
            if (status.st_size, status.st_mtime_ns) != (size, time_ns):
                raise ValueError("its shard was changed while it was scanned")
            head = inspect(file, row.place, row.size, self.options.check)
        return row._replace(
            width=head.width, height=head.height, kind=head.kind, orientation=head.orientation
        )

    def show(self, name: bytes, row: SampleRow) -> str:
        """Shard and member."""
        shard = os.fsencode(self._shards[row.file][0])
        return f"{shown(join(self.root, shard))}:{shown(name)}"


def tar_files(uri: Path) -> list[Path]:
    """The shards at a place."""
    if not uri.is_dir():
        return [uri]
    names = sorted(name for name in os.listdir(uri) if not name.startswith("."))
    return [uri / name for name in names if name.lower().endswith(".tar")]


@dataclass(frozen=True)
class _Part:
    """A member, and what its name says: the sample it belongs to, and what it is of it."""

    key: str
    ending: str
    member: Member

    @classmethod
    def of(cls, member: Member) -> "_Part":
        folder, _, last = member.name.removeprefix("./").rpartition("/")
        stem, _, ending = last.partition(".")
        return cls(f"{folder}/{stem}" if folder else stem, ending.lower(), member)


def _image(sample: dict[str, _Part]) -> _Part | None:
    """The image itself rather than one with a longer ending, such as a mask."""
    images = [part for ending, part in sample.items() if _is_image(ending) and _visible(part)]
    return min(images, key=lambda part: (part.ending.count("."), part.member.start), default=None)


def _is_image(ending: str) -> bool:
    return f".{ending.rpartition('.')[2]}" in IMAGE_SUFFIXES


def _visible(part: _Part) -> bool:
    return bool(part.key.rpartition("/")[2])


def _label(file: BinaryIO, key: str, sample: dict[str, _Part]) -> object:
    """What a sample's members say of its class; else the folder it lies in."""
    if "cls" in sample:
        return _content(file, sample["cls"])
    if "json" in sample:
        try:
            said = json.loads(_content(file, sample["json"]))
        except (ValueError, RecursionError) as error:
            raise ValueError("its .json is not JSON") from error
        for name in ("label", "cls"):
            if isinstance(said, dict) and name in said:
                return said[name]
    folder = key.rpartition("/")[0]
    if not folder:
        raise ValueError("it has no label: no .cls, no label in .json, and no folder")
    return folder


def _content(file: BinaryIO, part: _Part) -> str:
    if part.member.size > _MAX_LABEL:
        raise ValueError(f"its .{part.ending} is too long for a label")
    return read_at(file, part.member.start, part.member.size).decode("utf-8", "surrogateescape")
