"""Work is spread over threads; its results keep their order, and an error ends it."""

import threading
import time
from collections.abc import Iterator

import pytest

from ddlp.core.dataset.parallel import in_order


def nothing() -> None:
    pass


def test_results_come_in_order_however_long_each_takes() -> None:
    def work(number: int) -> int:
        time.sleep(0.001 * (number * 7 % 5))
        return number * number

    chunks = [[n, n + 1, n + 2] for n in range(0, 90, 3)]
    results = [one for chunk in in_order(work, chunks, 4, nothing) for one in chunk]
    assert results == [number * number for number in range(90)]


def test_only_so_much_is_taken_ahead() -> None:
    taken = 0

    def chunks() -> Iterator[list[int]]:
        nonlocal taken
        for number in range(1000):
            taken += 1
            yield [number]

    results = in_order(lambda number: number, chunks(), 2, nothing)
    for number in range(100):
        assert next(results) == [number]
        assert taken <= number + 9
    results.close()  # type: ignore[attr-defined]


def test_an_error_ends_it_and_the_threads() -> None:
    def work(number: int) -> int:
        if number == 5:
            raise LookupError("five")
        return number

    before = threading.active_count()
    with pytest.raises(LookupError, match="five"):
        list(in_order(work, ([n] for n in range(10_000)), 3, nothing))
    assert threading.active_count() == before
