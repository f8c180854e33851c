"""The contest between files and records runs with few drawn images."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import records, storage_forms
from benchmarks.records import FILES, LOADER_FILES, LOADER_RECORDS, RECORDS, Scale
from benchmarks.task import IMAGENET_TRAIN

TINY = Scale(photos=16, batch=8, rounds=1, least_s=0, real=False, peers=False, two_cores=False)


def test_packing_and_both_forms_can_be_measured(tmp_path: Path) -> None:
    data = records.Data(tmp_path, TINY)
    packing = data.packing()
    assert packing.medians()["packing"] > 0
    assert "times the bytes of the JPEGs" in packing.notes[0]
    report = records.contest(data, "cold", (FILES, RECORDS), cold=True)
    assert set(report.rounds) == {FILES.name, RECORDS.name}
    assert report.notes[-1].startswith(f"{RECORDS.name} ÷ {FILES.name}: ")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_everything_can_be_measured(tmp_path: Path) -> None:
    parts = records.measure_at(TINY).parts
    assert all(rate > 0 for part in parts for rate in part.medians().values())
    assert {LOADER_FILES.name, LOADER_RECORDS.name} <= {
        way for part in parts for way in part.rounds
    }
    [through] = records.measure_loader_at(TINY, (4,)).parts
    assert min(through.medians().values()) > 0
    data = records.Data(tmp_path, replace(TINY, photos=8))
    forms = storage_forms.measure(data.task(IMAGENET_TRAIN), 1, 0)
    sizes = {name: size for name, [size] in forms.beside["size / JPEGs"].items()}
    assert sizes["raw RGB"] > sizes["packed records"] > 1
