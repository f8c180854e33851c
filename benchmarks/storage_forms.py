"""What other forms of storage cost and give: size, speed, and how far their pixels are off."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from benchmarks.contest import Entry, open_lines, run_rounds
from benchmarks.packed_photos import index_of, pack, size_of
from benchmarks.peers import decoded
from benchmarks.report import Report
from benchmarks.task import Task
from ddlp.core.dataset import DatasetIndex, scan
from ddlp.core.image import Span, backend
from ddlp.core.records import PackOptions

SIDE, QUALITY = 400, 90
_SAMPLES = 50
_SHOWN = 224

FILES = Entry("JPEG files", "ddlp", "late", splits=True)
TAR = Entry("tar of the JPEGs", "ddlp", "late", splits=True, ending=".tar")
PACKED = Entry("packed records", "ddlp", "late", splits=True, ending="-packed")
SMALLER = Entry(
    f"packed records, longest side {SIDE}, quality {QUALITY}",
    "ddlp",
    "late",
    splits=True,
    ending="-smaller",
)
RAW = Entry("raw RGB", "decoded", "raw")
LZ4 = Entry("RGB, LZ4", "decoded", "lz4")
ZSTD = Entry("RGB, zstd level 1", "decoded", "zstd")
BETON = Entry("FFCV beton, JPEG, float32", "ffcv", in_peers=True)

Pixels = npt.NDArray[np.uint8]


def measure(task: Task, rounds: int, least_s: float) -> Report:
    """Job A on one core from each of them."""
    root = Path(task.data)
    with tarfile.open(f"{root}.tar", "w") as archive:
        for path in sorted(root.glob("*/*.jpg")):
            archive.add(path, f"{path.parent.name}/{path.name}")
    pack(root, "-smaller", PackOptions(max_side=SIDE, quality=QUALITY))
    entries = (FILES, TAR, PACKED, SMALLER, RAW, LZ4, ZSTD, BETON)
    report = Report("A, ImageNet train; one core; forms of storage", "", "images/s", FILES.name)
    report.data = f"{task.images} JPEGs ({task.different} different ones), warm cache, uint8 out"
    with open_lines(entries, [task], least_s, report.notes) as lines:
        found = run_rounds(lines, rounds, report.notes)
    report.rounds = {e.name: [o.images / o.wall_s for o in found[e, c]] for e, c in found}
    there = {entry for entry, _ in found}
    report.beside = {
        "size / JPEGs": {e.name: [_size(e, task)] for e in entries if e in there},
        "mean pixel error": {e.name: [_error(e, task)] for e in entries if e in there},
    }
    report.notes.append(
        "pixel error: mean absolute difference of levels (0 to 255), whole pictures"
    )
    return report


def _size(entry: Entry, task: Task) -> float:
    """Bytes for each byte of the JPEGs; forms that hold each different one once count it once."""
    root = Path(task.data)
    files = sorted(root.glob("*/*.jpg"), key=lambda file: file.name)
    different = sum(file.stat().st_size for file in files[: task.different])
    if entry.contestant == "ddlp":
        place = Path(f"{root}{entry.ending}")
        size = size_of(place) if place.is_dir() else place.stat().st_size
        return size / size_of(root)
    if entry.contestant == "decoded":
        return decoded.stored(entry.tasks(task)[0]).stat().st_size / different
    return (Path(task.scratch) / "photos.beton").stat().st_size / different


def _error(entry: Entry, task: Task) -> float:
    """Over whole pictures, reduced to the size of a batch's."""
    if entry not in (SMALLER, BETON):
        return 0.0
    root = Path(task.data)
    origin = DatasetIndex(index_of(root))
    pictures = [origin.read(sample) for sample in range(_SAMPLES)]
    if entry is SMALLER:
        scan(Path(f"{root}{entry.ending}"), root.with_name("smaller.index"))
        index = DatasetIndex(root.with_name("smaller.index"))
        others = [backend().record_jpeg(index.read(sample)) for sample in range(_SAMPLES)]
    else:
        quality, _ = json.loads((Path(task.scratch) / "photos.json").read_text())
        others = [_encoded_anew(data, quality) for data in pictures]
    pairs = zip(pictures, others, strict=True)
    return float(np.mean([np.abs(_shown(a) - _shown(b)).mean() for a, b in pairs]))


def _encoded_anew(data: bytes, quality: int) -> bytes:
    out = io.BytesIO()
    with Image.open(io.BytesIO(data)) as image:
        image.convert("RGB").save(out, "JPEG", quality=quality, subsampling="4:2:0")
    return out.getvalue()


def _shown(data: bytes) -> npt.NDArray[np.int16]:
    head = backend().walk(data)
    slot = np.empty((_SHOWN, _SHOWN, 3), np.uint8)
    across, down = (Span(0, n, 0, n, _SHOWN) for n in (head.width, head.height))
    backend().render_jpeg(data, (head.width, head.height), across, down, slot, None)
    return slot.astype(np.int16)
