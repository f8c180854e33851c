"""Recorded samples: what a host's meters said, a line of JSON each, played again at the same times.

The first line is a heading that says what the recording is; `synthetic` is true where no host ever
said it. Each line after it has the seconds since the recording began and a sample.
"""

import time
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from pydantic import Field, ValidationError

from ddlp.core.energy import EnergyReading
from ddlp.core.errors import InvalidInput
from ddlp.core.messages.base import Message
from ddlp.core.messages.energy import DomainReading, HostSample
from ddlp.core.meters.base import Clock, Meter, unavailable
from ddlp.core.types import Domain

_Kind = TypeVar("_Kind", bound=Message)


class Heading(Message):
    """What a recording is."""

    format: int = Field(1, ge=1, le=1)
    synthetic: bool
    note: str = ""


class Line(Message):
    """A sample and its time."""

    at_s: float = Field(ge=0)
    sample: HostSample


class Recorder:
    """Writes samples to a file as they come, with their times."""

    def __init__(self, path: Path, heading: Heading, clock: Clock = time.monotonic) -> None:
        self._file = path.open("w", encoding="utf-8")
        self._clock = clock
        self._started_s = clock()
        self._write(heading)

    def record(self, sample: HostSample) -> None:
        """Add a sample."""
        self._write(Line(at_s=self._clock() - self._started_s, sample=sample))

    def _write(self, line: Message) -> None:
        self._file.write(line.model_dump_json() + "\n")
        self._file.flush()

    def close(self) -> None:
        """End the recording."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def load(path: Path) -> tuple[Heading, list[Line]]:
    """A recording; a line that cannot be used is named."""
    first, *rest = path.read_text(encoding="utf-8").splitlines() or [""]
    heading = _parsed(Heading, first, f"{path}, line 1")
    lines = [_parsed(Line, text, f"{path}, line {number}") for number, text in enumerate(rest, 2)]
    if not lines:
        raise InvalidInput(f"{path} has no samples; record it anew")
    return heading, sorted(lines, key=lambda line: line.at_s)


def _parsed(kind: type[_Kind], text: str, place: str) -> _Kind:
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise InvalidInput(f"{place}: {error.errors()[0]['msg']}; record it anew") from error


class Replay:
    """A recording that is played from now on: the latest sample is the one that is current."""

    def __init__(self, path: Path, clock: Clock = time.monotonic) -> None:
        self.heading, self._lines = load(path)
        self._clock = clock
        self._started_s = clock()

    def sample(self) -> HostSample:
        """What the host said last; its first sample before it had said anything."""
        passed_s = self._clock() - self._started_s
        said = [line for line in self._lines if line.at_s <= passed_s]
        return (said or self._lines[:1])[-1].sample

    @property
    def times_s(self) -> list[float]:
        """When samples come, in seconds since the beginning."""
        return [line.at_s for line in self._lines]

    def meters(self) -> list[Meter]:
        """A meter for each that the recording knows."""
        known = {part.name: part for line in self._lines for part in line.sample.domains}
        return [ReplayedMeter(self, part) for part in known.values()]


class ReplayedMeter:
    """One meter of a recording."""

    def __init__(self, replay: Replay, part: DomainReading) -> None:
        self._replay = replay
        self.name: str = part.name
        self.domain: Domain = part.domain

    def read(self) -> EnergyReading:
        """What it said last."""
        sample = self._replay.sample()
        for part in sample.domains:
            if part.name == self.name:
                return part.reading
        return unavailable(f"the recording has no {self.name} at this time", sample.period_s)
