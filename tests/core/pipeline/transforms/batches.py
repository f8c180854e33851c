"""What tests of transforms share: batches of views, of pixels and of numbers drawn."""

import numpy as np
import numpy.typing as npt

from ddlp.core.pipeline.views import Views
from ddlp.core.randomness import stream_key, uniforms

NOTHING = np.empty((1, 0))


def drawn(samples: int, count: int, purpose: str = "test") -> npt.NDArray[np.float64]:
    return uniforms(stream_key(0, purpose), 0, np.arange(samples, dtype=np.int64), count)


def whole(width: int, height: int, samples: int = 1) -> Views:
    return Views.whole(np.full(samples, width), np.full(samples, height))


def box(views: Views, place: int = 0) -> tuple[float, float, float, float]:
    """The part of the source that a sample shows."""
    return (
        float(views.left[place]),
        float(views.top[place]),
        float(views.box_width[place]),
        float(views.box_height[place]),
    )


def shown(views: Views, place: int = 0) -> tuple[int, int]:
    return int(views.width[place]), int(views.height[place])


def frame(views: Views, place: int = 0) -> tuple[int, int]:
    return int(views.frame_width[place]), int(views.frame_height[place])


def limits(views: Views, place: int = 0) -> tuple[int, int, int, int]:
    return (
        int(views.limit_left[place]),
        int(views.limit_top[place]),
        int(views.limit_right[place]),
        int(views.limit_bottom[place]),
    )


def colourful(samples: int, width: int = 9, height: int = 7) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (samples, height, width, 3), dtype=np.uint8)


def assert_inside(views: Views, width: int, height: int) -> None:
    left, top, box_width, box_height = box(views)
    assert left >= 0
    assert top >= 0
    assert left + box_width <= width * (1 + 1e-12)
    assert top + box_height <= height * (1 + 1e-12)
