"""The contest runs with few drawn images, and whoever cannot take part is named."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import contest, small_pictures
from benchmarks.contest import Entry, LeftOut, Line
from benchmarks.image_path import JOBS, OURS, REFERENCE, Scale, measure_at
from benchmarks.report import Report
from benchmarks.task import CIFAR_TRAIN, Task

OUR_NAMES = {entry.name for entry in OURS}
TINY = Scale(
    photos=16,
    small_pictures=32,
    rounds=2,
    least_s=0,
    real=False,
    peers=False,
    two_cores=False,
)
SMALL_JOBS = tuple(replace(job, batch=8) for job in JOBS)


def check(report: Report) -> None:
    left_out = any(note.startswith(f"left out: {REFERENCE.name}") for note in report.notes)
    assert set(report.rounds) == OUR_NAMES | (set() if left_out else {REFERENCE.name})
    assert all(len(rates) == TINY.rounds and min(rates) > 0 for rates in report.rounds.values())
    assert set(report.beside["CPU µs/image"]) == set(report.rounds)
    assert "drawn" in report.data or "noise" in report.data


@pytest.mark.long
def test_every_job_is_measured_on_one_core() -> None:
    reports = measure_at(TINY, SMALL_JOBS)
    assert [part.question[0] for part in reports.parts] == ["A", "B", "C"]
    for part in reports.parts:
        check(part)
        assert "one core" in part.question
    assert reports.table().count("| DDLP, uint8 |") == 3
    assert len(reports.found()["parts"]) == 3


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is only one core")
@pytest.mark.long
def test_two_cores_are_compared_with_one() -> None:
    one, two = measure_at(replace(TINY, two_cores=True), SMALL_JOBS[:1]).parts
    check(one)
    assert set(two.beside["times one core"]) == set(two.rounds) == set(one.rounds)
    assert "2 cores" in two.question


def small_task(folder: Path) -> Task:
    path, _ = small_pictures.arrange(folder, 32, real=False)
    return Task(
        contestant="",
        variant="",
        job=CIFAR_TRAIN,
        data=str(path),
        images=32,
        different=32,
        batch=8,
        cores=(min(os.sched_getaffinity(0)),),
        scratch=str(folder),
    )


def test_a_contestant_works_when_asked(tmp_path: Path) -> None:
    line = Line(Entry("batched PyTorch", "batched_torch"), small_task(tmp_path))
    try:
        outcome = line.round()
    finally:
        line.close()
    assert outcome.images >= 32
    assert outcome.images % 32 == 0
    assert outcome.wall_s > 0
    assert "torch" in line.about


def test_a_contestant_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(LeftOut, match=r"nobody: ModuleNotFoundError: .*benchmarks\.peers\.nobody"):
        Line(Entry("nobody", "nobody"), small_task(tmp_path))


def test_peers_that_are_not_installed_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contest, "PEERS_PYTHON", tmp_path / "nothing")
    with pytest.raises(LeftOut, match="FFCV: not installed; scripts/peers does it"):
        Line(Entry("FFCV", "ffcv", in_peers=True), small_task(tmp_path))


def test_processes_share_a_pass(tmp_path: Path) -> None:
    task = replace(small_task(tmp_path), cores=(0, 1))
    first, second = OURS[0].tasks(task)
    assert (first.cores, second.cores) == ((0,), (1,))
    assert first.batches + second.batches == task.batches
    assert REFERENCE.tasks(task)[0].cores == (0, 1)
    assert Task.load(second.dump()) == second


def test_a_task_is_whole_batches(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not whole batches"):
        replace(small_task(tmp_path), images=33)
