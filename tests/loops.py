"""Training loops in processes of their own, which a test leads step by step and may kill.

A loop counts what it received itself, and says so after each order. Errors are raised in the test.
"""

import logging
import multiprocessing
import os
import signal
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

from ddlp.core import errors
from ddlp.loader import DualLoader
from ddlp.loader.tensors import TensorBatch

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["torch", "ddlp.loader", __name__])
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Got:
    """One batch as the training loop received it."""

    epoch: int
    samples: tuple[int, ...]
    pixels: int
    """A checksum of its images."""


@dataclass(frozen=True)
class Stand:
    """What the loader says of itself."""

    epoch: int
    epochs: int | None
    rank: int
    world_size: int
    batches: int


def counts(got: Iterable[Got]) -> Counter[int]:
    """How often each sample came."""
    return Counter(chain.from_iterable(batch.samples for batch in got))


class Loop:
    """A process that trains; of `ranks`, it is one of a job that a launcher started."""

    def __init__(self, rank: int = 0, ranks: int = 1, job: str = "job", **variables: str) -> None:
        placed = {
            "RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(ranks),
            "TORCHELASTIC_RUN_ID": job,
        }
        self._pipe, other = _context.Pipe()
        self._process = _context.Process(
            target=_obey, args=(other, placed | variables), daemon=True
        )
        self._process.start()
        other.close()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """End it: in order where the test went well, else at once."""
        if error is None and self._process.is_alive():
            self.tell("end")
            self._process.join(_PATIENCE_S)
        self.kill()
        self._pipe.close()

    # Orders

    def open(self, **arguments: Any) -> Stand:
        """Create the loader, of a server's run or, with `data`, a local one."""
        found: Stand = self.ask("open", arguments)
        return found

    def take(self, batches: int | None = None) -> list[Got]:
        """Train with so many batches of the pass under way or a new one; with all by default."""
        found: list[Got] = self.ask("take", batches)
        return found

    def stand(self, name: str = "") -> Stand:
        """What the loader says of itself."""
        found: Stand = self.ask("stand", name)
        return found

    def state(self) -> dict[str, Any]:
        """Save the loader's state."""
        found: dict[str, Any] = self.ask("state")
        return found

    def ask(self, what: str, *arguments: Any) -> Any:
        """Give an order, and wait for what came of it."""
        self.tell(what, *arguments)
        return self.answer()

    def tell(self, what: str, *arguments: Any) -> None:
        """Give an order."""
        self._pipe.send((what, arguments))

    def answer(self) -> Any:
        """Wait for what came of an order."""
        if not self._pipe.poll(_PATIENCE_S):
            raise AssertionError(f"the training loop {self.pid} does not answer")
        failed, found = self._pipe.recv()
        if failed is not None:
            raise getattr(errors, failed, RuntimeError)(found)
        return found

    # Harm

    def kill(self) -> None:
        """End it as the kernel does when memory runs out."""
        self._process.kill()
        self._process.join(_PATIENCE_S)

    def stop(self) -> None:
        """Have it stand still."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Have it go on."""
        os.kill(self.pid, signal.SIGCONT)


def together(loops: list[Loop], what: str, *arguments: Any) -> list[Any]:
    """Give all ranks of a job the same order, at once."""
    for loop in loops:
        loop.tell(what, *arguments)
    return [loop.answer() for loop in loops]


class _Training:
    """What a loop does at its orders, with one loader or several by name."""

    def __init__(self) -> None:
        self.loaders: dict[str, DualLoader] = {}
        self.under_way: dict[str, Iterator[TensorBatch]] = {}
        self.warnings = _Warnings()
        logging.getLogger().addHandler(self.warnings)

    def open(self, arguments: dict[str, Any], name: str = "") -> Stand:
        make = DualLoader.local if "data" in arguments else DualLoader
        self.loaders[name] = make(**{"normalize": False, **arguments})
        return self.stand(name)

    def take(self, batches: int | None, name: str = "") -> list[Got]:
        loader = self.loaders[name]
        under_way = self.under_way.pop(name, None) or loader.batches()
        epoch = loader.epoch
        found = [
            Got(epoch, tuple(batch.samples.tolist()), zlib.crc32(batch.images.contiguous().numpy()))
            for batch in islice(under_way, batches)
        ]
        if batches is not None:
            self.under_way[name] = under_way
        return found

    def leave(self, name: str = "") -> None:
        """End the pass as `break` does."""
        del self.under_way[name]

    def stand(self, name: str = "") -> Stand:
        loader = self.loaders[name]
        return Stand(loader.epoch, loader.epochs, loader.rank, loader.world_size, len(loader))

    def state(self) -> dict[str, Any]:
        return self.loaders[""].state_dict()

    def load(self, state: dict[str, Any]) -> None:
        self.under_way.clear()
        self.loaders[""].load_state_dict(state)

    def set_epoch(self, epoch: int) -> None:
        self.under_way.clear()
        self.loaders[""].set_epoch(epoch)

    def said(self) -> list[str]:
        """The warnings in this process's log."""
        return self.warnings.messages

    def served_by(self) -> int:
        """The process that serves the ranks of a local run."""
        feed: Any = self.loaders[""]._feed
        pid: int = feed._main._pid
        return pid

    def close(self) -> None:
        self.under_way.clear()
        for loader in self.loaders.values():
            loader.close()


class _Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def _obey(orders: Connection, variables: dict[str, str]) -> None:
    os.environ |= variables
    training = _Training()
    while True:
        try:
            what, arguments = orders.recv()
        except EOFError:
            return
        if what == "end":
            training.close()
            return
        try:
            orders.send((None, getattr(training, what)(*arguments)))
        except Exception as error:  # the border of the process: it is raised in the test
            names = [kind.__name__ for kind in type(error).__mro__]
            known = next((name for name in names if hasattr(errors, name)), None)
            orders.send((known or names[0], str(error)))
