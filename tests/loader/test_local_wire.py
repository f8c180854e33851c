"""What the ranks of a host and the process that serves them say to each other."""

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ddlp.core.errors import Conflict, DdlpError, WaitTimeout
from ddlp.core.pipeline import Pipeline
from ddlp.loader.local_run import LocalRun
from ddlp.loader.local_wire import Answer, Ask, Caller, HostEnded, Lines, RunOrder


@pytest.fixture
def pair() -> Iterator[tuple[Caller, Lines]]:
    """A rank's end of a connection, and the other one."""
    mine, other = socket.socketpair()
    with mine, other:
        yield Caller(mine), Lines(other)


def answering(lines: Lines, *answers: Callable[[Ask], Answer]) -> threading.Thread:
    """Answer one question, perhaps in several words."""

    def run() -> None:
        line = lines.receive()
        assert line is not None
        for answer in answers:
            lines.send(answer(Ask.model_validate_json(line)))

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_signs_of_life_and_late_answers_are_passed_over(pair: tuple[Caller, Lines]) -> None:
    caller, lines = pair
    thread = answering(
        lines,
        lambda ask: Answer(number=ask.number, later=True),
        lambda ask: Answer(number=ask.number - 1, body="of the question before"),
        lambda ask: Answer(number=ask.number, body="right"),
    )
    assert caller.ask("heads", (0, 1), 30) == "right"
    thread.join()


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [(Conflict("no"), Conflict, "^no$"), (ValueError("odd"), DdlpError, "^ValueError: odd$")],
)
def test_an_error_is_raised_where_it_was_asked(
    pair: tuple[Caller, Lines], error: Exception, kind: type[Exception], words: str
) -> None:
    caller, lines = pair
    thread = answering(lines, lambda ask: Answer.failed(ask.number, error))
    with pytest.raises(kind, match=words):
        caller.ask("damaged", None, 30)
    thread.join()


def test_silence_ends_after_the_patience_and_says_what_was_asked(
    pair: tuple[Caller, Lines],
) -> None:
    caller, _ = pair
    with pytest.raises(WaitTimeout, match=r"did not answer \(begin\)"):
        caller.ask("begin", None, 0.05)


def test_an_end_of_the_connection_says_what_to_do(pair: tuple[Caller, Lines]) -> None:
    caller, lines = pair
    lines.connection.close()
    with pytest.raises(HostEnded, match="has ended; start all ranks again"):
        caller.ask("exchange", None, 30)


def test_lines_that_come_in_pieces_or_together_are_told_apart() -> None:
    mine, other = socket.socketpair()
    with mine, other:
        lines = Lines(other)
        mine.sendall(b'{"a":')
        mine.sendall(b"1}\nsecond\nthi")
        mine.shutdown(socket.SHUT_WR)
        assert [lines.receive() for _ in range(3)] == [b'{"a":1}', b"second", None]


def test_a_run_in_words_means_the_same_run_whoever_asks_for_how_many_workers() -> None:
    run = LocalRun(
        data=Path("/data"),
        pipeline=Pipeline.preset("cifar-val"),
        batch_size=4,
        epochs=None,
        seed=1,
        strategy="wrr",
        workers=2,
    )
    order = RunOrder.of(run)
    again = RunOrder.model_validate_json(order.model_dump_json())
    assert again.run() == LocalRun(**{**vars(run), "pipeline": again.run().pipeline})
    assert again.run().pipeline.hash == run.pipeline.hash
    fewer = order.model_copy(update={"workers": 1})
    assert fewer.identity(2) == order.identity(2) != order.identity(3)
    assert order.model_copy(update={"batch_size": 5}).identity(2) != order.identity(2)
