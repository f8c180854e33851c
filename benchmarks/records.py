"""What do packed records gain, and what do they cost?

    python -m benchmarks records        the peers must be there: scripts/peers

The images are packed first, which is timed. Then the same jobs are done from JPEG files and from
records, beside other loaders: from memory, from the page cache and from a cold disk; with each
variant of the kernel; over JPEGs of low quality; and from other forms of storage. records_loader
measures the way through the loader. Who takes part and how rounds go is as in image_path. No image
is a link to another.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image

from benchmarks import photos, storage_forms
from benchmarks.contest import Entry, open_lines, run_rounds, scaling
from benchmarks.packed_photos import PACKED, index_of, pack, size_of
from benchmarks.photos import Photos
from benchmarks.report import Report, Reports
from benchmarks.task import IMAGENET_TRAIN, IMAGENET_VAL, Outcome, Task
from ddlp.core.dataset import DatasetIndex
from ddlp.core.image import _fused
from ddlp.core.owned_folder import shared_memory
from ddlp.core.records import PackOptions, pack_shard, plan_shards

JOBS = {IMAGENET_TRAIN: "A, ImageNet train", IMAGENET_VAL: "B, ImageNet val"}


def ours(what: str, ending: str = "", variant: str = "early") -> Entry:
    """The engine on a form of the images."""
    return Entry(f"DDLP, {what}", "ddlp", variant, splits=True, ending=ending)


FILES, RECORDS = ours("JPEG files, float32"), ours("records, float32", PACKED)
FILES_8, RECORDS_8 = ours("JPEG files, uint8", "", "late"), ours("records, uint8", PACKED, "late")
LOADER_FILES = Entry("DualLoader, JPEG files, uint8", "ddlp_loader")
LOADER_RECORDS = Entry("DualLoader, records, uint8", "ddlp_loader", ending=PACKED)
REFERENCE = Entry("DataLoader + torchvision + PIL", "reference", "pil")
DALI = Entry("DALI, antialiased", "dali", "antialias", in_peers=True)
FFCV = Entry("FFCV, JPEG mode", "ffcv", in_peers=True)
PEERS = (REFERENCE, DALI, FFCV)


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    photos: int = 1024
    batch: int = 64
    rounds: int = 7
    least_s: float = 1.0
    real: bool = True
    peers: bool = True
    two_cores: bool = True


QUICK = Scale(photos=256, rounds=1, least_s=0.2)


def measure(quick: bool) -> Reports:
    """Images a second."""
    return measure_at(QUICK if quick else Scale())


def measure_loader(quick: bool) -> Reports:
    """The way through the loader, at two sizes of batches."""
    return measure_loader_at(QUICK if quick else Scale(), (64, 256))


def measure_loader_at(scale: Scale, batches: tuple[int, ...]) -> Reports:
    """The engine on files beside the loader on files and on records."""
    with tempfile.TemporaryDirectory() as folder:
        data = Data(Path(folder), scale)
        entries = (FILES_8, LOADER_FILES, LOADER_RECORDS)
        sized = (Data(Path(folder), replace(scale, batch=batch), data.photos) for batch in batches)
        return Reports([contest(each, "through the loader", entries) for each in sized])


def measure_at(scale: Scale) -> Reports:
    """Everything, one after the other."""
    with (
        tempfile.TemporaryDirectory() as disk,
        tempfile.TemporaryDirectory(dir=shared_memory()) as memory,
    ):
        on_disk, in_memory = (Data(Path(place), scale) for place in (disk, memory))
        parts = [on_disk.packing()]
        for job in JOBS:
            parts += _cores(on_disk, job)
        parts += [
            contest(in_memory, "in memory", (FILES, RECORDS)),
            contest(on_disk, "on a cold disk", (FILES, RECORDS), cold=True),
            *_variants(on_disk),
            _low_quality(on_disk),
            storage_forms.measure(on_disk.task(IMAGENET_TRAIN), scale.rounds, scale.least_s),
        ]
        return Reports(parts)


class Data:
    """The images in all their forms, below one folder."""

    def __init__(self, folder: Path, scale: Scale, shown: Photos | None = None) -> None:
        self.folder, self.scale = folder, scale
        self.photos = shown or photos.arrange(folder, scale.photos, scale.real, copies=True)
        self.packed = pack(self.photos.root)

    @property
    def growth(self) -> float:
        """Bytes of the shards for each byte of the JPEGs."""
        return size_of(self.packed) / size_of(self.photos.root)

    def packing(self) -> Report:
        """How fast one core packs, in rounds of a shard, everything checked and on disk."""
        index = DatasetIndex(index_of(self.photos.root))
        plan = plan_shards(index.samples, min(index.samples, 1024))
        report = Report("Packing, one core", self.photos.about, "images/s", "packing")
        report.rounds["packing"] = []
        for _ in range(self.scale.rounds):
            into = self.folder / "packed-again"
            started = time.process_time()
            pack_shard(index, plan, 0, PackOptions(), into)
            report.rounds["packing"].append(len(plan[0]) / (time.process_time() - started))
            shutil.rmtree(into)
        report.notes.append(f"shards take {self.growth:.3f} times the bytes of the JPEGs")
        report.notes.append(f"goal 300 images/s a core: {report.medians()['packing']:.0f}")
        return report

    def task(self, job: str, cores: tuple[int, ...] | None = None) -> Task:
        """A job on one core, or on others."""
        return Task(
            contestant="",
            variant="",
            job=job,
            data=str(self.photos.root),
            images=self.scale.photos,
            different=self.photos.different,
            batch=self.scale.batch,
            cores=cores or (min(os.sched_getaffinity(0)),),
            scratch=str(self.folder),
        )

    def evict(self) -> None:
        """Have the system forget what it holds of the files."""
        os.sync()
        for path in self.folder.rglob("*"):
            if path.suffix in (".jpg", ".ddlp"):
                with path.open("rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


Found = dict[Entry, list[Outcome]]


def _run(
    data: Data, tasks: list[Task], entries: tuple[Entry, ...], notes: list[str], cold: bool
) -> dict[tuple[int, ...], Found]:
    """Rounds of all entries, by cores."""
    scale = data.scale
    with open_lines(entries, tasks, 0 if cold else scale.least_s, notes) as lines:
        notes[:0] = list(dict.fromkeys(f"{e.name}: {line.about}" for (e, _), line in lines.items()))
        rounds = run_rounds(lines, scale.rounds, notes, data.evict if cold else None)
    found: dict[tuple[int, ...], Found] = {task.cores: {} for task in tasks}
    for (entry, cores), outcomes in rounds.items():
        found[cores][entry] = outcomes
    return found


def _report(data: Data, question: str, found: Found, notes: list[str]) -> Report:
    return Report(
        f"{question}; batch {data.scale.batch}",
        data.photos.about,
        "images/s",
        (FILES if FILES in found else next(iter(found))).name,
        {e.name: [o.images / o.wall_s for o in outcomes] for e, outcomes in found.items()},
        notes,
        {
            "CPU µs/image": {
                entry.name: [1e6 * outcome.cpu_s / outcome.images for outcome in outcomes]
                for entry, outcomes in found.items()
            }
        },
    )


def _cores(data: Data, job: str) -> Iterator[Report]:
    """Everybody on one core, and on two."""
    mine = sorted(os.sched_getaffinity(0))
    sets = [(mine[0],)] + ([(mine[0], mine[1])] if data.scale.two_cores and len(mine) > 1 else [])
    entries = (FILES, RECORDS, FILES_8, RECORDS_8, *(PEERS if data.scale.peers else ()))
    notes: list[str] = []
    found = _run(data, [data.task(job, cores) for cores in sets], entries, notes, cold=False)
    for cores in sets:
        count = "one core" if len(cores) == 1 else f"{len(cores)} cores"
        report = _report(data, f"{JOBS[job]}; {count}; warm cache", found[cores], [])
        if len(cores) == 1:
            goals = {FILES.name: 3.5, REFERENCE.name: 9, FFCV.name: 5, DALI.name: 6}
            goals = goals if job == IMAGENET_TRAIN else {FILES.name: 3}
            report.notes = [*notes, *against(report, RECORDS.name, goals)]
        else:
            one = found[sets[0]]
            both = {entry: outcomes for entry, outcomes in found[cores].items() if entry in one}
            report.beside["times one core"] = scaling(both, {entry: one[entry] for entry in both})
        yield report


def against(report: Report, name: str, goals: dict[str, float]) -> list[str]:
    """A line for each other way: how many times faster one is in the same rounds."""
    lines = []
    for other, goal in goals.items():
        if other in report.rounds:
            ratio = replace(report, baseline=other).ratios()[name]
            lines.append(f"{name} ÷ {other}: {ratio:.2f} (goal {goal:g})")
    return lines


def contest(
    data: Data, where: str, entries: tuple[Entry, ...], cold: bool = False, goal: float = 3.5
) -> Report:
    """Job A on one core: how many times faster the last entry is than the first."""
    notes: list[str] = []
    task = data.task(IMAGENET_TRAIN)
    found = _run(data, [task], entries, notes, cold)[task.cores]
    report = _report(data, f"A, ImageNet train; one core; {where}", found, notes)
    report.notes += against(report, entries[-1].name, {entries[0].name: goal})
    return report


def _variants(data: Data) -> Iterator[Report]:
    """Each variant of the kernel that this processor can do, records beside JPEG files."""
    for name in _fused.variants():
        files = ours(f"JPEG files, uint8, {name}", "", f"late/{name}")
        records = ours(f"records, uint8, {name}", PACKED, f"late/{name}")
        yield contest(data, f"kernel {name}", (FILES_8, files, records), goal=2)


def _low_quality(data: Data) -> Report:
    """The same pictures with a quality of 60 and half the chroma."""
    root = data.folder / "low"
    for path in sorted(Path(data.task(IMAGENET_TRAIN).data).glob("*/*.jpg")):
        target = root / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        with Image.open(path) as image:
            image.convert("RGB").save(target, quality=60, subsampling="4:2:0")
    about = f"{data.photos.about}, encoded anew"
    low = Data(data.folder, data.scale, replace(data.photos, root=root, about=about))
    report = contest(low, "JPEGs of quality 60, 4:2:0", (FILES_8, RECORDS_8), goal=2)
    report.notes.append(f"shards take {low.growth:.3f} times the bytes of these JPEGs")
    return report
