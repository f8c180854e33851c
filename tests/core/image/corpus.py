"""Makes JPEG files of every kind that occurs: subsampling, colour, coding, size."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

SOURCE = Path(__file__).with_name("encoder.c")
SIZES = [(1, 1), (2, 3), (7, 5), (8, 8), (16, 16), (17, 33), (31, 64), (97, 61), (160, 121)]
SAMPLINGS = {
    "4:4:4": "1x1,1x1,1x1",
    "4:2:2": "2x1,1x1,1x1",
    "4:2:0": "2x2,1x1,1x1",
    "4:4:0": "1x2,1x1,1x1",
    "4:1:1": "4x1,1x1,1x1",
    "4:1:0": "4x2,1x1,1x1",
    "odd": "2x2,1x2,2x1",
}


@dataclass(frozen=True)
class Kind:
    """One way to write a JPEG."""

    components: int
    stored: str
    sampling: str
    coding: str = "baseline"
    restart: int = 0

    def __str__(self) -> str:
        parts = [self.stored, self.sampling, self.coding, str(self.restart or "")]
        return "-".join(part for part in parts if part)


KINDS = [
    *(Kind(3, "ycc", sampling) for sampling in SAMPLINGS.values()),
    *(Kind(3, "ycc", sampling, "progressive") for sampling in SAMPLINGS.values()),
    Kind(3, "ycc", SAMPLINGS["4:2:0"], restart=3),
    Kind(3, "ycc", SAMPLINGS["4:2:2"], "progressive", restart=2),
    Kind(3, "rgb", SAMPLINGS["4:4:4"]),
    Kind(1, "grey", "1x1"),
    Kind(1, "grey", "2x2"),
    Kind(1, "grey", "1x1", "progressive"),
    Kind(4, "cmyk", "1x1,1x1,1x1,1x1"),
    Kind(4, "ycck", "1x1,1x1,1x1,1x1"),
    Kind(4, "ycck", "2x2,1x1,1x1,2x2"),
]


class Encoder:
    """Compiled once; encodes pixels as a kind says."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("there is no C compiler to build the test's encoder with")
        self._program = folder / "encoder"
        built = subprocess.run(
            [compiler, "-O1", "-o", self._program, SOURCE, "-ljpeg"], capture_output=True, text=True
        )
        if built.returncode:
            pytest.skip(f"the test's encoder cannot be built: {built.stderr[-200:]}")

    def encode(self, kind: Kind, width: int, height: int, quality: int = 85) -> bytes:
        words = [width, height, kind.components, kind.stored, kind.sampling, kind.coding]
        return subprocess.run(
            [self._program, *map(str, words), str(kind.restart), str(quality)],
            input=picture(width, height, kind.components).tobytes(),
            capture_output=True,
            check=True,
        ).stdout


def picture(width: int, height: int, components: int = 3) -> npt.NDArray[np.uint8]:
    """Smooth colours with sharp edges and some noise: every path of a decoder has work."""
    y, x = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(width * 1000 + height).integers(0, 60, (height, width))
    channels = [
        128
        + 100 * np.sin(x / (5 + 3 * c) + c) * np.cos(y / (7 + 2 * c))
        + noise * (c + 1) / 3
        + 90 * ((x // 9 + y // 7 + c) % 2)
        for c in range(components)
    ]
    return np.stack(channels, axis=-1).clip(0, 255).astype(np.uint8)


def with_head(jpeg: bytes, size: int) -> bytes:
    """A JPEG that says much beside its picture: comments of so many bytes stand before it."""
    told, left = b"", size
    while left > 4:
        length = min(left, 65537)
        told += b"\xff\xfe" + (length - 2).to_bytes(2, "big") + b"c" * (length - 4)
        left -= length
    return jpeg[:2] + told + jpeg[2:]
