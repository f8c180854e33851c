"""What was read is counted by path and reason, and told once."""

from ddlp.core.types import ReadPath
from ddlp.loader.readers.counts import ReadCounts

MMAP, HTTP = (ReadPath.MMAP, "tmpfs"), (ReadPath.HTTP, "far away")


def told(counts: ReadCounts) -> list[tuple[str, str, int, int]]:
    return [(read.path.value, read.reason, read.batches, read.bytes) for read in counts.take()]


def test_the_first_batch_by_each_way_is_news() -> None:
    counts = ReadCounts()
    assert [counts.add(way, 1) for way in (MMAP, MMAP, HTTP, MMAP, HTTP)] == [
        True,
        False,
        True,
        False,
        False,
    ]


def test_what_was_told_is_not_told_again_and_totals_stay() -> None:
    counts = ReadCounts()
    counts.add(MMAP, 10)
    counts.add(MMAP, 20)
    assert told(counts) == [("mmap", "tmpfs", 2, 30)]
    assert told(counts) == []
    counts.add(HTTP, 100)
    counts.add(MMAP, 1)
    assert told(counts) == [("mmap", "tmpfs", 1, 1), ("http", "far away", 1, 100)]
    assert [(read.path.value, read.bytes) for read in counts.totals()] == [
        ("http", 100),
        ("mmap", 31),
    ]
