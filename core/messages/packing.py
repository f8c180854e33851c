"""What is said about packing a dataset: by whoever asks for it, and by the workers that do it."""

import uuid
from pathlib import Path
from typing import Literal

from pydantic import Field

from ddlp.core.messages.base import Message, Name
from ddlp.core.types import Prong

PACK_MARK = ".ddlp-packing"
"""File in the folder for shards that names the packing: by it workers know that it is the server's
folder that they see, and not another one of the same name."""


class PackChoice(Message):
    """What becomes of each sample; with a longest side or a quality, pixels are lost."""

    max_side: int | None = Field(
        None, ge=1, le=65_535, description="Make pictures smaller whose longest side is longer."
    )
    quality: int | None = Field(
        None, ge=1, le=100, description="Encode pictures anew with this JPEG quality."
    )
    keep_heads: bool = Field(
        False, description="Keep each JPEG's own head: EXIF data, colour profiles, comments."
    )
    on_bad: Literal["fail", "skip"] = Field(
        "fail", description="What a sample that cannot be read does to the packing."
    )

    @property
    def lossy(self) -> bool:
        """Whether pixels are other ones than the origin's."""
        return self.max_side is not None or self.quality is not None


class PackCreate(PackChoice):
    """Make a packed dataset of one that is there."""

    name: Name | None = Field(None, description="A name for it; ORIGIN-packed where left out.")
    into: str | None = Field(
        None,
        min_length=1,
        max_length=4096,
        description="Folder on the server for its shards; one in the home folder where left out.",
    )
    on: Prong = Field(Prong.CPU, description="Whose processors pack: the host's or the drives'.")

    @property
    def choice(self) -> PackChoice:
        """What becomes of each sample."""
        return PackChoice(**self.model_dump(include=set(PackChoice.model_fields)))


class ForecastInfo(Message):
    """What packing a dataset would come to, from a few of its samples."""

    samples: int
    looked_at: int = Field(description="Samples that were packed to find out.")
    origin_bytes: int
    bytes: int = Field(description="What the shards would take up.")
    ratio: float
    record_share: float = Field(description="Share of the samples that would become records.")
    pack_s: float = Field(description="Seconds that packing all of it takes one host core.")
    seconds: float | None = Field(
        None, description="Seconds until it is done on the devices that live; null without one."
    )
    processes: int = Field(0, description="The processes of these devices.")
    decode_us: float = Field(description="Microseconds to decode a sample as it is now.")
    packed_decode_us: float = Field(description="Microseconds to decode it once it is packed.")


class PackingInfo(Message):
    """How a dataset was packed, or how far that has come."""

    origin: str = Field(description="The dataset that it was made from.")
    on: Prong
    options: PackChoice
    lossy: bool
    shards: int
    shards_done: int
    samples: int
    samples_done: int
    records: int = Field(description="Samples that became records, so far.")
    kept: int = Field(description="Samples that were stored as they were, so far.")
    skipped: int = Field(description="Samples that were left out, so far.")
    bytes: int = Field(description="Size of the shards so far.")
    origin_bytes: int = Field(description="Size of all of the origin's samples.")
    ratio: float | None = Field(description="Size compared with the same samples of the origin.")
    images_per_s: float | None = Field(description="As of now; null where nothing is known.")
    seconds_left: float | None
    waiting: str | None = Field(description="Why nothing is done for now.")
    emulated: bool | None = Field(
        None, description="Whether an emulated device packs some of it; null before one begins."
    )
    forecast: ForecastInfo | None = Field(
        None, description="What it was expected to come to when it was begun."
    )
    no_forecast: str | None = Field(None, description="Why there is no forecast.")


class PackTask(Message):
    """One shard to be packed: the body of a Celery message."""

    packing: uuid.UUID
    shard: int = Field(ge=0)


class PackSpec(Message):
    """What a worker must know of a packing to write any of its shards."""

    packing: uuid.UUID = Field(description="Id of the dataset that is being made.")
    index_path: Path = Field(description="Index of its origin.")
    dataset_version: str = Field(description="Version of its origin.")
    into: Path
    per_shard: int
    options: PackChoice


class ShardClaim(Message):
    """A process of a device starts on a shard."""

    device: Name
    shard: int = Field(ge=0)
    process: int = Field(ge=1, description="Its number on its host.")
    dead: int | None = Field(
        None, ge=1, description="A process of the device that held it, and has died."
    )


class ShardGranted(Message):
    """A shard that a process may start on; without a token, one that another process is at."""

    token: uuid.UUID | None = Field(description="By which later words of the process are known.")
    silence_s: float = Field(description="Without a sign of life it is given to someone else.")
    holder: int | None = Field(
        None, description="The process of the same device that is at it; if it is dead, say so."
    )


class ShardNews(Message):
    """A sign of life from a process that packs a shard."""

    device: Name
    shard: int = Field(ge=0)
    process: int = Field(ge=1)
    token: uuid.UUID
    samples: int = Field(ge=0, description="Samples of the shard that are packed.")


class ShardWanted(Message):
    """The answer to a sign of life."""

    wanted: bool = Field(description="Whether to go on.")


class ShardReport(Message):
    """A shard is there, or why it is not."""

    device: Name
    shard: int = Field(ge=0)
    token: uuid.UUID | None = Field(None, description="Null where it was not granted.")
    samples: int = Field(0, ge=0)
    records: int = Field(0, ge=0)
    skipped: int = Field(0, ge=0)
    bytes: int = Field(0, ge=0)
    seconds: float = Field(0, ge=0)
    problem: str | None = Field(None, max_length=2000)
    permanent: bool = Field(False, description="Trying again cannot help.")
