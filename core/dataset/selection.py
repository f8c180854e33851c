"""Decides which samples of a dataset are shown on a page: in its own order, or shuffled."""

import numpy as np

from ddlp.core.dataset.index import DatasetIndex, Samples
from ddlp.core.errors import NotFound
from ddlp.core.messages.statistics import SampleInfo, SamplePage
from ddlp.core.order import EpochOrder

_TURNED = 5
"""From this EXIF orientation on, width and height change places."""


def page(
    index: DatasetIndex, class_name: str | None, seed: int, offset: int, limit: int
) -> SamplePage:
    """Some samples, of one class or of all; seed 0 keeps their order, another one shuffles them."""
    members = None if class_name is None else index.members(_label(index, class_name))
    total = index.samples if members is None else len(members)
    places = _places(total, seed, offset, limit)
    chosen = places if members is None else np.asarray(members[places], dtype=np.int64)
    return SamplePage(total=total, samples=_described(index, chosen))


def _label(index: DatasetIndex, class_name: str) -> int:
    try:
        return index.classes.index(class_name)
    except ValueError as error:
        raise NotFound(
            f"there is no class {class_name!r}; there are {len(index.classes)}, such as "
            f"{', '.join(index.classes[:3])}"
        ) from error


def _places(total: int, seed: int, offset: int, limit: int) -> Samples:
    end = min(total, offset + limit)
    if seed == 0:
        return np.arange(offset, max(offset, end), dtype=np.int64)
    return EpochOrder(total, seed, 0).slice(offset, end)


def _described(index: DatasetIndex, samples: Samples) -> list[SampleInfo]:
    heads, labels = index.heads(samples), index.labels(samples)
    found = []
    for place, sample in enumerate(samples.tolist()):
        size = int(heads.width[place]), int(heads.height[place])
        width, height = size if heads.orientation[place] < _TURNED else size[::-1]
        label = int(labels[place])
        found.append(
            SampleInfo(
                sample=sample,
                name=index.name(sample),
                label=label,
                class_name=index.classes[label],
                width=width,
                height=height,
                bytes=int(heads.nbytes[place]),
            )
        )
    return found
