"""What a contestant is asked to do, and what it answers: JSON lines between two processes.

    benchmark → contestant   the task, on the command line; then "PASSES" a line, one line a round
    contestant → benchmark   {"about": …, "pass_s": …} when it is warm; then an outcome a round

This module is imported by the peers' Python as well, which knows nothing but the standard library.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

IMAGENET_TRAIN, IMAGENET_VAL, CIFAR_TRAIN = "imagenet-train", "imagenet-val", "cifar-train"

Numbers = tuple[float, float, float]

MEAN_STD: dict[str, tuple[Numbers, Numbers]] = {
    IMAGENET_TRAIN: ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    IMAGENET_VAL: ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    CIFAR_TRAIN: ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
}


@dataclass(frozen=True)
class Task:
    """One job for one process of one contestant."""

    contestant: str
    """The module below benchmarks.peers."""
    variant: str
    job: str
    data: str
    """A folder with one subfolder a class, or an .npz of `x` and `y`."""
    images: int
    different: int
    """How many of the images are different files; the others are the same ones again."""
    batch: int
    cores: tuple[int, ...]
    scratch: str
    part: int = 0
    parts: int = 1
    """Where several processes share a pass, each takes its part of it."""

    def __post_init__(self) -> None:
        if self.job not in MEAN_STD:
            raise ValueError(f"there is no job {self.job!r}")
        if self.images % (self.batch * self.parts):
            raise ValueError(f"{self.images} images are not whole batches of {self.batch}")

    @property
    def side(self) -> int:
        return 32 if self.job == CIFAR_TRAIN else 224

    @property
    def batches(self) -> int:
        """Batches of this part in one pass."""
        return self.images // (self.batch * self.parts)

    @property
    def normalize(self) -> tuple[Numbers, Numbers]:
        """Mean and standard deviation of levels from 0 to 1."""
        return MEAN_STD[self.job]

    @property
    def levels(self) -> tuple[list[float], list[float]]:
        """Mean and standard deviation of levels from 0 to 255."""
        mean, std = self.normalize
        return [255 * value for value in mean], [255 * value for value in std]

    def dump(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str) -> "Task":
        said = json.loads(text)
        return cls(**{**said, "cores": tuple(said["cores"])})


@dataclass(frozen=True)
class Outcome:
    """What came of a round."""

    images: int
    wall_s: float
    cpu_s: float


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Loader:
    """A contestant that is ready: every call of `epoch` gives the batches of one pass."""

    about: str
    """Version, and whatever a reader of its figures must know."""
    epoch: Callable[[], Iterable[Any]]
    drain: Callable[[], None] = _nothing
    """Takes what was made ahead since the last round, so that it is not counted in the next."""
