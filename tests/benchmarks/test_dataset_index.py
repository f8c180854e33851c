"""The benchmark of the index runs on little data."""

from benchmarks import dataset_index


def test_the_cost_of_an_index_can_be_measured() -> None:
    report = dataset_index.measure(quick=True)
    assert set(report.rounds) == {"1,000 samples", "100,000 samples"}
    assert all(value > 0 for value in report.medians().values())
    assert "| MiB resident | µs a sample | MiB |" in report.table()
