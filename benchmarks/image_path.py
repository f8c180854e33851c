"""How fast do images become batches on the CPU, beside other loaders?

    python -m benchmarks image_path        the peers must be there: scripts/peers

Encoded files in the page cache (small pictures: pixels in memory) become batches of float32, scaled
by mean and standard deviation; one line is our uint8, normalised later. Every contestant runs in a
process of its own on one core, then on two, and works while all others stand still, round after
round. A ratio compares two of the same round.
"""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import photos, small_pictures
from benchmarks.contest import Entry, open_lines, run_rounds, scaling
from benchmarks.report import Report, Reports
from benchmarks.task import CIFAR_TRAIN, IMAGENET_TRAIN, IMAGENET_VAL, Outcome, Task

REFERENCE = Entry("DataLoader + torchvision + PIL", "reference", "pil")
OURS = (
    Entry("DDLP, float32", "ddlp", "early", splits=True),
    Entry("DDLP, uint8", "ddlp", "late", splits=True),
)
_TENSORS = Entry("DataLoader + torchvision v2 on tensors", "reference", "tensors")
_DALI = Entry("DALI, antialiased", "dali", "antialias", in_peers=True)
_DALI_PLAIN = Entry("DALI, not antialiased", "dali", "plain", in_peers=True)
_FFCV = Entry("FFCV, JPEG mode", "ffcv", in_peers=True)
_PHOTO_PEERS = (_TENSORS, _DALI, _DALI_PLAIN, _FFCV)
_SMALL_PEERS = (
    _TENSORS,
    Entry("batched PyTorch", "batched_torch"),
    Entry("DALI", "dali", in_peers=True),
    Entry("FFCV, raw mode", "ffcv", in_peers=True),
)


@dataclass(frozen=True)
class Job:
    """What everybody is asked to do."""

    name: str
    what: str
    batch: int
    peers: tuple[Entry, ...]


JOBS = (
    Job(IMAGENET_TRAIN, "A, ImageNet train: random resized crop 224, flip", 64, _PHOTO_PEERS),
    Job(IMAGENET_VAL, "B, ImageNet val: resize 256, centre crop 224", 64, _PHOTO_PEERS),
    Job(CIFAR_TRAIN, "C, CIFAR-10 train: pad 4, random crop 32, flip", 512, _SMALL_PEERS),
)


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    photos: int = 2048
    small_pictures: int = 51_200
    rounds: int = 7
    least_s: float = 1.0
    """How long a round is at least; it is made of whole passes."""
    real: bool = True
    peers: bool = True
    two_cores: bool = True


QUICK = Scale(photos=256, small_pictures=5120, rounds=1)
"""A smoke test: loaders that set up memory for every pass, as FFCV does, look slow at this size."""


def measure(quick: bool) -> Reports:
    """Images a second."""
    return measure_at(QUICK if quick else Scale())


def measure_at(scale: Scale, jobs: tuple[Job, ...] = JOBS) -> Reports:
    """All jobs, one after the other."""
    with tempfile.TemporaryDirectory() as scratch:
        data = _Data(Path(scratch), scale)
        return Reports([report for job in jobs for report in _measure(job, data, scale)])


class _Data:
    """The images of all jobs, laid out once."""

    def __init__(self, folder: Path, scale: Scale) -> None:
        self._folder = folder
        self._photos = photos.arrange(folder, scale.photos, scale.real)
        self._small = small_pictures.arrange(folder, scale.small_pictures, scale.real)
        self._scale = scale

    def about(self, job: Job) -> str:
        """A word on what the data are."""
        small = job.name == CIFAR_TRAIN
        return f"{self._small[1]}, in memory" if small else f"{self._photos.about}, page cache"

    def task(self, job: Job, cores: tuple[int, ...]) -> Task:
        """The job on so many cores; the contestant is not named yet."""
        small = job.name == CIFAR_TRAIN
        return Task(
            contestant="",
            variant="",
            job=job.name,
            data=str(self._small[0] if small else self._photos.root),
            images=self._scale.small_pictures if small else self._scale.photos,
            different=self._scale.small_pictures if small else self._photos.different,
            batch=job.batch,
            cores=cores,
            scratch=str(self._folder),
        )


def _measure(job: Job, data: _Data, scale: Scale) -> Iterator[Report]:
    """A report for one core and one for two, from the same rounds."""
    mine = sorted(os.sched_getaffinity(0))
    sets = [(mine[0],)] + ([(mine[0], mine[1])] if scale.two_cores and len(mine) > 1 else [])
    entries = (REFERENCE, *OURS, *(job.peers if scale.peers else ()))
    notes: list[str] = []
    tasks = [data.task(job, cores) for cores in sets]
    with open_lines(entries, tasks, scale.least_s, notes) as lines:
        about = {entry.name: line.about for (entry, _), line in lines.items()}
        rounds = run_rounds(lines, scale.rounds, notes)
    notes[:0] = [f"{name}: {version}" for name, version in about.items()]
    for number, cores in enumerate(sets):
        found = {entry: rounds[entry, cores] for entry in entries if (entry, cores) in rounds}
        one = {entry: rounds[entry, sets[0]] for entry in found if (entry, sets[0]) in rounds}
        report = _report(job, data, found, len(cores))
        report.notes = notes if number == 0 else []
        if number:
            report.beside["times one core"] = scaling(found, one)
        yield report


def _report(job: Job, data: _Data, found: dict[Entry, list[Outcome]], cores: int) -> Report:
    baseline = REFERENCE if REFERENCE in found else next(iter(found))
    return Report(
        question=f"{job.what}, normalise; batch {job.batch}; {_cores(cores)}",
        data=data.about(job),
        unit="images/s",
        baseline=baseline.name,
        rounds={
            entry.name: [outcome.images / outcome.wall_s for outcome in outcomes]
            for entry, outcomes in found.items()
        },
        beside={
            "CPU µs/image": {
                entry.name: [1e6 * outcome.cpu_s / outcome.images for outcome in outcomes]
                for entry, outcomes in found.items()
            }
        },
    )


def _cores(count: int) -> str:
    return "one core" if count == 1 else f"{count} cores"
