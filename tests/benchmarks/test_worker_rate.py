"""The worker's rate can be measured with a few drawn images."""

from benchmarks.worker_rate import Scale, measure_at


def test_the_workers_rate_can_be_measured() -> None:
    report = measure_at(Scale(batch=8, batches=6, rounds=2, real=False))
    assert set(report.medians()) == {"bare engine", "Celery worker"}
    assert all(rate > 0 for rate in report.medians().values())
    assert len(report.beside["ms a batch outside of making it"]["Celery worker"]) == 2
