"""Pictures of CIFAR-10 in memory: real ones where they lie at hand, else noise."""

from pathlib import Path

import numpy as np

_REAL = Path(__file__).parent.parent.parent / "shared" / "data" / "cifar10-5k.npz"


def arrange(folder: Path, images: int, real: bool = True) -> tuple[Path, str]:
    """An uncompressed .npz of `x` (uint8 N × 32 × 32 × 3) and `y`, and a word on what it holds."""
    if real and _REAL.exists():
        with np.load(_REAL) as arrays:
            pixels, labels = arrays["x"], arrays["y"]
        what = f"{images} pictures of CIFAR-10 ({min(images, len(pixels))} different ones)"
    else:
        chance = np.random.default_rng(1)
        pixels = chance.integers(0, 256, (min(images, 5000), 32, 32, 3), dtype=np.uint8)
        labels = chance.integers(0, 10, len(pixels))
        what = f"{images} pictures of 32 × 32 pixels of noise"
    places = np.arange(images) % len(pixels)
    path = folder / "small-pictures.npz"
    np.savez(path, x=pixels[places], y=labels[places])
    return path, what
