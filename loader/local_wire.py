"""What the ranks of a host and the process that serves them say to each other: JSON, line by line.

A rank asks, one question at a time on each connection; the answer carries the number of its
question. Until there is one, signs of life come instead, so that a long scan is no silence.
"""

import socket
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError

from ddlp.core import errors
from ddlp.core.errors import DdlpError, Unavailable, WaitTimeout
from ddlp.core.messages import Attached, Message
from ddlp.core.pipeline import Pipeline, PipelineSpec
from ddlp.core.types import BadPolicy, TailPolicy
from ddlp.loader.feed import Going
from ddlp.loader.local_run import LocalRun

_CHUNK_BYTES = 1 << 16
_CREDENTIALS = struct.Struct("3i")

Went: TypeAdapter[Going] = TypeAdapter(Going)

Question = Literal["join", "exchange", "damaged", "heads", "bad_samples", "begin", "leave"]


class HostEnded(Unavailable):
    """The process that serves the ranks is there no more."""


class RunOrder(Message):
    """A run in words: what all ranks must agree on."""

    data: Path
    pipeline: PipelineSpec
    batch_size: int
    epochs: int | None
    seed: int
    strategy: str
    workers: int
    csd_speed: float | None
    on_bad: BadPolicy
    max_bad_share: float | None
    tail: TailPolicy
    reorder_window: int | None
    reshuffle: bool | None
    as_classes: bool

    @classmethod
    def of(cls, run: LocalRun) -> Self:
        """The words for a run."""
        place = {"data": run.data.resolve(), "pipeline": run.pipeline.spec}
        return cls.model_validate(vars(run) | place)

    def run(self) -> LocalRun:
        """The run that they mean."""
        return LocalRun(**dict(self) | {"pipeline": Pipeline.parse(self.pipeline)})

    def differences(self, other: Self) -> list[str]:
        """What differs from another one, in words."""
        mine, its = (order.model_dump(mode="json", exclude={"workers"}) for order in (self, other))
        names = [name for name in mine if mine[name] != its[name]]
        return [f"{name}={mine[name]!r:.200}, not {its[name]!r:.200}" for name in names]

    def identity(self, world_size: int) -> str:
        """What tells it from other runs; how many processes make it is rank 0's affair."""
        return f"{world_size} {self.model_dump_json(exclude={'workers'})}"


class HostOrder(Message):
    """What the process beside rank 0 is to do."""

    run: RunOrder
    world_size: int
    folder: Path
    """Where the ranks meet."""


class Ask(Message):
    """A rank's question."""

    number: int
    what: Question
    body: Any = None


class Answer(Message):
    """The answer to a question, or a sign of life until there is one."""

    number: int
    body: Any = None
    error: str | None = None
    """The kind of error that it came to."""
    message: str = ""
    later: bool = False

    @classmethod
    def failed(cls, number: int, error: Exception) -> Self:
        """The answer where something went wrong."""
        if isinstance(error, DdlpError):
            return cls(number=number, error=type(error).__name__, message=str(error))
        message = f"{type(error).__name__}: {error}"
        return cls(number=number, error="DdlpError", message=message)

    def check(self) -> None:
        """Raise the error that it carries."""
        if self.error is not None:
            kind = getattr(errors, self.error, DdlpError)
            raise kind(self.message)


class Join(Message):
    """A rank attaches, with one of its two connections."""

    rank: int
    world_size: int
    main: bool
    """Whether batches are asked for on it: a rank is gone when that one is."""


class Joined(Message):
    """What a rank gets to know as it attaches."""

    attached: Attached
    warnings: list[str] = Field([])


def peer_pid(connection: socket.socket) -> int | None:
    """The process at the other end; None where the system does not say."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    raw = connection.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    pid: int = _CREDENTIALS.unpack(raw)[0]
    return pid or None


class Lines:
    """Messages over a connection, one a line."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._received = bytearray()

    def send(self, message: Message) -> None:
        """Send one message."""
        self.connection.sendall(message.model_dump_json().encode() + b"\n")

    def receive(self) -> bytes | None:
        """The next line, None at the end; a connection with a timeout may raise TimeoutError."""
        while (end := self._received.find(b"\n")) < 0:
            chunk = self.connection.recv(_CHUNK_BYTES)
            if not chunk:
                return None
            self._received += chunk
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line


class Caller:
    """A rank's end of a connection; threads take turns."""

    def __init__(self, connection: socket.socket) -> None:
        self._lines = Lines(connection)
        self._turn = threading.Lock()
        self._number = 0
        self._pid: int | None = None

    def connect(self, path: Path) -> None:
        """Connect to the socket at a path."""
        self._lines.connection.connect(str(path))
        self._pid = peer_pid(self._lines.connection)

    def ask(self, what: Question, body: Any, patience_s: float) -> Any:
        """Ask, and return the answer's body; silence is an error after a while."""
        with self._turn:
            self._number += 1
            ask = Ask(number=self._number, what=what, body=body)
            try:
                self._lines.connection.settimeout(patience_s)
                self._lines.send(ask)
                return self._await(ask, patience_s)
            except TimeoutError as error:
                raise WaitTimeout(
                    f"{self._who} did not answer ({what}) for {patience_s:.0f} s; see whether it "
                    "is stopped, and start all ranks again"
                ) from error
            except (OSError, ValidationError) as error:
                raise self._gone() from error

    def _await(self, ask: Ask, patience_s: float) -> Any:
        deadline = time.monotonic() + patience_s
        while True:
            line = self._lines.receive()
            if line is None:
                raise self._gone()
            answer = Answer.model_validate_json(line)
            if answer.number != ask.number:
                continue  # of a question that an interruption cut off
            if answer.later:
                deadline = time.monotonic() + patience_s
            elif time.monotonic() > deadline:
                raise TimeoutError
            else:
                answer.check()
                return answer.body

    def say_leave(self) -> None:
        """Say that this rank is done, even while another thread waits for an answer."""
        with suppress(OSError):  # the other end was quicker
            self._lines.send(Ask(number=0, what="leave"))

    def close(self) -> None:
        """End the connection, also for forked children that hold it."""
        with suppress(OSError):
            self._lines.connection.shutdown(socket.SHUT_RDWR)
        self._lines.connection.close()

    @property
    def _who(self) -> str:
        known = "" if self._pid is None else f" (pid {self._pid})"
        return f"the process{known} that prepares this run's batches"

    def _gone(self) -> HostEnded:
        return HostEnded(
            f"{self._who} has ended; start all ranks again, from the last state that was saved"
        )
