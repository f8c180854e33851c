"""One start of a training job: its ranks in processes, in step, each keeping account of its own.

The ranks wait for each other at each step, as an all-reduce makes them do. What a rank received it
writes to a file of its own before it goes on, so that a kill takes nothing of the account.
"""

import json
import multiprocessing
import os
import signal
import threading
import traceback
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from ddlp.loader import DualLoader

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["torch", "ddlp.loader", __name__])
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Received:
    """One batch, as the training loop got it."""

    epoch: int
    samples: tuple[int, ...]
    pixels: tuple[int, ...]
    """A checksum of each sample's."""


@dataclass(frozen=True)
class Orders:
    """What the ranks of one start do."""

    where: dict[str, Any]
    """Arguments of DualLoader, or of DualLoader.local."""
    local: bool
    ranks: int
    epochs: int
    start: int | str | None = None
    state: dict[str, Any] | None = None
    save_at: tuple[int, ...] = ()
    """Steps after which a state is saved, counted over the whole start."""
    leave_at: int | None = None
    """The step after which the pass is left, for the next epoch."""
    end_at: int | None = None
    """The step after which it ends; None: it trains until all is done."""
    how: str = "close"
    """How it ends there: close, or wait for a kill."""


@dataclass
class Outcome:
    """What became of it."""

    received: list[list[Received]]
    """By rank."""
    states: dict[int, dict[str, Any]] = field(default_factory=dict)
    """By the step that they were saved after."""
    errors: list[str] = field(default_factory=list)
    began: tuple[int, int] | None = None
    """The epoch that rank 0 began with, and how many of its batches were delivered before."""


def run_job(orders: Orders, folder: Path, on_end: Any = None) -> Outcome:
    """Start all ranks, end them as ordered, and read their accounts."""
    folder.mkdir()
    barrier = _context.Barrier(orders.ranks)
    where = str(folder)
    ranks: list[BaseProcess] = [
        _context.Process(target=_train, args=(orders, rank, where, barrier), daemon=True)
        for rank in range(orders.ranks)
    ]
    for process in ranks:
        process.start()
    waits = orders.end_at is not None and orders.how != "close"
    if waits:
        _wait_for(folder / "waiting", ranks)
        if on_end is not None:
            on_end()
        _kill(ranks if orders.how == "kill" else ranks[-1:])
        _kill(ranks)  # what is left hangs in its all-reduce: a launcher ends it
    for process in ranks:
        process.join(2 * _PATIENCE_S)
        if process.exitcode is None:
            _kill([process])
            raise AssertionError(f"a rank did not end: {_errors(folder)}")
    errors = _errors(folder)
    received = [list(_read(folder / f"rank-{rank}")) for rank in range(orders.ranks)]
    states = {
        int(path.name.split("-")[1]): json.loads(path.read_text())
        for path in folder.glob("state-*")
    }
    began = folder / "began"
    place = tuple(json.loads(began.read_text())) if began.exists() else None
    return Outcome(received, states, errors, place)


def _train(orders: Orders, rank: int, place: str, barrier: Any) -> None:
    folder = Path(place)
    os.environ |= {
        "RANK": str(rank),
        "WORLD_SIZE": str(orders.ranks),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(orders.ranks),
        "TORCHELASTIC_RUN_ID": place,
    }
    try:
        _loop(orders, rank, folder, barrier)
    except threading.BrokenBarrierError:
        return  # another rank failed, and says why
    except BaseException as error:
        barrier.abort()
        (folder / f"error-{rank}").write_text("".join(traceback.format_exception(error)))
        raise SystemExit(1) from error


def _loop(orders: Orders, rank: int, folder: Path, barrier: Any) -> None:
    if orders.local:
        loader = DualLoader.local(**orders.where)
    else:
        loader = DualLoader(**orders.where, start=orders.start)  # type: ignore[arg-type]
    step = 0
    with loader, open(folder / f"rank-{rank}", "a", buffering=1) as account:
        if orders.state is not None:
            loader.load_state_dict(orders.state)
        elif orders.local and isinstance(orders.start, int):
            loader.set_epoch(orders.start)
        while loader.epoch < orders.epochs:
            epoch = loader.epoch
            for batch in loader.batches():
                pixels = tuple(zlib.crc32(image.contiguous().numpy()) for image in batch.images)
                if rank == 0 and step == 0:
                    course = loader._course
                    before = course.position.at - course.plan.world_size
                    (folder / "began").write_text(json.dumps([epoch, before]))
                got = Received(epoch, tuple(batch.samples.tolist()), pixels)
                account.write(json.dumps(asdict(got)) + "\n")
                barrier.wait(_PATIENCE_S)
                step += 1
                if rank == 0 and step in orders.save_at:
                    _save(folder, step, loader.state_dict())
                if step == orders.end_at:
                    _end(orders, rank, folder, barrier)
                    return
                if step == orders.leave_at:
                    break


def _save(folder: Path, step: int, state: dict[str, Any]) -> None:
    (folder / ".state").write_text(json.dumps(state))
    (folder / ".state").rename(folder / f"state-{step}")


def _end(orders: Orders, rank: int, folder: Path, barrier: Any) -> None:
    barrier.wait(_PATIENCE_S)
    if orders.how == "close":
        return
    if rank == 0:
        (folder / "waiting").touch()
    signal.pause()


def _wait_for(path: Path, ranks: list[BaseProcess]) -> None:
    pause = threading.Event()
    for _ in range(int(_PATIENCE_S / 0.01)):
        if path.exists():
            return
        if any(process.exitcode is not None for process in ranks):
            raise AssertionError(f"a rank ended early: {_errors(path.parent)}")
        pause.wait(0.01)
    raise AssertionError(f"the job does not come on: {_errors(path.parent)}")


def _kill(ranks: list[BaseProcess]) -> None:
    for process in ranks:
        if process.is_alive():
            process.kill()


def _errors(folder: Path) -> list[str]:
    return [path.read_text() for path in sorted(folder.glob("error-*"))]


def _read(path: Path) -> Iterator[Received]:
    if not path.exists():
        return
    for line in path.read_text().splitlines():
        kept = json.loads(line)
        yield Received(kept["epoch"], tuple(kept["samples"]), tuple(kept["pixels"]))
