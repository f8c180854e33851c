"""How much memory does a worker need, after many images and for one very large one?

    python -m benchmarks worker_memory

A process makes batches of 64 out of 100,000 images, and says how much is resident on the way: what
grows between 10 % and 100 % is lost. Another one makes a single crop of a JPEG of 100 megapixels;
beside it, Pillow decodes that file whole.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks import photos
from benchmarks.report import Report, Reports, interleave
from ddlp.core.dataset import scan

_BATCH = 64
_TILE = 1024


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    images: int = 100_000
    large: tuple[int, int] = (12_288, 8_192)
    crops: int = 7
    real: bool = True


QUICK = Scale(images=1280, large=(3072, 2048), crops=2)


def measure(quick: bool) -> Reports:
    """Megabytes."""
    return measure_at(QUICK if quick else Scale())


def measure_at(scale: Scale) -> Reports:
    """Both questions."""
    with tempfile.TemporaryDirectory() as scratch:
        return Reports([_many(Path(scratch), scale), _large(Path(scratch), scale)])


def _many(folder: Path, scale: Scale) -> Report:
    found = photos.arrange(folder, min(scale.images, 1024), scale.real)
    index = folder / "many.index"
    scan(found.root, index)
    resident = _probe("engine", index, scale.images, _BATCH)
    return Report(
        question=f"How much is resident while {scale.images:,} images are made? (batch {_BATCH})",
        data=f"{found.about}, again and again",
        unit="MB",
        baseline="after 10%",
        rounds={moment: [megabytes] for moment, megabytes in resident.items()},
        notes=[f"the batch itself has {_BATCH * 224 * 224 * 3 / 1e6:.1f} MB (uint8)"],
    )


def _large(folder: Path, scale: Scale) -> Report:
    width, height = scale.large
    root = folder / "large"
    small_file, large_file = root / "a" / "small.jpg", root / "b" / "large.jpg"
    _draw(small_file, (320, 240))
    _draw(large_file, scale.large)
    index = folder / "large.index"
    scan(root, index)
    epochs = iter(range(scale.crops))
    report = Report(
        question="How much does one crop of a large JPEG add at its worst moment?",
        data=f"a drawn JPEG of {width} × {height} pixels, baseline 4:2:0, "
        f"{large_file.stat().st_size / 1e6:.1f} MB",
        unit="MB",
        baseline="Pillow, decoded whole",
        notes=[
            "a fresh process each time; crops as imagenet-train draws them, one an epoch",
            f"its pixels alone have {width * height * 3 / 1e6:.0f} MB",
        ],
    )
    ways = {
        "Pillow, decoded whole": lambda: float(_probe("whole", large_file)),
        "one crop by the engine": lambda: float(_probe("crop", index, next(epochs))),
    }
    interleave(report, ways, scale.crops)
    worst = max(report.rounds["one crop by the engine"])
    report.notes.append(f"the worst of {scale.crops} crops added {worst:.1f} MB")
    return report


def _probe(what: str, path: Path, *numbers: int) -> Any:
    command = [sys.executable, "-m", "benchmarks.memory_probe", what, str(path)]
    done = subprocess.run(
        [*command, *map(str, numbers)],
        cwd=Path(__file__).parent.parent,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def _draw(path: Path, size: tuple[int, int]) -> None:
    """Soft colours with a little grain, as a camera gives them."""
    chance = np.random.default_rng(1)
    soft = Image.fromarray(chance.integers(0, 256, (16, 16, 3), dtype=np.uint8))
    tile = np.asarray(soft.resize((_TILE, _TILE), Image.Resampling.BICUBIC)).astype(np.int16)
    tile = np.clip(tile + chance.normal(0, 3, tile.shape), 0, 255).astype(np.uint8)
    width, height = size
    times = (-(-height // _TILE), -(-width // _TILE), 1)
    pixels = np.ascontiguousarray(np.tile(tile, times)[:height, :width])
    path.parent.mkdir(parents=True)
    Image.fromarray(pixels).save(path, quality=90, subsampling="4:2:0", progressive=False)
