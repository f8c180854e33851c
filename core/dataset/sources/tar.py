"""Tar shards in WebDataset's layout, read in place.

Members that follow each other and share a key, which is the name up to the first dot of its last
part, make up one sample: an image, and what is known of it.
"""

import functools
import itertools
import json
import os
import re
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from ddlp.core.dataset.check import inspect, reason_of
from ddlp.core.dataset.files import (
    IMAGE_SUFFIXES,
    Fence,
    open_regular,
    read_at,
    shown,
)
from ddlp.core.dataset.labels import LabelBook
from ddlp.core.dataset.layout import SampleRow
from ddlp.core.dataset.progress import ScanOptions
from ddlp.core.dataset.sources.base import Classes, EncodedSource, Listing, counted, join, named
from ddlp.core.dataset.sources.splits import is_split
from ddlp.core.dataset.tar_members import Member, TarMembers
from ddlp.core.errors import InvalidInput
from ddlp.core.patience import system_call

COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst")
_MAX_LABEL = 1 << 20
_MOST_KEYS = 1000
_FIRST_WORD = re.compile(r"[^A-Za-z]")


class TarSource(EncodedSource):
    """A tar file, or all of a folder by name; samples keep the order they have in them."""

    kind = "tar"

    def __init__(self, uri: Path, options: ScanOptions) -> None:
        super().__init__(uri, options)
        self._fence = Fence(self.root, options.allowed)
        self._shards: list[tuple[str, int, int]] = []
        self._others: Counter[str] = Counter()
        """Members that are no part of a sample, by their endings."""
        self._keys: dict[str, None] = {}
        """What .json members hold besides the label."""

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
        book = LabelBook(as_classes=self.options.as_classes)
        self._check_splits()
        for path in tar_files(self.uri):
            self._fence.check(str(path))
            try:
                file = self.patience.call("open", path, partial(open_regular, str(path)))
                with file, system_call("read", path):
                    self._list_shard(path, file, listing, book)
            except (OSError, ValueError) as error:
                listing.reject(shown(os.fsencode(path)), reason_of(error))
        if self._others:
            listing.note(f"Members that are ignored, by their endings: {counted(self._others)}.")
        if self._keys:
            listing.note(f"Entries of .json members that are ignored: {named([*self._keys])}.")
        return book.settle()

    def _check_splits(self) -> None:
        """Refuse shards of several splits in one folder."""
        found = {_FIRST_WORD.split(path.name)[0].lower() for path in tar_files(self.uri)}
        if len(found) > 1 and all(map(is_split, found)) and not self.options.as_classes:
            raise InvalidInput(
                f"{self.uri} holds the shards of several splits ({', '.join(sorted(found))}); put "
                "each split into a folder of its own, or take all of them as one dataset with "
                "--as-classes (REST and DualLoader.local: as_classes)"
            )

    def _list_shard(self, path: Path, file: BinaryIO, listing: Listing, book: LabelBook) -> None:
        status = os.fstat(file.fileno())
        number = listing.writer.add_file(os.fsencode(path.name), status.st_size, status.st_mtime_ns)
        self._shards.append((path.name, status.st_size, status.st_mtime_ns))
        members = TarMembers(file, shown(os.fsencode(path)))
        parts = (_Part.of(member) for member in members)
        for key, group in itertools.groupby(parts, key=lambda part: part.key):
            sample = {part.ending: part for part in reversed(list(group))}
            image = _image(sample)
            label_member = next((ending for ending in ("cls", "json") if ending in sample), None)
            used = {label_member, None if image is None else image.ending}
            self._others.update(f".{ending}" for ending in sample.keys() - used)
            if image is None:
                if sample.keys() & {"cls", "json"}:
                    listing.reject(f"{path}:{key}", "it has a label but no image")
                continue
            name = image.member.name.encode("utf-8", "surrogateescape")
            row = SampleRow(image.member.size, 0, image.member.start, number)
            try:
                self._add(listing, name, row, _label(file, key, sample, self._keys), book)
            except ValueError as error:
                listing.reject(self.show(name, row), str(error))
        if members.damage:
            listing.reject(shown(os.fsencode(path)), f"{members.damage}; the rest was left out")

    def _add(
        self, listing: Listing, name: bytes, row: SampleRow, label: "_Label", book: LabelBook
    ) -> None:
        where = self.show(name, row)
        number = book.number(label.value, where, is_folder=label.is_folder)
        listing.add(name, row._replace(label=number))

    def inspect(self, name: bytes, row: SampleRow) -> SampleRow:
        """Look at an image between its neighbours in the shard."""
        shard, size, time_ns = self._shards[row.file]
        with open_regular(str(self.root / shard)) as file:
            status = os.fstat(file.fileno())
            if (status.st_size, status.st_mtime_ns) != (size, time_ns):
                raise ValueError("its shard was changed while it was scanned")
            head = inspect(file, row.place, row.size, self.options.check)
        return self.completed(row, head)

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


@dataclass(frozen=True)
class _Label:
    value: object
    is_folder: bool = False


def _label(file: BinaryIO, key: str, sample: dict[str, _Part], ignored: dict[str, None]) -> _Label:
    """What a sample's members say of its class; else the folder it lies in."""
    if "cls" in sample:
        return _Label(_content(file, sample["cls"]))
    if "json" in sample:
        try:
            said = json.loads(_content(file, sample["json"]))
        except (ValueError, RecursionError) as error:
            raise ValueError("its .json is not JSON") from error
        for name in ("label", "cls"):
            if isinstance(said, dict) and name in said:
                if len(ignored) < _MOST_KEYS:
                    ignored.update(dict.fromkeys(sorted(said.keys() - {name})))
                return _Label(said[name])
    folder = key.rpartition("/")[0]
    if not folder:
        raise ValueError("it has no label: no .cls, no label in .json, and no folder")
    return _Label(folder, is_folder=True)


def _content(file: BinaryIO, part: _Part) -> str:
    if part.member.size > _MAX_LABEL:
        raise ValueError(f"its .{part.ending} is too long for a label")
    return read_at(file, part.member.start, part.member.size).decode("utf-8", "surrogateescape")
