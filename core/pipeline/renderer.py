"""Renders samples: draws the numbers, follows the views, has each picture shown once.

A pipeline is a row of stages. The first one's geometry is done while decoding, so that only what is
seen in the end is decoded; pixel steps then work on the batch, and the geometry of a later stage
resamples what those left.
"""

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ddlp.core.batchfile import Array
from ddlp.core.dataset import DatasetIndex
from ddlp.core.image import Levels, Pixels, Slot, backend
from ddlp.core.image.reference import put
from ddlp.core.pipeline.extras import made as made_extra
from ddlp.core.pipeline.pictures import Pictures, show_pixels
from ddlp.core.pipeline.placing import rows
from ddlp.core.pipeline.spec import Pipeline
from ddlp.core.pipeline.transforms import Extra, Geometric, Normalize, PixelTransform, Seen
from ddlp.core.pipeline.views import Views
from ddlp.core.randomness import stream_key
from ddlp.core.stages import PictureTimes

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Renderer(Protocol):
    """Makes the pixels of samples."""

    def render(self, epoch: int, samples: Ints, out: Slot) -> dict[int, str]:
        """Fill `out`, a slot a sample; says which places could not be filled, and why."""

    @property
    def times(self) -> PictureTimes:
        """Where the time for the pictures goes."""


@dataclass(frozen=True)
class _Draws:
    """The random numbers of one step of a pipeline."""

    key: tuple[int, int]
    count: int

    def draw(self, epoch: int, samples: Ints) -> Floats:
        if not self.count:
            return np.empty((len(samples), 0))
        return backend().uniforms(self.key, epoch, samples, self.count)


@dataclass(frozen=True)
class _Stage:
    geometry: tuple[tuple[Geometric, _Draws], ...]
    pixels: tuple[tuple[PixelTransform, _Draws], ...]
    size: tuple[int, int]
    """Width and height between the two."""

    def views(self, epoch: int, samples: Ints, sizes: tuple[Ints, Ints]) -> Views:
        views = Views.whole(*sizes)
        for step, draws in self.geometry:
            views = step.apply(views, draws.draw(epoch, samples))
        return views

    def canvas(self, samples: int) -> Pixels:
        """Memory for what its geometry shows; black where a picture cannot be shown."""
        width, height = self.size
        return np.zeros((samples, height, width, 3), dtype=np.uint8)

    @property
    def made(self) -> tuple[int, int]:
        """Width and height of what the stage makes."""
        size = self.size
        for step, _ in self.pixels:
            size = step.output_size(size)
        return size

    def colour(self, epoch: int, samples: Ints, made: Pixels) -> Pixels:
        for step, draws in self.pixels:
            made = step.apply(made, draws.draw(epoch, samples))
        return made


class DirectRenderer:
    """Renders in this process."""

    def __init__(self, index: DatasetIndex, pipeline: Pipeline, seed: int) -> None:
        self._index = index
        self._pictures = Pictures(index, pipeline.decode)
        self._stages = _stages(pipeline, seed)
        self._extras = _extras(pipeline, seed)
        early = pipeline.normalize if pipeline.dtype == "float32" else None
        self._levels = None if early is None else levels_of(early)

    @property
    def times(self) -> PictureTimes:
        """Where the time for the pictures goes."""
        return self._pictures.times

    def render(self, epoch: int, samples: Ints, out: Slot) -> dict[int, str]:
        """The first stage from the samples' bytes, each further one from the stage before."""
        first, *later = self._stages
        views = first.views(epoch, samples, self._pictures.sizes(samples))
        if not later and not first.pixels:
            problems = self._pictures.show(samples, views, out, self._levels)
        else:
            made = first.canvas(len(samples))
            problems = self._pictures.show(samples, views, made, None)
            made = first.colour(epoch, samples, made)
            for stage in later:
                made = _restaged(stage, epoch, samples, made)
            put(out, made, self._levels)
        self._index.relax()
        return problems

    def explain(self, epoch: int, samples: Ints) -> list[list[dict[str, Any]]]:
        """What each step does to each sample: a list a sample, a dictionary a step."""
        told: list[list[dict[str, Any]]] = [[] for _ in samples]

        def tell(name: str, parameters: list[dict[str, Any]]) -> None:
            for place, drawn in enumerate(parameters):
                told[place].append({"transform": name, **drawn})

        sizes = self._pictures.sizes(samples)
        for stage in self._stages:
            views = Views.whole(*sizes)
            for step, draws in stage.geometry:
                drawn = draws.draw(epoch, samples)
                tell(step.name, step.explain(views, drawn))
                views = step.apply(views, drawn)
            for colour, draws in stage.pixels:
                tell(colour.name, colour.explain(draws.draw(epoch, samples)))
            sizes = _alike(len(samples), stage.made)
        return told

    def extras(self, epoch: int, samples: Ints, labels: Ints) -> dict[str, Array]:
        """The pipeline's extra tensors; they follow from the views, no picture is decoded."""
        widths, heights = self._pictures.sizes(samples)
        views, sizes = [], (widths, heights)
        for stage in self._stages:
            views.append(stage.views(epoch, samples, sizes))
            sizes = _alike(len(samples), stage.made)
        first, *later = views
        nothing = np.empty((len(samples), 0))
        seen = Seen(samples, labels, widths, heights, first, tuple(later), nothing)
        return {
            step.tensor.name: made_extra(step, replace(seen, drawn=draws.draw(epoch, samples)))
            for step, draws in self._extras
        }


def levels_of(normalize: Normalize) -> Levels:
    """(level / 255 - mean) / std as one multiplication and one addition."""
    mean, std = (np.asarray(v, np.float32) for v in (normalize.mean, normalize.std))
    return Levels(np.float32(1) / (np.float32(255) * std), -mean / std)


def _stages(pipeline: Pipeline, seed: int) -> list[_Stage]:
    """The pipeline's stages, each random step with numbers of its own."""
    places = iter(pipeline.places)

    def draws(step: Geometric | PixelTransform) -> _Draws:
        return _Draws(stream_key(seed, next(places)), step.draws)

    return [
        _Stage(
            tuple((step, draws(step)) for step in stage.geometry),
            tuple((step, draws(step)) for step in stage.pixels),
            (stage.width, stage.height),
        )
        for stage in pipeline.stages
    ]


def _extras(pipeline: Pipeline, seed: int) -> list[tuple[Extra, _Draws]]:
    """The pipeline's extras; their numbers leave those of all other steps as they are."""
    return [
        (step, _Draws(stream_key(seed, f"extra:{step.name}:{step.tensor.name}"), step.draws))
        for step in pipeline.extra_steps
    ]


def _alike(samples: int, size: tuple[int, int]) -> tuple[Ints, Ints]:
    width, height = size
    return np.full(samples, width), np.full(samples, height)


def _restaged(stage: _Stage, epoch: int, samples: Ints, before: Pixels) -> Pixels:
    count, height, width = before.shape[:3]
    views = stage.views(epoch, samples, _alike(count, (width, height)))
    made = stage.canvas(count)
    for place, placed in enumerate(rows(views)):
        show_pixels(before[place], placed, made[place], None)
    return stage.colour(epoch, samples, made)
