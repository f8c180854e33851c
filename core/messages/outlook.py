"""What a run would come to, told before it is made."""

from pydantic import Field

from ddlp.core.messages.base import Message
from ddlp.core.types import Prong, Provenance


class FieldProblem(Message):
    """Why a value cannot be used."""

    field: str = Field(description="The field of RunCreate that it is about.")
    problem: str = Field(description="What is wrong with it, and what would do.")


class ProngForecast(Message):
    """What the live devices of one prong would make of a run."""

    prong: Prong
    devices: list[str] = Field(description="The live devices that would work for it.")
    slots: int = Field(description="Their worker processes.")
    emulated: bool = Field(description="Whether one of them is emulated.")
    images_per_s: float | None = Field(
        description="What they make together; null where no pace of theirs is known."
    )
    known_from: list[str] = Field(description="The runs that their paces were seen in, in words.")
    images: int | None = Field(description="Of an epoch, as far as can be told.")
    joules_per_image: float | None = Field(description="Null where watts or paces are not known.")
    provenance: Provenance
    method: str = Field(description="How the joules were obtained, or why they are not known.")
    held_batches: int = Field(description="Batches that may lie in its store unconsumed.")
    held_bytes: int = Field(description="What these take up.")


class RunForecast(Message):
    """What a run would come to on the devices that live now; nothing is made up.

    Figures that nobody knows yet are null, and `notes` says why.
    """

    problems: list[FieldProblem] = Field(
        description="What stands in its way, by field; with none it could be made."
    )
    batches: int | None = Field(None, description="Batches an epoch.")
    images: int | None = Field(None, description="Images delivered an epoch.")
    batch_bytes: int | None = Field(None, description="What a full batch takes up.")
    prongs: list[ProngForecast] = Field([], description="Those that the strategy uses.")
    images_per_s: float | None = Field(
        None, description="What is delivered: made by all prongs, or as much as the trainer takes."
    )
    made_per_s: float | None = Field(None, description="Images a second that the prongs can make.")
    trainer_per_s: float | None = Field(
        None, description="Images a second that the trainer took while it did not wait."
    )
    trainer_from: str | None = Field(None, description="The run in which it did.")
    meeting_point: int | None = Field(None, description="The batch near which the ends meet.")
    epoch_s: float | None = None
    run_s: float | None = None
    joules: float | None = Field(None, description="Of the whole run, of what makes batches.")
    joules_per_image: float | None = None
    provenance: Provenance = Provenance.UNAVAILABLE
    notes: list[str] = Field([], description="What the figures rest on, in words.")
