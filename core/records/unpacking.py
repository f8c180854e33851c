"""Makes image files of a packed dataset again, one folder a class."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ddlp.core.dataset import DatasetIndex
from ddlp.core.dataset.encoded import image_file
from ddlp.core.dataset.files import open_regular, read_at, shown
from ddlp.core.dataset.index import PACKED
from ddlp.core.dataset.layout import RECORD, SampleRow
from ddlp.core.dataset.shards import Foot, checksum
from ddlp.core.dataset.sources.packed import find_shards, sound_shard
from ddlp.core.errors import BadSample, InvalidInput
from ddlp.core.patience import Patience
from ddlp.core.records.progress import Pace, PackProgress, Report, Stop, ignore, never

_NOWHERE = frozenset({"", ".", ".."})


@dataclass(frozen=True)
class UnpackSummary:
    """What came of it."""

    files: int
    bytes: int
    left_out: tuple[tuple[str, str], ...]
    """Samples of which there is no file, and why."""


def unpack(
    packed: Path | DatasetIndex, into: Path, report: Report = ignore, stop: Stop = never
) -> UnpackSummary:
    """Write every sample to CLASS/NAME below a folder that is empty or not there.

    Records become JPEGs of the same pixels, all other samples what they were. `report` and `stop`
    are as for packing.
    """
    folder = _folder(packed)
    if into.exists() and any(into.iterdir()):
        raise InvalidInput(f"{into} is not empty; choose a folder that is")
    pace = Pace(report, stop, f"unpacking into {into} was stopped; some of its files are missing")
    left_out = []
    for path in find_shards(folder):
        foot, _ = sound_shard(path)
        for place, data in _stored(path, foot):
            name = shown(foot.name(place))
            try:
                nbytes = _write(foot, place, data, into)
                pace.add(PackProgress(1, origin_bytes=len(data), bytes=nbytes, current=name))
            except BadSample as error:
                left_out.append((name, str(error)))
                pace.add(PackProgress(1, skipped=1, origin_bytes=len(data), current=name))
        pace.add(PackProgress(shards=1))
    pace.end()
    return UnpackSummary(pace.now.samples - pace.now.skipped, pace.now.bytes, tuple(left_out))


def _folder(packed: Path | DatasetIndex) -> Path:
    if isinstance(packed, Path):
        return packed
    if packed.kind != PACKED:
        raise InvalidInput(f"{packed.root} is a dataset of kind {packed.kind}: it is not packed")
    return packed.root


def _stored(path: Path, foot: Foot) -> Iterator[tuple[int, bytes]]:
    patience = Patience()
    with patience.call("open", path, partial(open_regular, str(path))) as file:
        for place, row in enumerate(foot.rows):
            read = partial(read_at, file, int(row["place"]), int(row["size"]))
            yield place, patience.call("read", path, read)


def _write(foot: Foot, place: int, data: bytes, into: Path) -> int:
    """Write the file of one sample; gives its size."""
    if not data:
        raise BadSample("it could not be read when it was packed")
    if checksum(data) != int(foot.checksums[place]):
        raise BadSample("its bytes are damaged")
    _, *values = RECORD.unpack(foot.rows[place].tobytes())
    row = SampleRow(*values)
    made = image_file(row, data)
    sample = foot.part.first + place
    target = into.joinpath(*_parts(foot.origin.classes[row.label], foot.name(place), sample))
    try:
        Patience().call("write", target, partial(_create, target, sample, made))
    except OSError as error:
        raise InvalidInput(
            f"{target} cannot be written ({error.strerror}); empty {into}, make room if need be, "
            "then begin again"
        ) from error
    return len(made)


def _create(target: Path, sample: int, data: bytes) -> None:
    """Write a new file; where there is one of another sample, under a name with the number."""
    parent = target.parent
    while parent.is_file():  # of another sample, whose name is the beginning of this one's
        parent = parent.with_name(f"{parent.name}~{sample}")
    parent.mkdir(parents=True, exist_ok=True)
    target = parent / target.name
    if target.exists():
        target = target.with_name(f"{target.stem}~{sample}{target.suffix}")
    try:
        with target.open("xb") as file:
            file.write(data)
    except OSError:
        target.unlink(missing_ok=True)
        raise


def _parts(label: str, name: bytes, sample: int) -> list[str]:
    """Folder and file of a sample; a name that led elsewhere leads nowhere else than here."""
    above = _steps(label) or ["_"]
    steps = _steps(os.fsdecode(name)) or [str(sample)]
    return steps if steps[:-1][: len(above)] == above else above + steps


def _steps(path: str) -> list[str]:
    return [step for step in path.replace("\0", "_").split("/") if step not in _NOWHERE]
