"""The images that benchmarks use: real photographs where they lie at hand, else drawn."""

import os
import shutil
from pathlib import Path

from ddlp.cli.demo_data import make_dataset

_REAL = Path(__file__).parent.parent.parent / "shared" / "data" / "photos"


def dataset(folder: Path, images: int) -> tuple[Path, str]:
    """A folder of images, one subfolder a class, and a word on what they are."""
    root = folder / "photos"
    found = sorted(_REAL.rglob("*")) if _REAL.is_dir() else []
    real = [path for path in found if path.suffix.lower() in (".jpg", ".jpeg")]
    if not real:
        return make_dataset(root, images), f"{images} drawn JPEGs of 96-320 pixels a side"
    for number in range(images):
        source = real[number % len(real)]
        target = root / ("even", "odd")[number % 2] / f"{number:05d}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target)
        except OSError:
            shutil.copy(source, target)
    return root, f"{images} real JPEG photographs ({len(real)} different ones)"
