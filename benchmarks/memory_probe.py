"""One process whose memory is measured: `python -m benchmarks.memory_probe WHAT PATH …`.

engine INDEX IMAGES BATCH   batch after batch; how much is resident on the way
crop INDEX EPOCH            one crop of sample 1, after sample 0 has warmed everything up
whole FILE                  the same file decoded whole by Pillow
"""

import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from ddlp.core.dataset import DatasetIndex
from ddlp.core.pipeline import Engine, Pipeline
from ddlp.core.plan import RunPlan

SHARES = (0.1, 0.5, 1.0)
_SEED = 1


def main() -> None:
    what, path, *numbers = sys.argv[1:]
    probes: dict[str, Callable[..., object]] = {"engine": _engine, "crop": _crop, "whole": _whole}
    print(json.dumps(probes[what](Path(path), *map(int, numbers))))


def _engine(index_path: Path, images: int, batch: int) -> dict[str, float]:
    """Megabytes resident before, after some of the images, and at the worst moment."""
    index, pipeline = DatasetIndex(index_path), Pipeline.preset("imagenet-train")
    engine = Engine(index, pipeline, _SEED)
    plan = RunPlan(index.samples, batch, epochs=1, seed=_SEED)
    out = np.empty((batch, *pipeline.shape), dtype=pipeline.dtype)
    found = {"before": resident_mb("VmRSS")}
    batches = -(-images // batch)
    marks = {max(1, round(share * batches)): share for share in SHARES}
    for number in range(batches):
        epoch, place = divmod(number, plan.batches)
        samples = plan.batch_samples(epoch, place)
        engine.fill(epoch, samples, out[: len(samples)])
        if number + 1 in marks:
            found[f"after {marks[number + 1]:.0%}"] = resident_mb("VmRSS")
    return {**found, "peak": resident_mb("VmHWM")}


def _crop(index_path: Path, epoch: int) -> float:
    """Megabytes that one crop of a large image adds at its worst moment."""
    index, pipeline = DatasetIndex(index_path), Pipeline.preset("imagenet-train")
    engine = Engine(index, pipeline, _SEED)
    out = np.empty((1, *pipeline.shape), dtype=pipeline.dtype)
    engine.fill(0, np.asarray([0]), out)
    before = _start_peak()
    engine.fill(epoch, np.asarray([1]), out)
    return resident_mb("VmHWM") - before


def _whole(path: Path) -> float:
    """Megabytes that decoding an image adds at its worst moment."""
    Image.MAX_IMAGE_PIXELS = None
    Image.new("RGB", (64, 64)).resize((32, 32))
    before = _start_peak()
    with Image.open(path) as image:
        image.load()
    return resident_mb("VmHWM") - before


def _start_peak() -> float:
    """Forget the highest mark so far; what is resident now."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    return resident_mb("VmRSS")


def resident_mb(field: str) -> float:
    """VmRSS: what is resident now; VmHWM: the most that ever was."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise LookupError(field)


if __name__ == "__main__":
    main()
