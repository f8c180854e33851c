"""Packs a whole dataset on this machine, by several processes at a time.

A packing that was cut off goes on where it was: shards that are whole are not made again. A child
that dies takes one shard with it, and is named by it.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from ddlp.core.dataset import DatasetIndex
from ddlp.core.dataset.shards import parse_shard_name
from ddlp.core.errors import Conflict, DdlpError, InvalidInput, from_status
from ddlp.core.records.options import PackOptions
from ddlp.core.records.orders import PackLine, PackRequest
from ddlp.core.records.packing import PER_SHARD, ShardSummary, check_packable, plan_shards
from ddlp.core.records.progress import PackProgress, Report, Stop, ignore, never
from ddlp.core.records.unfinished import make_folder, sweep

_MODULE = "ddlp.core.records.pack_process"
_POLL_S = 0.2
_GONE_S = 5.0


@dataclass(frozen=True)
class PackSummary:
    """What packing came to."""

    shards: int
    found: int
    """Shards that were there already."""
    samples: int
    records: int
    skipped: int
    origin_bytes: int
    bytes: int


def pack_locally(
    index: DatasetIndex,
    options: PackOptions,
    into: Path,
    processes: int | None = None,
    report: Report = ignore,
    stop: Stop = never,
    per_shard: int = PER_SHARD,
) -> PackSummary:
    """Pack all samples into a folder; what it holds of the same packing is kept.

    `report` and `stop` are called a few times a second by this thread. Whatever ends it before its
    time, whole shards stay and nothing else does.
    """
    check_packable(index, options)
    plan = plan_shards(index.samples, per_shard)
    _check_folder(into, len(plan))
    request = PackRequest(
        index_path=index.path.absolute(),
        options=asdict(options),
        into=into.absolute(),
        per_shard=per_shard,
    )
    count = min(processes or os.cpu_count() or 1, len(plan))
    try:
        with _children(request, count) as children:
            made = _pack(children, plan, report, stop)
    finally:
        sweep(into)
    return PackSummary(
        shards=len(made),
        found=sum(shard.found for shard in made),
        samples=sum(shard.samples for shard in made),
        records=sum(shard.records for shard in made),
        skipped=sum(shard.skipped for shard in made),
        origin_bytes=sum(shard.origin_bytes for shard in made),
        bytes=sum(shard.bytes for shard in made),
    )


def _check_folder(into: Path, shards: int) -> None:
    """Refuse to mix packings."""
    make_folder(into)
    for name in os.listdir(into):
        parsed = parse_shard_name(name)
        if parsed is not None and parsed[1] != shards:
            raise InvalidInput(
                f"{into} holds {name}, a shard of another packing (this one is of {shards} "
                "shards); choose an empty folder, or remove it"
            )


class _Child:
    """A process at work on one shard at a time."""

    def __init__(self, request: PackRequest) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULE, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the parent, which then ends it
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders, self._answers = self._process.stdin, self._process.stdout
        self._held = b""
        self.shard: int | None = None
        self.progress = PackProgress()
        self._order(request.model_dump_json())

    def fileno(self) -> int:
        """Where it answers."""
        return self._answers.fileno()

    def begin(self, shard: int | None) -> None:
        """Have it pack a shard, or rest if there is none."""
        self.shard, self.progress = shard, PackProgress()
        if shard is not None:
            self._order(str(shard))

    def hear(self) -> ShardSummary | None:
        """Take in what it says; gives the summary of its shard once that is done."""
        got = os.read(self.fileno(), 1 << 16)
        if not got:
            raise DdlpError(self._last_words())
        *lines, self._held = (self._held + got).split(b"\n")
        for line in map(PackLine.model_validate_json, lines):
            if line.status is not None:
                raise from_status(line.status, line.reason)
            if line.progress is not None:
                self.progress = PackProgress(**line.progress)
            if line.summary is not None:
                return ShardSummary(**line.summary)
        return None

    def end(self) -> None:
        """End it at once: what it has begun is swept."""
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it waits for a disk
            self._process.wait(_GONE_S)
        for pipe in (self._orders, self._answers):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _order(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # it died, as the end of its answers will tell
            self._orders.write(line.encode() + b"\n")
            self._orders.flush()

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GONE_S)
        status = self._process.poll()
        how = f"with status {status}"
        if status is not None and status < 0:
            how = f"by {signal.Signals(-status).name}"
        place = f"at or soon after {self.progress.current}" if self.progress.current else "early"
        return (
            f"the process that packed shard {self.shard} was ended {how} {place}; if a sample "
            "there crashes its decoder, take it out of the dataset, else pack again: whole shards "
            "are kept"
        )


@contextlib.contextmanager
def _children(request: PackRequest, count: int) -> Iterator[list[_Child]]:
    children: list[_Child] = []
    try:
        for _ in range(count):
            children.append(_Child(request))
        yield children
    finally:
        for child in children:
            child.end()


def _pack(
    children: list[_Child], plan: list[range], report: Report, stop: Stop
) -> list[ShardSummary]:
    """Give each child a shard after the other until all are made."""
    made: list[ShardSummary] = []
    waiting = iter(range(len(plan)))
    next_s = 0.0
    with selectors.DefaultSelector() as selector:
        for child, shard in zip(children, waiting, strict=False):
            child.begin(shard)
            selector.register(child, selectors.EVENT_READ)
        while len(made) < len(plan):
            if time.monotonic() >= next_s:
                if stop():
                    raise Conflict("packing was stopped; whole shards are kept")
                report(_total(children, made))
                next_s = time.monotonic() + _POLL_S
            heard = [key.fileobj for key, _ in selector.select(_POLL_S)]
            for child in (child for child in children if child in heard):
                summary = child.hear()
                if summary is not None:
                    made.append(summary)
                    child.begin(next(waiting, None))
    report(_total(children, made))
    return made


def _total(children: list[_Child], made: list[ShardSummary]) -> PackProgress:
    """What is done, by shards that are whole and by those under way."""
    total = PackProgress()
    for shard in made:
        total += PackProgress(
            shard.samples, shard.records, shard.skipped, shard.origin_bytes, shard.bytes, 1
        )
    for child in children:
        total += child.progress
    return total
