"""Reads batches ahead of the trainer, in a thread, for one epoch."""

import logging
import queue
import threading
import time
from dataclasses import dataclass

from ddlp.core.batchfile import BatchId
from ddlp.core.bursts import Burst
from ddlp.core.errors import Conflict, DamagedBatch, DdlpError, MissingBatch, WaitTimeout
from ddlp.core.messages import Attached, Damaged, Fed, FedBatch, FeedRequest
from ddlp.core.types import Activity, RunState, Spending
from ddlp.loader.accounts import Accounts
from ddlp.loader.bad_samples import BadSampleNews
from ddlp.loader.course import Position
from ddlp.loader.feed import Feed
from ddlp.loader.readers.choice import Readers
from ddlp.loader.tensors import TensorBatch, ToTensors
from ddlp.loader.timing import Timing

_POLL_S = 1.0
_LATE_S = 2.0
"""An answer that takes longer is what is waited for."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LeftOut:
    """A step that nothing came for: its batch was isolated."""

    index: int
    from_tail: bool
    reason: str


@dataclass(frozen=True)
class BatchReader:
    """How batches become tensors: brought here by a reader, then made what training code sees."""

    readers: Readers
    tensors: ToTensors

    def read(self, fed: FedBatch, expected: BatchId, timing: Timing) -> TensorBatch:
        """Read one batch; its place in the store is given back once nothing lies there any more."""
        remote = self.readers.is_remote(fed)
        timing.reading(Spending.NETWORK if remote else Spending.STORAGE)
        with timing.spans.during(Activity.READ, expected.epoch, fed.index, fed.device):
            loaded = self.readers.read(fed, expected)
        timing.reading(Spending.TRANSFER)
        with timing.spans.during(Activity.TRANSFER, expected.epoch, fed.index):
            batch = self.tensors(fed.index, loaded, fed.from_tail)
        timing.reading(Spending.SCHEDULING)
        return batch

    def take_over(self, batch: TensorBatch) -> TensorBatch:
        """To be called by the thread that trains, for each batch that it is given."""
        return self.tensors.take_over(batch)


class Prefetcher:
    """Keeps up to `depth` batches ready; what goes wrong in its thread is raised in `next`."""

    def __init__(
        self,
        feed: Feed,
        rank: int,
        start: Position,
        batches: BatchReader,
        depth: int,
        accounts: Accounts,
    ) -> None:
        self._feed = feed
        self._rank = rank
        self._epoch = start.epoch
        self._received = start.step
        self._consumed = start.step
        self._batches = batches
        self._accounts = accounts
        self._timing = accounts.timing
        self._depth = depth
        self._ready: queue.Queue[TensorBatch | LeftOut | Exception | None] = queue.Queue()
        self._stopping = threading.Event()
        self._progress = threading.Condition()
        self._failure: Exception | None = None
        self._at = "asking for the first batch"
        self.waiting_for = "the first answer"
        self.paused = False
        self.settled: dict[str, float] = {}
        """What the strategy has fixed for the epoch."""
        self._heads: dict[int, int] = {}
        self._warned: str | None = None
        self._asked_at: float | None = None
        self._made_again = {
            logging.WARNING: Burst("{} batches are made again"),
            logging.INFO: Burst("{} batches that were read before are made again"),
        }
        self._bad = BadSampleNews(feed.attached, start.epoch)
        self._thread = threading.Thread(target=self._run, name="ddlp-prefetch", daemon=True)
        self._thread.start()

    @property
    def awaited(self) -> str:
        """What the next batch waits for: what the last answer said, or what is being done."""
        asked_at = self._asked_at
        if asked_at is not None and time.monotonic() - asked_at > _LATE_S:
            return f"an answer from {self._feed.source}, {self._at}"
        return self.waiting_for or self._at

    def next(self, timeout_s: float) -> TensorBatch | LeftOut | None:
        """The next batch, or None at the end of the epoch; raises queue.Empty after a while."""
        item = self._ready.get(timeout=timeout_s)
        with self._progress:
            self._progress.notify()
        if isinstance(item, Exception):
            raise item
        return item

    def take_over(self, batch: TensorBatch) -> TensorBatch:
        """To be called by the thread that trains, for each batch that it is given."""
        return self._batches.take_over(batch)

    def consumed(self) -> None:
        """The trainer is done with one more batch."""
        with self._progress:
            self._consumed += 1
            self._progress.notify()

    def heads(self, step: int) -> int | None:
        """How many batches came from the head before a step of all ranks, where that is known."""
        return self._heads.get(step)

    def finish(self, timeout_s: float) -> None:
        """Wait until the end of the epoch is acknowledged; raises when it could not be."""
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise WaitTimeout(f"the end of epoch {self._epoch} was not taken for {timeout_s:.0f} s")
        if self._failure is not None:
            raise self._failure

    def stop(self) -> bool:
        """End early; says whether the thread has ended, and shares its reader no longer."""
        self._stopping.set()
        with self._progress:
            self._progress.notify()
        if self._thread is not threading.current_thread():  # the garbage collector runs anywhere
            self._thread.join(timeout=10)
        ended = not self._thread.is_alive()
        while ended and not self._ready.empty():  # their places are given back, before others read
            self._ready.get()
        return ended

    def _run(self) -> None:
        try:
            self._read_epoch()
        except Exception as error:  # the border of the thread: it is raised in the trainer's
            error.add_note(f"This happened in the thread that reads ahead, while {self._at}.")
            self._failure = error
            self._ready.put(error)

    def _read_epoch(self) -> None:
        done = False
        while not done and not self._stopping.is_set():
            want = self._wait_for_room()
            if self._stopping.is_set():
                break
            fed = self._ask(want, _POLL_S)
            done = self._read_all(fed.batches) and fed.done
        self._ready.put(None)
        self._acknowledge_all()

    def _wait_for_room(self) -> int:
        """Wait until half of what may lie ready is used up: batches are asked for in groups."""
        most = self._depth // 2
        with self._progress:
            self._progress.wait_for(lambda: self._ready.qsize() <= most or self._stopping.is_set())
            return self._depth - self._ready.qsize()

    def _acknowledge_all(self) -> None:
        with self._progress:
            self._progress.wait_for(
                lambda: self._consumed >= self._received or self._stopping.is_set()
            )
        self._ask(0, 0)
        self._say_made_again(over=True)

    def _ask(self, want: int, wait_s: float) -> Fed:
        self._at = f"asking for step {self._received} of epoch {self._epoch}"
        self._timing.asking()
        self._asked_at = time.monotonic()
        fed = self._feed.exchange(
            FeedRequest(
                rank=self._rank,
                session=self._feed.attached.session,
                epoch=self._epoch,
                received=self._received,
                consumed=self._consumed,
                want=want,
                wait_s=wait_s,
                account=self._accounts.take(),
            )
        )
        self._asked_at = None
        self._timing.answered(fed.blame_s)
        self._say_made_again()
        self.paused = fed.state is RunState.PAUSED
        self.waiting_for = "the run is paused" if self.paused else fed.waiting_for or ""
        self.settled = fed.settled or self.settled
        for batch in fed.batches:
            if batch.round_heads is not None:
                self._heads[batch.step] = batch.round_heads
        self._forget_heads()
        _check(self._feed.attached, fed, at_end=want == 0)
        if fed.state is RunState.RUNNING and fed.reason not in (None, self._warned):
            self._warned = fed.reason
            log.warning("the run will fail when training comes to it: %s", fed.reason)
        return fed

    def _forget_heads(self) -> None:
        while (oldest := next(iter(self._heads), self._consumed)) < self._consumed:
            del self._heads[oldest]

    def _read_all(self, batches: list[FedBatch]) -> bool:
        """Read batches up to the first that cannot be; others that are gone are reported too."""
        for fed in batches[:1]:
            self._expect(fed)
        for place, fed in enumerate(batches):
            if self._stopping.is_set():
                return False
            for following in batches[place + 1 : place + 2]:
                self._expect(following)
            if not self._read(fed):
                for later in batches[place + 1 :]:
                    if later.left_out is None and self._batches.readers.is_gone(later):
                        self._report(later, MissingBatch(f"{later.location} is gone"))
                return False
        return True

    def _expect(self, fed: FedBatch) -> None:
        if fed.left_out is None:
            self._batches.readers.expect(fed, self._expected(fed))

    def _read(self, fed: FedBatch) -> bool:
        """Read one batch; a damaged one is reported, and then comes again for the same step."""
        self._at = f"reading batch {fed.index} of epoch {self._epoch} from {fed.location}"
        if fed.left_out is not None:
            self._received += 1
            self._bad.tell(fed)
            self._ready.put(LeftOut(fed.index, fed.from_tail, fed.left_out))
            return True
        try:
            batch = self._batches.read(fed, self._expected(fed), self._timing)
        except DamagedBatch as error:
            self._report(fed, error)
            return False
        self._received += 1
        self._bad.tell(fed)
        self._ready.put(batch)
        return True

    def _expected(self, fed: FedBatch) -> BatchId:
        attached = self._feed.attached
        return BatchId(
            run=attached.run,
            epoch=self._epoch,
            index=fed.index,
            token=fed.token,
            samples=fed.samples,
            pipeline=attached.pipeline_hash,
            engine="",
            device="",
        )

    def _report(self, fed: FedBatch, error: DamagedBatch) -> None:
        line = f"batch {fed.index} of {fed.device} is made again: {error}"
        # What is gone was read by a trainer that is gone, too: that is how it is after a restart.
        level = logging.INFO if isinstance(error, MissingBatch) else logging.WARNING
        self._say(level, self._made_again[level].add(time.monotonic(), line))
        report = Damaged(
            rank=self._rank,
            session=self._feed.attached.session,
            epoch=self._epoch,
            index=fed.index,
            token=fed.token,
            reason=str(error)[:2000],
            gone=isinstance(error, MissingBatch),
        )
        self._feed.damaged(report)

    def _say_made_again(self, over: bool = False) -> None:
        for level, burst in self._made_again.items():
            self._say(level, burst.due(time.monotonic(), over))

    def _say(self, level: int, line: str | None) -> None:
        if line is not None:
            log.log(level, "%s", line)


def _check(attached: Attached, fed: Fed, at_end: bool) -> None:
    if fed.state is RunState.FAILED:
        raise DdlpError(f"run {attached.name} failed: {fed.reason}")
    if fed.state is RunState.CANCELLED:
        raise Conflict(
            f"run {attached.name} was cancelled; start it again as a new run with: ddlp run retry "
            f"{attached.name} (a state of this one fits it)"
        )
    if fed.state in (RunState.COMPLETED, RunState.INCOMPLETE) and not at_end and not fed.done:
        raise Conflict(
            f"run {attached.name} is {fed.state}: all its epochs are over; give it more with: ddlp "
            f"run extend {attached.name} --epochs N, or make another like it with: ddlp run clone "
            f"{attached.name}"
        )
