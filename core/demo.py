"""What the demo is: the pipeline and the run that it makes, wherever it is started from."""

from typing import Any

IMAGES = 2400
BATCH_SIZE = 24
SEED = 7
SIDE = 64
PIPELINE: dict[str, Any] = {
    "name": "demo-64",
    "transforms": [
        {"name": "random-resized-crop", "size": SIDE, "min_area": 0.6},
        {"name": "flip"},
        {"name": "normalize", "mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25]},
    ],
}
CPU_WINDOW = 16
CSD_STORE_BYTES = 8 << 20
"""Little, so that the page shows both fronts being held back too."""
