"""The figures of a server as text for Prometheus, in its exposition format 0.0.4.

Names carry the unit, counters end in _total. What is not known is left out, never 0. Labels stay
few: of runs, only those that are active or ended lately are named, and at most so many.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ddlp.core.types import Prong, RunState, Spending, Stage

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
NAMED_FOR_S = 3600.0
"""For how long a run that is over, or a device that is silent, is still named."""
MOST_RUNS = 200
"""More runs than these are not named, the newest come first."""

Sample = tuple[tuple[str, ...], float]
"""Values of a family's labels, and the figure."""


@dataclass(frozen=True)
class Exposed:
    """What is shown of one run; what is not known is missing."""

    run: str
    state: RunState
    images: Mapping[str, int] = field(default_factory=dict)
    """Images made, by prong."""
    batches: Mapping[str, int] = field(default_factory=dict)
    """Batches made, by prong."""
    spent_s: Mapping[Spending, float] = field(default_factory=dict)
    """Seconds of its trainers, by what they were spent on."""
    stage_s: Mapping[tuple[Prong, Stage], float] = field(default_factory=dict)
    """Seconds of the stages of batches, by the prong that made them."""
    joules: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Energy by source and provenance."""
    read_bytes: Mapping[str, int] = field(default_factory=dict)
    """Bytes that trainers read, by path."""


@dataclass(frozen=True)
class ExposedDevice:
    """What is shown of one device."""

    name: str
    prong: str
    kind: str
    live: bool
    joules: float | None = None
    provenance: str = ""
    dropped_messages: int | None = None


@dataclass(frozen=True)
class Exposure:
    """All that is shown of a server."""

    version: str
    states: Mapping[str, int]
    """How many runs there are, by state."""
    runs: Sequence[Exposed]
    devices: Sequence[ExposedDevice]
    live_streams: int


@dataclass(frozen=True)
class Family:
    """Samples of one name."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    labels: tuple[str, ...] = ()

    def lines(self, samples: Iterable[Sample]) -> Iterator[str]:
        """The family as it is written."""
        yield f"# HELP {self.name} {_escape(self.help)}\n"
        yield f"# TYPE {self.name} {self.kind}\n"
        for values, figure in samples:
            pairs = ",".join(
                f'{label}="{_escape_label(value)}"'
                for label, value in zip(self.labels, values, strict=True)
            )
            yield (
                f"{self.name}{{{pairs}}} {_number(figure)}\n"
                if pairs
                else (f"{self.name} {_number(figure)}\n")
            )


_LATELY = "of runs that are active or ended in the last hour"

BUILD = Family("ddlp_build_info", "gauge", "The version of the server; always 1.", ("version",))
RUNS = Family("ddlp_runs", "gauge", "All runs that are known, by state.", ("state",))
IMAGES = Family(
    "ddlp_images_made_total", "counter", f"Images that were made, {_LATELY}.", ("run", "prong")
)
BATCHES = Family(
    "ddlp_batches_made_total", "counter", f"Batches that were made, {_LATELY}.", ("run", "prong")
)
TRAINER_SECONDS = Family(
    "ddlp_trainer_seconds_total",
    "counter",
    f"Seconds of trainers by what they were spent on, {_LATELY}.",
    ("run", "spent"),
)
STAGE_SECONDS = Family(
    "ddlp_stage_seconds_total",
    "counter",
    f"Seconds of the stages of batches, added up over all processes, {_LATELY}.",
    ("run", "prong", "stage"),
)
ENERGY = Family(
    "ddlp_energy_joules_total",
    "counter",
    f"Energy by source and how it was obtained, where it is known, {_LATELY}.",
    ("run", "source", "provenance"),
)
READ_BYTES = Family(
    "ddlp_read_bytes_total",
    "counter",
    f"Bytes that trainers read by the path they took, {_LATELY}.",
    ("run", "path"),
)
DEVICES = Family(
    "ddlp_devices", "gauge", "Devices that ever registered.", ("prong", "kind", "live")
)
DEVICE_ENERGY = Family(
    "ddlp_device_energy_joules_total",
    "counter",
    "Energy that a device says it used since it was started, of those heard of in the last hour.",
    ("device", "provenance"),
)
DROPPED = Family(
    "ddlp_dropped_messages_total",
    "counter",
    "Messages that the server had not signed and a device dropped since its worker was started.",
    ("device",),
)
STREAMS = Family("ddlp_live_streams", "gauge", "Live pages and event streams that are open.")

FAMILIES = (
    BUILD,
    RUNS,
    IMAGES,
    BATCHES,
    TRAINER_SECONDS,
    STAGE_SECONDS,
    ENERGY,
    READ_BYTES,
    DEVICES,
    DEVICE_ENERGY,
    DROPPED,
    STREAMS,
)


def exposition(shown: Exposure) -> str:
    """All families as one text."""
    found = _samples(shown)
    return "".join(line for family in FAMILIES for line in family.lines(found[family]))


def _samples(shown: Exposure) -> dict[Family, list[Sample]]:
    runs = shown.runs
    return {
        BUILD: [((shown.version,), 1)],
        RUNS: [((state.value,), shown.states.get(state.value, 0)) for state in RunState],
        IMAGES: [((r.run, prong), count) for r in runs for prong, count in r.images.items()],
        BATCHES: [((r.run, prong), count) for r in runs for prong, count in r.batches.items()],
        TRAINER_SECONDS: [
            ((r.run, spent.value), seconds) for r in runs for spent, seconds in r.spent_s.items()
        ],
        STAGE_SECONDS: [
            ((r.run, prong.value, stage.value), seconds)
            for r in runs
            for (prong, stage), seconds in r.stage_s.items()
        ],
        ENERGY: [((r.run, *key), joules) for r in runs for key, joules in r.joules.items()],
        READ_BYTES: [((r.run, path), count) for r in runs for path, count in r.read_bytes.items()],
        DEVICES: _device_counts(shown.devices),
        DEVICE_ENERGY: [
            ((device.name, device.provenance), device.joules)
            for device in shown.devices
            if device.joules is not None
        ],
        DROPPED: [
            ((device.name,), device.dropped_messages)
            for device in shown.devices
            if device.dropped_messages is not None
        ],
        STREAMS: [((), shown.live_streams)],
    }


def _device_counts(devices: Sequence[ExposedDevice]) -> list[Sample]:
    counts: dict[tuple[str, ...], int] = {}
    for device in devices:
        key = device.prong, device.kind, "true" if device.live else "false"
        counts[key] = counts.get(key, 0) + 1
    return sorted(counts.items())


def _number(figure: float) -> str:
    """A figure as Go reads it; whole numbers keep all their digits."""
    return str(figure) if isinstance(figure, int) else repr(float(figure))


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _escape_label(text: str) -> str:
    return _escape(text).replace('"', r"\"")
