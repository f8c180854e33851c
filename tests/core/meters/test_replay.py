"""Samples that were recorded are played again, the same at the same times."""

import json
import uuid
from pathlib import Path

import pytest

from ddlp.core.energy import EnergyReading
from ddlp.core.errors import InvalidInput
from ddlp.core.messages.energy import DomainReading, HostSample
from ddlp.core.meters.replay import Heading, Recorder, Replay
from ddlp.core.types import Domain, Provenance
from tests.core.meters.fake_host import FakeClock, read_all

RECORDED = Path(__file__).parent / "recorded"


def sample(period_s: float, joules: float | None) -> HostSample:
    known = Provenance.UNAVAILABLE if joules is None else Provenance.MEASURED
    reading = EnergyReading(joules=joules, provenance=known, method="said", period_s=period_s)
    part = DomainReading(name="package-0", domain=Domain.PACKAGE, reading=reading)
    return HostSample(
        host="h", sampler=uuid.UUID(int=1), period_s=period_s, busy_s=0, cores=2, domains=[part]
    )


def test_the_same_samples_come_at_the_same_times(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "recording.jsonl"
    said = [sample(0, 0.0), sample(2, 9.5), sample(5, None), sample(7, 20.0)]
    with Recorder(path, Heading(synthetic=True, note="made up"), clock) as recorder:
        begun_s = clock.now_s
        for one in said:
            clock.now_s = begun_s + one.period_s
            recorder.record(one)
    clock.now_s = 50.0
    replay = Replay(path, clock)
    assert replay.heading == Heading(synthetic=True, note="made up")
    assert replay.times_s == [0, 2, 5, 7]
    played = []
    for at_s in (0, 1.99, 2, 4.99, 5, 7, 100):
        clock.now_s = 50.0 + at_s
        played.append(replay.sample())
    assert played == [said[place] for place in (0, 0, 1, 1, 2, 3, 3)]


def test_a_recording_of_two_packages_wraps_and_gaps_is_played_as_meters() -> None:
    clock = FakeClock()
    replay = Replay(RECORDED / "two-packages.jsonl", clock)
    assert replay.heading.synthetic
    meters = replay.meters()
    assert {meter.name: meter.domain for meter in meters} == {
        "package-0": Domain.PACKAGE,
        "dram-0": Domain.DRAM,
        "package-1": Domain.PACKAGE,
        "dram-1": Domain.DRAM,
        "psys": Domain.PSYS,
        "gpu-0": Domain.GPU,
    }
    clock.now_s += 4
    now = read_all(meters)
    assert now["package-0"].joules == 240.0
    assert now["gpu-0"].provenance is Provenance.UNAVAILABLE
    clock.now_s += 2
    now = read_all(meters)
    assert now["gpu-0"].joules == 800.0
    assert now["psys"].joules == 1150.0


def test_a_recording_of_a_host_without_meters_is_modelled() -> None:
    replay = Replay(RECORDED / "modelled.jsonl", FakeClock())
    assert replay.heading.synthetic
    known = {part.reading.provenance for part in replay.sample().domains}
    assert known == {Provenance.MODELLED}


def test_every_recording_here_says_that_it_is_made_up() -> None:
    found = sorted(RECORDED.glob("*.jsonl"))
    assert len(found) == 2
    for path in found:
        assert json.loads(path.read_text().splitlines()[0])["synthetic"] is True


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "line 1"),
        ("{}", "line 1"),
        ('{"synthetic": true}', "no samples"),
        ('{"synthetic": true}\n{"at_s": -1}', "line 2"),
        ('{"synthetic": true, "format": 2}', "line 1"),
    ],
)
def test_what_is_no_recording_is_refused_with_the_line(
    tmp_path: Path, text: str, where: str
) -> None:
    path = tmp_path / "recording.jsonl"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=f"{where}.*record it anew"):
        Replay(path)
