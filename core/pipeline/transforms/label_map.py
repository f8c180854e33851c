"""Gives classes other numbers, by their names."""

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from ddlp.core.errors import InvalidInput
from ddlp.core.pipeline.transforms.base import Labels, LabelTransform

Label = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class LabelMap(LabelTransform):
    """The label of a sample is what `labels` says for the name of its class."""

    name: ClassVar[str] = "label-map"

    labels: dict[str, Label] = Field(
        min_length=1,
        max_length=1_000_000,
        description="Label of every class of the dataset; several may share one.",
    )

    def apply(self, labels: Labels, classes: tuple[str, ...]) -> Labels:
        """The numbers that the classes' names stand for."""
        return self.table(classes)[labels]

    def table(self, classes: tuple[str, ...]) -> Labels:
        """The label of each class of a dataset, by the class's own number."""
        missing = [name for name in classes if name not in self.labels]
        if missing:
            named = ", ".join(map(repr, missing[:3])) + (", …" if len(missing) > 3 else "")
            raise InvalidInput(
                f"label-map has no label for {len(missing)} of the dataset's {len(classes)} "
                f"classes ({named}); name every class"
            )
        return np.asarray([self.labels[name] for name in classes], np.int64)
