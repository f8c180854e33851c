"""The images that benchmarks use: real photographs where they lie at hand, else drawn."""

import os
import shutil
import statistics
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from ddlp.core.demo_images import make_dataset

_REAL = Path(__file__).parent.parent.parent / "shared" / "data" / "photos"


@dataclass(frozen=True)
class Photos:
    """A folder of images, one subfolder a class; the same few may lie there again and again."""

    root: Path
    different: int
    about: str

    @property
    def files(self) -> list[Path]:
        """Each different image once."""
        return sorted(self.root.glob("*/*.jpg"), key=lambda path: path.name)[: self.different]


def dataset(folder: Path, images: int) -> tuple[Path, str]:
    """A folder of images, one subfolder a class, and a word on what they are."""
    photos = arrange(folder, images)
    return photos.root, photos.about


def arrange(folder: Path, images: int, real: bool = True, copies: bool = False) -> Photos:
    """Lay out so many images: real ones, repeated as often as needed, or drawn ones.

    Those that are repeated are the same file again, unless they are to be copies.
    """
    root = folder / "photos"
    found = sorted(_REAL.rglob("*")) if real and _REAL.is_dir() else []
    sources = [path for path in found if path.suffix.lower() in (".jpg", ".jpeg")]
    if not sources:
        return _described(make_dataset(root, images), images, images, "drawn JPEGs")
    for number in range(images):
        source = sources[number % len(sources)]
        target = root / ("even", "odd")[number % 2] / f"{number:06d}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            if copies:
                shutil.copyfile(source, target)
            else:
                os.link(source, target)
        except OSError:
            shutil.copy2(source, target)
    return _described(root, images, min(images, len(sources)), "real JPEG photographs")


def _described(root: Path, images: int, different: int, what: str) -> Photos:
    photos = Photos(root, different, "")
    sizes, kilobytes = [], []
    for path in photos.files:
        kilobytes.append(path.stat().st_size / 1000)
        with Image.open(path) as image:
            sizes.append(image.size)
    width, height = (statistics.median(side) for side in zip(*sizes, strict=True))
    about = (
        f"{images} {what} ({different} different ones; median {width:.0f} × {height:.0f} pixels, "
        f"{statistics.median(kilobytes):.0f} kB)"
    )
    return Photos(root, different, about)
