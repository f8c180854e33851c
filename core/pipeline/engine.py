"""The engine: samples in, the pixels of a batch out, whatever becomes of bad samples included."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ddlp.core.batchfile import Array
from ddlp.core.dataset import DatasetIndex
from ddlp.core.dataset.files import CHANGED
from ddlp.core.errors import BadSample
from ddlp.core.image import Slot, backend, engine_name
from ddlp.core.mishap import NAME_LENGTH, REASON_LENGTH, Mishap
from ddlp.core.pipeline.renderer import DirectRenderer, Renderer
from ddlp.core.pipeline.spec import Pipeline
from ddlp.core.randomness import stream_key
from ddlp.core.stages import PictureTimes
from ddlp.core.types import BadPolicy

Ints = npt.NDArray[np.int64]

ENGINE = engine_name()
"""Which engine makes the bytes here; those of one arithmetic make the same."""

_SUBSTITUTES = 16
"""How many samples of a class are tried in the place of a bad one."""


class Engine:
    """Runs one pipeline over one dataset for one seed."""

    def __init__(
        self,
        index: DatasetIndex,
        pipeline: Pipeline,
        seed: int,
        on_bad: BadPolicy = BadPolicy.FAIL,
        renderer: Renderer | None = None,
    ) -> None:
        self._index = index
        self._pipeline = pipeline
        self._on_bad = on_bad
        self._direct = DirectRenderer(index, pipeline, seed)
        self._renderer = renderer or self._direct
        self._substitute_key = stream_key(seed, "substitute")

    def fill(self, epoch: int, samples: Ints, out: Slot) -> list[Mishap]:
        """Preprocess samples into `out`, an array of (samples, height, width, 3).

        Where samples are left out the rest moves up, so that `kept` tells what lies where.
        """
        problems = self._renderer.render(epoch, samples, out)
        mishaps = [
            self._mishap(epoch, int(samples[place]), reason, out[place : place + 1])
            for place, reason in sorted(problems.items())
        ]
        if self._on_bad is BadPolicy.SKIP and problems:
            places = [place for place in range(len(samples)) if place not in problems]
            for to, place in enumerate(places):
                out[to] = out[place]
        return mishaps

    def take_times(self) -> PictureTimes:
        """Where the time for the pictures went since the last call."""
        return self._renderer.times.take()

    def explain(self, epoch: int, samples: Ints) -> list[list[dict[str, Any]]]:
        """What each step does to each sample: a list a sample, a dictionary a step."""
        told = self._direct.explain(epoch, samples)
        made = self.extras(epoch, samples)
        for step in self._pipeline.extra_steps:
            for place, parameters in enumerate(step.explain(made[step.tensor.name])):
                told[place].append({"transform": step.name, **parameters})
        return told

    def extras(self, epoch: int, samples: Ints) -> dict[str, Array]:
        """The tensors that the pipeline emits beside images and labels, by name."""
        if not self._pipeline.extra_steps:
            return {}
        return self._direct.extras(epoch, samples, self.labels(samples))

    def labels(self, samples: Ints) -> Ints:
        """The labels of samples, as the pipeline maps them."""
        labels = self._index.labels(samples)
        if self._pipeline.label_map is None:
            return labels
        return self._pipeline.label_map.apply(labels, self._index.classes)

    def _mishap(self, epoch: int, sample: int, reason: str, slot: Slot) -> Mishap:
        name = _clipped(self._index.name(sample), NAME_LENGTH)
        if reason == CHANGED and self._index.cure:
            reason = f"{reason}; {self._index.cure}"
        if self._on_bad is BadPolicy.FAIL:
            raise BadSample(f"{name} cannot be used: {reason}")
        substitute = None
        if self._on_bad is BadPolicy.REPLACE:
            substitute = self._replace(epoch, sample, slot)
        return Mishap(sample, name, _clipped(reason, REASON_LENGTH), substitute)

    def _replace(self, epoch: int, sample: int, slot: Slot) -> int:
        """Fill a slot with another sample of the class; which one depends on seed and epoch."""
        label = self._index.labels(np.asarray([sample]))
        members = self._index.members(int(label[0]))
        others = members[members != sample]
        drawn = backend().uniforms(self._substitute_key, epoch, np.asarray([sample]), _SUBSTITUTES)[
            0
        ]
        for number in drawn if len(others) else ():
            candidate = int(others[int(number * len(others))])
            if not self._renderer.render(epoch, np.asarray([candidate]), slot):
                return candidate
        raise BadSample(
            f"{self._index.name(sample)} cannot be used, and none of {_SUBSTITUTES} samples drawn "
            "from its class can stand in for it"
        )


def _clipped(text: str, length: int) -> str:
    """Text that any database takes, however long or strange a file's name is."""
    text = text.replace("\0", "\\0")
    return text if len(text) <= length else text[: length - 1] + "…"


def kept(samples: Ints, mishaps: list[Mishap]) -> Ints:
    """The samples that lie in a batch, in their order: without those left out, with substitutes."""
    by_sample = {mishap.sample: mishap.substitute for mishap in mishaps}
    left = [by_sample.get(sample, sample) for sample in samples.tolist()]
    return np.asarray([sample for sample in left if sample is not None], dtype=np.int64)
