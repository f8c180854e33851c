"""How a packed dataset is made: what its row says of that, and of what came of it."""

from typing import Any

from ddlp.core.dataset import DatasetIndex
from ddlp.core.errors import DdlpError, NotFound
from ddlp.core.messages import ForecastInfo, Message, PackChoice, ShardReport
from ddlp.core.pixels import in_words
from ddlp.core.records import PackOptions, plan_shards
from ddlp.core.types import Prong
from ddlp.server.models import Dataset


class Made(Message):
    """What all shards together hold."""

    records: int
    kept: int
    skipped: int
    bytes: int

    @classmethod
    def of(cls, reports: list[ShardReport]) -> "Made":
        """What was reported, added up."""
        records, skipped = sum(r.records for r in reports), sum(r.skipped for r in reports)
        samples = sum(r.samples for r in reports)
        nbytes = sum(r.bytes for r in reports)
        kept = samples - records - skipped
        return cls(records=records, kept=kept, skipped=skipped, bytes=nbytes)


class PackPlan(Message):
    """What a packed dataset's row says of how it is made."""

    on: Prong
    choice: PackChoice
    per_shard: int
    samples: int
    origin_version: str
    origin_bytes: int
    own: bool
    """The folder was chosen here: it goes when the dataset is removed."""
    made: Made | None = None
    emulated: bool | None = None
    """Whether an emulated device packed some of it; None where nobody has begun."""
    forecast: ForecastInfo | None = None
    no_forecast: str | None = None
    """Why there is none."""

    @property
    def shards(self) -> int:
        """How many there are."""
        return -(-self.samples // self.per_shard)

    @property
    def counts(self) -> list[int]:
        """Samples of each shard."""
        return [len(shard) for shard in plan_shards(self.samples, self.per_shard)]

    def same_outcome(self, other: "PackPlan", *, whatever_is_bad: bool = False) -> bool:
        """Whether both make the same dataset, wherever they are worked on.

        What a bad sample does makes no difference to a packing that is yet to be finished.
        """
        mine = self.choice
        if whatever_is_bad:
            mine = mine.model_copy(update={"on_bad": other.choice.on_bad})
        return (mine, self.origin_version) == (other.choice, other.origin_version)


def plan_of(row: Dataset) -> PackPlan:
    """How a dataset is packed."""
    if row.packing is None:
        raise NotFound(f"dataset {row.name} was not packed here")
    return PackPlan.model_validate(row.packing)


def pixels_of(row: Dataset) -> tuple[bool | None, str | None]:
    """Whether a dataset's shards hold other pixels than their origin, and which; None: no shards.

    They say so themselves; before they are there, the plan does.
    """
    given: dict[str, Any] | None = row.packed_with
    if given is None and row.packing is not None:
        given = plan_of(row).choice.model_dump()
    if given is None:
        return None, None
    options = PackOptions(max_side=given.get("max_side"), quality=given.get("quality"))
    return options.lossy, in_words(options)


def check_version(row: Dataset, index: DatasetIndex) -> None:
    """What was packed whole and without loss is the same dataset as its origin."""
    if row.packing is None:
        return
    plan = plan_of(row)
    whole = plan.made is None or not plan.made.skipped
    if not plan.choice.lossy and whole and index.version != plan.origin_version:
        raise DdlpError(
            f"the shards in {row.uri} come to version {index.version[:12]}, not to that of "
            f"{row.origin}, {plan.origin_version[:12]}; clear that folder and pack it again"
        )
