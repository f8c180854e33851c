"""Spreads work over threads while its results keep their order and its memory a bound."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_AHEAD = 4
_POLL_S = 0.1


def in_order(
    work: Callable[[T], R], chunks: Iterable[list[T]], threads: int, poll: Callable[[], None]
) -> Iterator[list[R]]:
    """The results of each chunk in turn; what `poll` raises ends it after the items at hand."""
    stopping = threading.Event()
    pending: deque[Future[list[R]]] = deque()

    def one_chunk(chunk: list[T]) -> list[R]:
        return [work(item) for item in chunk if not stopping.is_set()]

    with ThreadPoolExecutor(threads, thread_name_prefix="scan") as pool:
        try:
            for chunk in chunks:
                pending.append(pool.submit(one_chunk, chunk))
                if len(pending) >= _AHEAD * threads:
                    yield _result(pending.popleft(), poll)
            while pending:
                yield _result(pending.popleft(), poll)
        finally:
            stopping.set()
            pool.shutdown(wait=True, cancel_futures=True)


def _result(future: Future[list[R]], poll: Callable[[], None]) -> list[R]:
    while not wait([future], timeout=_POLL_S).done:
        poll()
    return future.result()
