"""Draws the demo's dataset: shapes of many sizes and colours on noisy ground, one class a shape.

`python -m ddlp.core.demo_images PARENT FOLDER IMAGES` draws in a process of its own, which ends
with the process of that number, and writes how many it has drawn to standard output, a line each.
"""

import math
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from ddlp.core.process import die_with_parent

CLASSES = ("circle", "cross", "ring", "square", "star", "triangle")
_MARK = ".complete"


def make_dataset(
    root: Path, images: int, seed: int = 1, report: Callable[[int], None] | None = None
) -> Path:
    """A folder of images, one subfolder a class; made once, whole or not at all.

    `report` is told after each image how many there are.
    """
    mark = f"{images} images, seed {seed}"
    if root.is_dir() and (root / _MARK).exists() and (root / _MARK).read_text() == mark:
        return root
    half_made = root.with_name(f".{root.name}.making")
    for old in (half_made, root):
        shutil.rmtree(old, ignore_errors=True)
    for number in range(images):
        label = CLASSES[number % len(CLASSES)]
        path = half_made / label / f"{number:05d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        draw(label, random.Random(seed * 1_000_003 + number)).save(path, quality=88)
        if report is not None:
            report(number + 1)
    (half_made / _MARK).write_text(mark)
    half_made.rename(root)
    return root


def draw(label: str, chance: random.Random) -> Image.Image:
    """One image of a shape: size, place, angle and colours by chance."""
    width, height = chance.randint(96, 320), chance.randint(96, 320)
    ground, ink = _colours(chance)
    noise = np.random.default_rng(chance.getrandbits(32)).normal(0, 12, (height, width, 3))
    pixels = np.clip(np.asarray(ground) + noise, 0, 255).astype(np.uint8)
    image = Image.fromarray(pixels)
    radius = min(width, height) * chance.uniform(0.28, 0.45)
    x = width / 2 + chance.uniform(-0.08, 0.08) * width
    y = height / 2 + chance.uniform(-0.08, 0.08) * height
    turn = chance.uniform(-0.3, 0.3)
    canvas = ImageDraw.Draw(image)
    if label == "circle":
        canvas.ellipse(_box(x, y, radius), fill=ink)
    elif label == "ring":
        canvas.ellipse(_box(x, y, radius), outline=ink, width=max(4, int(radius / 4)))
    else:
        canvas.polygon(_outline(label, x, y, radius, turn), fill=ink)
    return image


def _colours(chance: random.Random) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A ground and an ink that can be told apart."""
    while True:
        ground = tuple(chance.randint(0, 255) for _ in range(3))
        ink = tuple(chance.randint(0, 255) for _ in range(3))
        if sum(abs(a - b) for a, b in zip(ground, ink, strict=True)) > 200:
            return ground, ink


def _box(x: float, y: float, radius: float) -> tuple[float, float, float, float]:
    return x - radius, y - radius, x + radius, y + radius


def _outline(
    label: str, x: float, y: float, radius: float, turn: float
) -> list[tuple[float, float]]:
    """The corners of a shape with straight sides, as distances and directions from its middle."""
    corners = {
        "triangle": [(1.0, k / 3) for k in range(3)],
        "square": [(1.0, (k + 0.5) / 4) for k in range(4)],
        "star": [(1.0 if k % 2 == 0 else 0.4, k / 10) for k in range(10)],
        "cross": [
            (length, (quarter + side) / 4)
            for quarter in range(4)
            for length, side in ((1.0, -0.2), (1.0, 0.2), (0.42, 0.5))
        ],
    }[label]
    return [
        (
            x + radius * length * math.sin(2 * math.pi * part + turn),
            y - radius * length * math.cos(2 * math.pi * part + turn),
        )
        for length, part in corners
    ]


def main() -> None:
    """Draw for the process that started this one."""
    parent, folder, images = sys.argv[1:]
    die_with_parent(int(parent))

    def report(drawn: int) -> None:
        sys.stdout.write(f"{drawn}\n")
        sys.stdout.flush()

    try:
        make_dataset(Path(folder), int(images), report=report)
    except OSError as error:
        sys.exit(f"{folder} cannot be written to: {error.strerror or error}")


if __name__ == "__main__":
    main()
