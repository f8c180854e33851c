"""An index costs a worker little memory and no time to open, however many samples it has."""

from pathlib import Path

import pytest

from benchmarks.dataset_index import use_elsewhere, write_synthetic

MIB = 1 << 20


def test_resident_memory_does_not_grow_with_the_index(tmp_path: Path) -> None:
    write_synthetic(tmp_path / "i.idx", 200_000, name_bytes=400)
    assert (tmp_path / "i.idx").stat().st_size > 80 * MIB
    found = use_elsewhere(tmp_path / "i.idx")
    assert found["opened_bytes"] < 4 * MIB
    assert found["most_bytes"] < 48 * MIB
    assert found["left_bytes"] < 16 * MIB


@pytest.mark.long
@pytest.mark.timeout(900)
def test_ten_million_samples_open_at_once_and_cost_little(tmp_path: Path) -> None:
    write_synthetic(tmp_path / "i.idx", 10_000_000)
    found = use_elsewhere(tmp_path / "i.idx")
    assert found["samples"] == 10_000_000
    assert found["open_s"] < 0.1
    assert found["most_bytes"] < 64 * MIB
