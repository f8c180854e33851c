"""Memory can be measured with a few drawn images and a file that is not so large."""

from benchmarks.worker_memory import Scale, measure_at


def test_a_workers_memory_can_be_measured() -> None:
    many, large = measure_at(Scale(images=640, large=(640, 480), crops=1, real=False)).parts
    assert list(many.rounds) == ["before", "after 10%", "after 50%", "after 100%", "peak"]
    assert many.medians()["peak"] >= many.medians()["before"] > 1
    assert set(large.rounds) == {"Pillow, decoded whole", "one crop by the engine"}
    assert large.medians()["Pillow, decoded whole"] > 0
