"""Everything that decides a run on this machine, and the index of its data."""

import warnings
from dataclasses import dataclass
from pathlib import Path

from ddlp.core.dataset import DatasetIndex, ScanOptions, scan
from ddlp.core.dataset.sources.splits import HoldsSplits
from ddlp.core.errors import BadSample, InvalidInput
from ddlp.core.pipeline import Pipeline
from ddlp.core.schedule import strategy
from ddlp.core.schedule.limits import usual_bad_share
from ddlp.core.types import BadPolicy, TailPolicy
from ddlp.core.urls import refuse_address


@dataclass(frozen=True)
class LocalRun:
    """Everything that decides a run in the training process."""

    data: Path
    pipeline: Pipeline
    batch_size: int
    epochs: int | None
    """None where training decides how many there are."""
    seed: int
    strategy: str
    workers: int
    csd_speed: float | None = None
    on_bad: BadPolicy = BadPolicy.SKIP
    max_bad_share: float | None = None
    """None: `usual_bad_share`."""
    tail: TailPolicy = TailPolicy.SHORT
    reorder_window: int | None = None
    reshuffle: bool | None = None
    """Whether each epoch has an order of its own; None: if anything in the pipeline is random."""
    as_classes: bool = False
    """Take folders such as `train` and labels such as `a|b` as the names of classes."""

    def __post_init__(self) -> None:
        refuse_address(self.data)
        strategy(self.strategy, self.reorder_window)
        for name in ("batch_size", "epochs", "workers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidInput(f"{name}={value} is too small; use 1 or more")
        if self.csd_speed is not None and not 0 < self.csd_speed <= 1:
            raise InvalidInput(f"csd_speed={self.csd_speed} is not above 0 and at most 1")
        if self.max_bad_share is not None and not 0 <= self.max_bad_share <= 1:
            raise InvalidInput(f"max_bad_share={self.max_bad_share} is not from 0 to 1")
        if self.csd_speed is None and self.strategy == "csd":
            raise InvalidInput("strategy 'csd' needs a CSD; give csd_speed to emulate one")

    def bad_share(self, samples: int) -> float:
        """Share of the samples that may be bad before the run fails."""
        return usual_bad_share(samples) if self.max_bad_share is None else self.max_bad_share


def scan_data(run: LocalRun, into: Path) -> DatasetIndex:
    """The index of a run's data, made in this process."""
    options = ScanOptions(as_classes=run.as_classes)
    try:
        scan(run.data.resolve(), into, options, lambda _: None, lambda: False)
    except HoldsSplits as error:
        raise InvalidInput(_other_folder(run.data, error)) from error
    index = DatasetIndex(into)
    for note in index.notes:
        warnings.warn(f"{run.data}: {note}", stacklevel=2)
    if index.rejected:
        _tell_rejected(run, index)
    if run.batch_size > index.samples:
        raise InvalidInput(
            f"batch_size={run.batch_size} is more than the dataset's {index.samples} samples"
        )
    return index


def _other_folder(data: Path, error: HoldsSplits) -> str:
    """What to give instead of a folder of splits."""
    names = [split.path.name for split in error.splits]
    usable = [split.path.name for split in error.splits if not split.is_flat]
    flat = [split.path.name for split in error.splits if split.is_flat]
    return (
        f"{data} holds splits, not classes: {', '.join(names)}; "
        + (f"give one of them, such as {str(data / usable[0])!r}; " if usable else "")
        + (f"images in {', '.join(flat)} lie in no class folders: no labels; " if flat else "")
        + "if these are classes all the same, say as_classes=True"
    )


def _tell_rejected(run: LocalRun, index: DatasetIndex) -> None:
    """Files that the scan left out: an error or a warning, as the policy for bad samples has it."""
    first = index.list_rejected(0, 1)[0]
    found = f"{index.rejected} of the files in {run.data} cannot be used; the first: {first.name}"
    if run.on_bad is BadPolicy.FAIL:
        raise BadSample(
            f"{found}: {first.reason}; correct or remove them, or leave them out with on_bad='skip'"
        )
    warnings.warn(f"{found}: {first.reason}", stacklevel=2)
