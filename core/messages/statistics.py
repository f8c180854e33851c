"""What is said about the samples of a dataset, all together and one by one."""

from pydantic import Field

from ddlp.core.messages.base import Message


class ClassCount(Message):
    """How many samples a class has."""

    label: int
    name: str
    samples: int


class HistogramBin(Message):
    """How many lie from one value up to, but without, the next."""

    start: int
    end: int
    count: int


class HistogramInfo(Message):
    """How a figure is spread; the bins follow each other without a gap."""

    smallest: int
    largest: int
    mean: float
    bins: list[HistogramBin]


class DatasetStatistics(Message):
    """How the samples of a dataset are spread over classes and sizes."""

    version: str = Field(description="The version of the dataset that was looked at.")
    samples: int
    classes: int
    empty_classes: int = Field(description="Classes without any sample.")
    imbalance: float | None = Field(
        description="Samples of the largest class for one of the smallest; null below two classes."
    )
    largest_classes: list[ClassCount] = Field(
        description="The classes with the most samples: all of them where there are few."
    )
    smallest_classes: list[ClassCount] = Field(
        description="Those with the fewest, the smallest last; none where all are listed above."
    )
    class_samples: HistogramInfo = Field(description="Samples a class.")
    encoded_bytes: HistogramInfo = Field(description="Encoded bytes a sample, before packing.")
    short_side: HistogramInfo = Field(description="Pixels of the shorter side.")
    pixels: HistogramInfo = Field(description="Width times height, in pixels.")


class SampleInfo(Message):
    """One sample of a dataset, as the index knows it."""

    sample: int
    name: str
    label: int
    class_name: str
    width: int = Field(description="Pixels, upright.")
    height: int
    bytes: int = Field(description="Encoded, before packing.")


class SamplePage(Message):
    """Some samples of a dataset, in its own order or in a shuffled one."""

    total: int = Field(description="Samples that can be paged through.")
    samples: list[SampleInfo]


class QuarantinedInfo(Message):
    """A sample that runs over a dataset had to skip or replace."""

    sample: int
    name: str
    reason: str = Field(description="As it was said last.")
    times: int = Field(description="How often, over all runs and epochs.")
    runs: list[str] = Field(description="Some of the runs, the newest first.")
    run_count: int


class QuarantinePage(Message):
    """Quarantined samples of a dataset, those that were met last first."""

    total: int
    samples: list[QuarantinedInfo]


class SplitInfo(Message):
    """One of several datasets in a folder, such as its training images."""

    uri: str
    name: str = Field(description="A name for a dataset of it.")
    problem: str | None = Field(description="Why it cannot be registered as it stands.")


class PlacesInfo(Message):
    """What lies at a place on the server, and how the path could go on."""

    kind: str | None = Field(description="The storage form that it looks like.")
    problem: str | None = Field(description="Why it cannot be registered as it stands.")
    splits: list[SplitInfo] = Field(
        [], description="The datasets that lie in it, if it holds several."
    )
    places: list[str] = Field(description="Folders and files that begin so, by name.")
    more: bool = Field(description="Whether some were left off.")
