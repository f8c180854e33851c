"""Packs a stretch of a dataset's samples into one shard, once: what is there is not made again."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ddlp.core.dataset import DatasetIndex
from ddlp.core.dataset.files import shown
from ddlp.core.dataset.index import PACKED
from ddlp.core.dataset.shards import Foot, Origin, Part, open_shard, shard_name
from ddlp.core.errors import InvalidInput
from ddlp.core.records.options import PackOptions
from ddlp.core.records.progress import Pace, PackProgress, Report, Stop, ignore, never
from ddlp.core.records.sample import pack_sample
from ddlp.core.records.shard import ShardWriter
from ddlp.core.records.unfinished import make_folder, whole_or_absent

PER_SHARD = 1024


@dataclass(frozen=True)
class ShardSummary:
    """What a shard holds."""

    number: int
    samples: int
    records: int
    skipped: int
    origin_bytes: int
    """Of its samples, as they were."""
    bytes: int
    """Of the file."""
    found: bool
    """Whether it was there already."""


def plan_shards(samples: int, per_shard: int = PER_SHARD) -> list[range]:
    """Which samples lie in which shard."""
    if samples < 1 or per_shard < 1:
        raise InvalidInput(f"{samples} samples cannot be packed {per_shard} to a shard")
    starts = range(0, samples, per_shard)
    return [range(start, min(start + per_shard, samples)) for start in starts]


def check_packable(index: DatasetIndex, options: PackOptions) -> None:
    """Refuse what cannot be packed, or gains nothing by it."""
    if index.pixels_shape is not None:
        raise InvalidInput(
            f"{index.root} holds raw pixels, which need no decoding; packing is for encoded images"
        )
    if index.kind == PACKED and not options.lossy:
        raise InvalidInput(f"{index.root} is packed already; use it as it is")


def pack_shard(
    index: DatasetIndex,
    plan: Sequence[range],
    number: int,
    options: PackOptions,
    into: Path,
    report: Report = ignore,
    stop: Stop = never,
) -> ShardSummary:
    """Write one shard of a plan into a folder, unless it is there; it appears whole or not at all.

    `report` and `stop` are called a few times a second; once `stop` answers yes, a Conflict is
    raised.
    """
    check_packable(index, options)
    path = into / shard_name(number, len(plan))
    samples = plan[number]
    part = Part(number, len(plan), samples.start, len(samples))
    there = _find(path, part, index, options)
    stopped = f"packing of {path} was stopped; whole shards are kept"
    foot = there or _write(path, part, index, options, Pace(report, stop, stopped))
    return ShardSummary(
        number,
        len(samples),
        foot.records,
        len(foot.skipped),
        int(index.sizes(np.arange(samples.start, samples.stop)).sum()),
        path.stat().st_size,
        there is not None,
    )


def _origin(index: DatasetIndex) -> Origin:
    return Origin(index.version, index.kind, index.samples, index.classes, index.total_bytes)


def _find(path: Path, part: Part, index: DatasetIndex, options: PackOptions) -> Foot | None:
    """The shard, if it is there and lacks nothing; another's is not touched."""
    foot = _sound(path)
    if foot is None:
        return None
    if (foot.part, foot.origin, foot.options) == (part, _origin(index), options.as_stored()):
        return None if foot.skipped else foot
    raise InvalidInput(
        f"{path} is a shard of another dataset, or was packed in another way; choose an empty "
        "folder, or remove it"
    )


def _sound(path: Path) -> Foot | None:
    """The foot of a shard that is whole; one that is damaged counts for nothing."""
    try:
        return open_shard(path)[0]
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def _write(path: Path, part: Part, index: DatasetIndex, options: PackOptions, pace: Pace) -> Foot:
    make_folder(path.parent)
    made: list[Foot] = []

    def is_there() -> bool:
        there = _sound(path)
        return there is not None and there.same_as(made[0])

    with whole_or_absent(path, is_there) as file:
        shard = ShardWriter(file)
        for sample in range(part.first, part.first + part.samples):
            row, name = index.row(sample)
            pace.add(PackProgress(current=shown(name)))
            packed = pack_sample(index, sample, options)
            shard.add(name, packed.row, packed.data)
            if packed.skipped is not None:
                shard.skip(sample, shown(name), packed.skipped)
            pace.add(
                PackProgress(
                    samples=1,
                    records=int(packed.is_record),
                    skipped=int(packed.skipped is not None),
                    origin_bytes=row.size,
                    bytes=len(packed.data),
                )
            )
        made.append(shard.finish(part, _origin(index), options.as_stored()))
    return made[0]
