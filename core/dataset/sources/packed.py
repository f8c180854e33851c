"""A folder of packed shards: another dataset's samples in a form that decodes faster.

Packed without loss, it is the same dataset: the index has the version of the origin, and the same
samples, labels and names under the same numbers. Only the feet of the shards are read.
"""

import functools
import hashlib
import itertools
import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ddlp.core.dataset.check import reason_of
from ddlp.core.dataset.files import Fence, open_regular, read_at, shown
from ddlp.core.dataset.index import PACKED
from ddlp.core.dataset.parallel import in_order
from ddlp.core.dataset.progress import Progress, ScanOptions
from ddlp.core.dataset.shards import Foot, checksum, open_shard, parse_shard_name, shard_name
from ddlp.core.dataset.sources.base import Source
from ddlp.core.dataset.writer import IndexHead, IndexWriter
from ddlp.core.errors import InvalidInput
from ddlp.core.patience import Patience

_CHUNK = 32
_NAMED = 3
"""Missing shards that are named one by one."""
_AGAIN = "remove it and pack the dataset into this folder again: whole shards are kept"


class PackedSource(Source):
    """The shards of one packing, all of them."""

    kind = PACKED

    def __init__(self, uri: Path, options: ScanOptions) -> None:
        super().__init__(uri, options)
        self._fence = Fence(self.root, options.allowed)

    @functools.cached_property
    def root(self) -> Path:
        """The folder of the shards."""
        return self.uri if self.uri.is_dir() else self.uri.parent

    @property
    def expected(self) -> str:
        """Shards with samples in them."""
        return f"the shards in {self.root} hold no samples"

    def collect(self, writer: IndexWriter, progress: Progress) -> IndexHead:
        """Take the rows of every shard; one that does not belong to the others ends it."""
        checksums, skipped = hashlib.sha256(), 0
        first: Foot | None = None
        for path in find_shards(self.root):
            self._fence.check(str(path))
            foot, status = sound_shard(path)
            first = first or foot
            _check_belongs(path, foot, first, writer.samples.count)
            if self.options.check == "full":
                self._verify(path, foot, progress)
            number = writer.add_file(os.fsencode(path.name), status.st_size, status.st_mtime_ns)
            _take(foot, number, writer, progress, path)
            checksums.update(foot.checksums.tobytes())
            skipped += len(foot.skipped)
        assert first is not None
        if writer.samples.count != first.origin.samples:
            raise InvalidInput(
                f"the shards in {self.root} hold {writer.samples.count} samples, the dataset that "
                f"was packed has {first.origin.samples}; pack it again into an empty folder"
            )
        version = _version(first, skipped, checksums.hexdigest())
        classes, packing = first.origin.classes, first.options
        return IndexHead(self.kind, self.root, classes, version=version, packing=packing)

    def _verify(self, path: Path, foot: Foot, progress: Progress) -> None:
        """Compare the checksum of every sample."""
        with open_regular(str(path)) as file:

            def is_damaged(place: int) -> bool:
                row = foot.rows[place]
                data = read_at(file, int(row["place"]), int(row["size"]))
                return checksum(data) != int(foot.checksums[place])

            places = range(len(foot.rows))
            chunks = (list(places[at : at + _CHUNK]) for at in places[::_CHUNK])
            checked = in_order(is_damaged, chunks, self.options.threads, progress.poll)
            for number, chunk in enumerate(checked):
                if any(chunk):
                    name = shown(foot.name(number * _CHUNK + chunk.index(True)))
                    raise InvalidInput(f"{path}: the bytes of {name} are damaged; {_AGAIN}")


def find_shards(folder: Path) -> Iterator[Path]:
    """The shards in a folder in their order; all of one packing must be there, and no others."""
    try:
        names = Patience().call("list", folder, partial(os.listdir, folder))
        found = sorted(filter(None, map(parse_shard_name, names)))
    except OSError as error:
        raise InvalidInput(f"{folder} cannot be read ({error.strerror})") from error
    if not found:
        raise InvalidInput(f"{folder} holds no shards; expected files such as {shard_name(0, 1)}")
    counts = sorted({of for _, of in found})
    if len(counts) > 1:
        raise InvalidInput(
            f"{folder} holds shards of more than one packing, of {counts[0]} and of {counts[1]} "
            "shards; keep each in a folder of its own"
        )
    there, missing = {number for number, _ in found}, counts[0] - len(found)
    if missing:
        absent = (shard_name(n, counts[0]) for n in range(counts[0]) if n not in there)
        named = ", ".join(itertools.islice(absent, _NAMED)) + (", …" if missing > _NAMED else "")
        raise InvalidInput(
            f"{folder} is not packed to the end, it lacks {missing:,} of {counts[0]:,} shards "
            f"({named}); pack the dataset into this folder again: it goes on where it was"
        )
    return (folder / shard_name(*shard) for shard in found)


def sound_shard(path: Path) -> tuple[Foot, os.stat_result]:
    """The foot of a shard, and the state of its file; it must be whole."""
    try:
        return Patience().call("read", path, partial(open_shard, path))
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"{path} cannot be used as a shard: {reason_of(error)}; {_AGAIN}"
        ) from error


def _check_belongs(path: Path, foot: Foot, first: Foot, samples: int) -> None:
    part = foot.part
    if path.name != shard_name(part.number, part.of):
        raise InvalidInput(
            f"{path} was written as {shard_name(part.number, part.of)}; give it that name back"
        )
    if foot.origin != first.origin or foot.options != first.options or part.first != samples:
        raise InvalidInput(
            f"{path} does not belong to {shard_name(0, part.of)} beside it: it was packed from "
            "another dataset, or in another way; keep each packing in a folder of its own"
        )


def _take(foot: Foot, number: int, writer: IndexWriter, progress: Progress, path: Path) -> None:
    rows = foot.rows.copy()
    rows["file"], rows["time_ns"] = number, 0
    writer.samples.extend(rows, foot.names)
    size = int(rows["size"].sum())
    progress.add(found=len(rows), done=len(rows), size=size, current=shown(os.fsencode(path)))


def _version(foot: Foot, skipped: int, checksums: str) -> str:
    """The origin's; where samples were made smaller or are missing, one over what they are now."""
    lossy = foot.options.get("max_side") is not None or foot.options.get("quality") is not None
    if not lossy and not skipped:
        return foot.origin.version
    said = json.dumps([foot.origin.version, foot.options, checksums], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()
