"""The thread that reads ahead: how far it goes, and how its errors and waits reach the trainer."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ddlp.core.batchfile import BatchId
from ddlp.core.bursts import EVERY_S
from ddlp.core.errors import Conflict, DamagedBatch, DdlpError, WaitTimeout
from ddlp.core.messages import Fed, FedBatch, FeedRequest
from ddlp.core.types import RunState
from ddlp.loader import DualLoader, passes, prefetch
from ddlp.loader.readers.base import Loaded
from ddlp.loader.readers.choice import Readers
from tests.conftest import SMALL_PIPELINE, make_images


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_images(tmp_path_factory.mktemp("data") / "few", 40)


def local(images: Path, **options: Any) -> DualLoader:
    return DualLoader.local(
        images, **{"pipeline": SMALL_PIPELINE, "batch_size": 2, "workers": 1, **options}
    )


@pytest.fixture
def loader(few: Path) -> Iterator[DualLoader]:
    with local(few) as opened:
        yield opened


def spoil(loader: DualLoader, exchange: Callable[[FeedRequest], Fed]) -> None:
    feed: Any = loader._feed
    feed.exchange = exchange


@pytest.mark.parametrize("prefetch", [1, 2, 5])
def test_no_more_is_read_ahead_than_asked_for(few: Path, prefetch: int) -> None:
    ahead: list[int] = []
    with local(few, prefetch=prefetch) as loader:
        exchange = loader._feed.exchange

        def listen(request: FeedRequest) -> Fed:
            ahead.append(request.received + request.want - request.consumed)
            return exchange(request)

        spoil(loader, listen)
        assert sum(1 for _ in loader) == 20
    # What the trainer has at hand comes on top.
    assert max(ahead) <= prefetch + 1


def test_an_error_of_the_thread_is_raised_in_the_trainer_and_says_where_it_happened(
    loader: DualLoader,
) -> None:
    def fail(request: FeedRequest) -> Fed:
        raise OSError("the cable was pulled")

    spoil(loader, fail)
    with pytest.raises(OSError, match="the cable was pulled") as failure:
        list(loader)
    assert failure.value.__notes__ == [
        "This happened in the thread that reads ahead, while asking for step 0 of epoch 0."
    ]


def test_an_error_while_reading_names_the_batch_and_its_place(
    loader: DualLoader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise PermissionError("it may not be read")

    monkeypatch.setattr(Readers, "read", fail)
    with pytest.raises(PermissionError) as failure:
        list(loader)
    [note] = failure.value.__notes__
    assert "while reading batch 0 of epoch 0 from file:///" in note


def test_an_error_at_the_end_of_an_epoch_is_raised_too(loader: DualLoader) -> None:
    exchange = loader._feed.exchange

    def fail_at_the_end(request: FeedRequest) -> Fed:
        if request.want == 0:
            raise OSError("the server is gone")
        return exchange(request)

    spoil(loader, fail_at_the_end)
    with pytest.raises(OSError, match="the server is gone"):
        list(loader)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (RunState.FAILED, "run .* failed: the reason"),
        (RunState.CANCELLED, "run .* was cancelled"),
        (RunState.COMPLETED, "run few is completed: all its epochs are over"),
    ],
)
def test_a_run_that_is_over_ends_the_pass_with_the_reason(
    loader: DualLoader, state: RunState, message: str
) -> None:
    spoil(loader, lambda request: Fed(batches=[], done=False, state=state, reason="the reason"))
    with pytest.raises(DdlpError, match=message):
        list(loader)


def test_a_wait_ends_and_names_the_batch_its_holder_and_what_to_do(few: Path) -> None:
    with local(few, strategy="cpu", wait_timeout_s=2.0) as loader:
        for pid in loader._feed.worker_pids:  # type: ignore[attr-defined]
            os.kill(pid, signal.SIGSTOP)
        with pytest.raises(
            WaitTimeout,
            match=r"no batch for 2 s; waiting for: batch 0 of epoch 0, held by cpu-0 for .* "
            r"its lease ends in .* raise wait_timeout_s",
        ):
            list(loader)


def test_what_is_waited_for_can_be_asked_while_waiting_and_is_nothing_otherwise(few: Path) -> None:
    with local(few) as loader:
        assert loader.waiting_for is None
        batches = loader.batches()
        next(batches)
        batches.close()
        assert loader.waiting_for is None


def test_a_paused_run_may_be_waited_for_without_end(few: Path) -> None:
    with local(few, wait_timeout_s=1.0) as loader:
        exchange = loader._feed.exchange
        asked: list[float] = []

        def paused_at_first(request: FeedRequest) -> Fed:
            asked.append(request.wait_s)
            if len(asked) <= 4:
                threading.Event().wait(0.5)  # as late as a server that waits
                return Fed(batches=[], done=False, state=RunState.PAUSED)
            return exchange(request)

        spoil(loader, paused_at_first)
        assert sum(1 for _ in loader) == 20


# What is said


def test_a_wait_always_names_something(
    few: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "_SAY_AFTER_S", 0.1)

    def nothing(_: FeedRequest) -> Fed:
        threading.Event().wait(0.1)
        return Fed(batches=[], done=False, state=RunState.RUNNING)

    with local(few, wait_timeout_s=1.0) as loader:
        spoil(loader, nothing)
        with pytest.raises(WaitTimeout, match="waiting for: asking for step 0 of epoch 0; raise"):
            list(loader)
    assert "still waiting for: asking for step 0 of epoch 0" in caplog.messages


def test_an_answer_that_does_not_come_is_what_is_waited_for(
    few: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch, "_LATE_S", 0.2)
    over = threading.Event()
    answers = iter([Fed(batches=[], done=False, state=RunState.RUNNING, waiting_for="batch 7")])

    def hang(_: FeedRequest) -> Fed:
        for answer in answers:
            return answer
        over.wait(10)
        raise DdlpError("it ends")

    with local(few, wait_timeout_s=1.0) as loader:
        spoil(loader, hang)
        threading.Timer(2.0, over.set).start()
        with pytest.raises(WaitTimeout, match="an answer from the run in this process, asking"):
            list(loader)


@pytest.mark.parametrize("batches", [1, 3, 20])
def test_the_batch_at_hand_counts_as_received_when_a_pass_is_left(few: Path, batches: int) -> None:
    said: list[int] = []
    with local(few, epochs=2) as loader:
        exchange = loader._feed.exchange

        def listen(request: FeedRequest) -> Fed:
            said.append(request.consumed)
            return exchange(request)

        spoil(loader, listen)
        for number, _ in enumerate(loader, 1):
            if number == batches:
                break
        assert said[-1] == batches


def test_an_epoch_that_ends_before_all_of_it_came_is_no_epoch(few: Path) -> None:
    def over(_: FeedRequest) -> Fed:
        return Fed(batches=[], done=True, state=RunState.RUNNING)

    with local(few) as loader:
        spoil(loader, over)
        with pytest.raises(Conflict, match=r"got 0 of its 20 batches of epoch 0, .*set_epoch\(0\)"):
            list(loader)


def test_many_batches_that_are_made_again_are_told_in_few_lines(
    few: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, damaged = Readers.read, set[int]()

    def once_damaged(self: Readers, fed: FedBatch, expected: BatchId) -> Loaded:
        if fed.index not in damaged:
            damaged.add(fed.index)
            raise DamagedBatch(f"batch {fed.index} has a wrong checksum")
        return read(self, fed, expected)

    monkeypatch.setattr(Readers, "read", once_damaged)
    began = time.monotonic()
    with local(few) as loader:
        assert sum(1 for _ in loader) == 20
    lines = [line for line in caplog.messages if "made again" in line]
    periods = 1 + (time.monotonic() - began) // EVERY_S
    assert len(lines) <= periods + 1
    assert "is made again: batch" in lines[0]
    counts = [int(line.split()[0]) if line[0].isdigit() else 1 for line in lines]
    assert sum(counts) == len(damaged) == 20
