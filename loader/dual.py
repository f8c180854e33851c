"""`DualLoader`: the iterable that training code loops over; one pass is one epoch."""

import logging
import queue
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, Self

try:
    import torch
except ImportError as error:
    raise ImportError(
        "ddlp.loader needs PyTorch; install the build for your machine, or: pip install ddlp[torch]"
    ) from error

from ddlp.core.errors import Conflict, InvalidInput, WaitTimeout
from ddlp.core.messages import BadSampleInfo, ReadInfo
from ddlp.core.pipeline import Pipeline, PipelineSpec
from ddlp.core.settings import load_settings
from ddlp.core.types import BadPolicy, TailPolicy
from ddlp.loader.accounts import Accounts
from ddlp.loader.buffers import Buffers
from ddlp.loader.feed import Feed, LoaderState, RemoteFeed
from ddlp.loader.local import LocalFeed, LocalRun
from ddlp.loader.options import check_waiting, named, pipeline_of
from ddlp.loader.prefetch import BatchReader, LeftOut, Position, Prefetcher
from ddlp.loader.readers.choice import Preference, Readers, ReadOptions
from ddlp.loader.readers.counts import ReadCounts
from ddlp.loader.span_log import SpanLog
from ddlp.loader.tensors import TensorBatch, TensorOptions, ToTensors
from ddlp.loader.timing import Timing

_GLANCE_S = 0.5
_AHEAD_BYTES = 256 << 20
_PATIENCE_S = 10.0
"""After so long it says aloud what it is waiting for."""

log = logging.getLogger(__name__)


class DualLoader:
    """Feeds a training loop from both prongs of a run.

    Args:
        run: Name or id of a run on the server.
        url: The server's address; DDLP_URL, else the local one, where left out.
        key: A key of scope `work`, if the server asks for one; DDLP_KEY where left out.
        device: Where tensors go, such as "cpu" or "cuda:0".
        rank: This process's place among `world_size`.
        world_size: How many processes share the run's batches.
        prefetch: Batches that are read ahead; as many as fit 256 MiB, from 2 to 32, where left out.
        normalize: Scale pixels with the pipeline's mean and deviation on the device; "host" does it
            in the host's memory before they are moved.
        dtype: What normalised images are made of.
        channels_last: How images lie in memory: as they travel, or channel by channel.
        reader: How files are read: `auto`, `mmap`, `direct` or `gds`.
        require_gds: Fail rather than read what drives wrote through the host's memory.
        wait_timeout_s: How long one batch may be waited for.
    """

    def __init__(
        self,
        run: str,
        url: str | None = None,
        *,
        key: str | None = None,
        device: str = "cpu",
        rank: int = 0,
        world_size: int = 1,
        prefetch: int | None = None,
        normalize: bool | Literal["host"] = True,
        dtype: torch.dtype = torch.float32,
        channels_last: bool = True,
        reader: Preference = "auto",
        require_gds: bool = False,
        wait_timeout_s: float | None = None,
    ) -> None:
        check_waiting(prefetch, wait_timeout_s)
        tensors = TensorOptions(device, normalize, dtype, channels_last)
        options = ReadOptions(device, reader, require_gds)
        options.check_gds()
        feed = RemoteFeed(url or load_settings().server_url, run, rank, world_size, key)
        self._rank, self._world_size = rank, world_size
        self._setup(feed, tensors, options, prefetch, wait_timeout_s)

    @classmethod
    def local(
        cls,
        data: str | Path,
        *,
        pipeline: str | dict[str, Any] = "imagenet-train",
        batch_size: int = 64,
        epochs: int = 1,
        seed: int = 0,
        strategy: str = "wrr",
        reorder_window: int | None = None,
        tail: str = "short",
        workers: int | None = None,
        csd_speed: float | None = None,
        on_bad: str = "fail",
        max_bad_share: float = 0.01,
        device: str = "cpu",
        prefetch: int | None = None,
        normalize: bool | Literal["host"] = True,
        dtype: torch.dtype = torch.float32,
        channels_last: bool = True,
        reader: Preference = "auto",
        require_gds: bool = False,
        wait_timeout_s: float | None = None,
    ) -> Self:
        """Preprocess images in processes of this machine; no server is needed.

        Args:
            data: A folder with one subfolder a class, a manifest, tar files, arrays, packed shards.
            pipeline: A preset's name, or {"transforms": [...]}.
            batch_size: Samples a batch.
            epochs: Passes over the data.
            seed: Decides the order and every augmentation.
            strategy: `wrr`, `mte`, `bounded`, `cpu` or `csd`.
            reorder_window: For `bounded`: how far the order may deviate from the one on paper.
            tail: What becomes of samples that do not fill a batch: `short`, `drop` or `pad`.
            workers: CPU processes; the number of cores where left out.
            csd_speed: Adds an emulated CSD of this speed relative to a core.
            on_bad: What a sample that cannot be used does: `fail`, `skip` or `replace`.
            max_bad_share: Share of an epoch's samples that may be bad before the run fails.
            device: Where tensors go.
            prefetch: Batches that are read ahead; as many as fit 256 MiB where left out.
            normalize: Scale pixels on the device, on the "host", or not at all.
            dtype: What normalised images are made of.
            channels_last: How images lie in memory: as they travel, or channel by channel.
            reader: How files are read: `auto`, `mmap`, `direct` or `gds`.
            require_gds: Fail rather than read what drives wrote through the host's memory.
            wait_timeout_s: How long one batch may be waited for.
        """
        check_waiting(prefetch, wait_timeout_s)
        tensors = TensorOptions(device, normalize, dtype, channels_last)
        options = ReadOptions(device, reader, require_gds)
        options.check_gds()
        run = LocalRun(
            data=Path(data),
            pipeline=pipeline_of(pipeline),
            batch_size=batch_size,
            epochs=epochs,
            seed=seed,
            strategy=strategy,
            workers=workers or load_settings().cpu_workers_used,
            csd_speed=csd_speed,
            on_bad=named(BadPolicy, "on_bad", on_bad),
            max_bad_share=max_bad_share,
            tail=named(TailPolicy, "tail", tail),
            reorder_window=reorder_window,
        )
        loader = cls.__new__(cls)
        loader._rank, loader._world_size = 0, 1
        loader._setup(LocalFeed(run), tensors, options, prefetch, wait_timeout_s)
        return loader

    def _setup(
        self,
        feed: Feed,
        tensors: TensorOptions,
        options: ReadOptions,
        prefetch: int | None,
        timeout_s: float | None,
    ) -> None:
        attached = feed.attached
        self._feed = feed
        self._wait_timeout_s = timeout_s or load_settings().wait_timeout_s
        self._plan = replace(attached.plan, world_size=self._world_size)
        where = attached.where
        self._next = Position(where.epoch, where.step, where.position)
        self._rounds = where.rounds
        self._heads: int | None = 0 if where.step + where.position == 0 else None
        self._left = False
        self._last: TensorBatch | None = None
        self._owed = 0
        self._reader: Prefetcher | None = None
        self.timing = Timing(spans=SpanLog(enabled=load_settings().telemetry))
        self.pipeline = Pipeline.parse(PipelineSpec(transforms=attached.transforms))
        self._tensor_options, self._read_options = tensors, options
        self._counts = ReadCounts()
        self._accounts = Accounts(self.timing, self._counts)
        self._batches = self._batch_reader()
        self._prefetch = prefetch or self._fitting(tensors)

    def _batch_reader(self) -> BatchReader:
        """What brings batches here, for one thread."""
        buffers = Buffers.for_device(self._tensor_options.device)
        readers = Readers(self._read_options, buffers, self._counts)
        return BatchReader(readers, ToTensors(self.pipeline, self._tensor_options))

    def _fitting(self, tensors: TensorOptions) -> int:
        """How many batches fit the memory that may be used ahead."""
        height, width, channels = self.pipeline.shape
        late = bool(tensors.normalize) and self.pipeline.normalize is not None
        wide = self.pipeline.dtype != "uint8" or late
        nbytes = self._plan.batch_size * height * width * channels * (4 if wide else 1)
        return min(32, max(2, _AHEAD_BYTES // max(1, nbytes)))

    @property
    def epoch(self) -> int:
        """The epoch that the next pass, or the pass under way, delivers."""
        return self._next.epoch + self._left

    @property
    def epochs(self) -> int:
        """How many epochs the run has."""
        return self._feed.attached.plan.epochs

    @property
    def bad_samples(self) -> list[BadSampleInfo]:
        """The samples of the run that were skipped or replaced so far, with file and reason."""
        return self._feed.bad_samples()

    @property
    def reads(self) -> list[ReadInfo]:
        """Batches and bytes read so far, by path and by the reason for that path."""
        return self._counts.totals()

    @property
    def waiting_for(self) -> str | None:
        """What the pass under way is waiting for, in words; None where it waits for nothing."""
        return (self._reader.waiting_for or None) if self._reader is not None else None

    def __len__(self) -> int:
        """Batches that this rank receives an epoch: as many as every other."""
        return self._plan.rank_batches

    def set_epoch(self, epoch: int) -> None:
        """Have the next pass deliver an epoch from its beginning.

        Setting the one that comes next anyway changes nothing, as in the usual training loop.
        """
        self._check_idle()
        if not 0 <= epoch < self.epochs:
            raise InvalidInput(f"epoch {epoch} is not one of the run's {self.epochs}")
        if self._left:
            self._advance()
        if epoch < self._next.epoch or (epoch == self._next.epoch and self._at):
            self._go_to(LoaderState(epoch, 0, self._identity(), 0, {}))
        elif epoch > self._next.epoch:
            self._next, self._heads, self._rounds = Position(epoch, 0), 0, len(self)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """One epoch of (images, labels)."""
        for batch in self.batches():
            yield batch.images, batch.labels

    def batches(self) -> Iterator[TensorBatch]:
        """One epoch of batches that also say which samples they hold."""
        self._check_idle()
        if self._left:
            self._advance()
        if self._world_size != self._feed.attached.plan.world_size:
            raise Conflict(
                f"the run is made for {self._feed.attached.plan.world_size} ranks; "
                f"{self._world_size} can only go on from a state: call load_state_dict first"
            )
        if self._next.epoch >= self.epochs:
            raise Conflict(f"all {self.epochs} epochs of the run were delivered")
        rounds = self._rounds
        reader = Prefetcher(
            self._feed, self._rank, self._next, self._batches, self._prefetch, self._accounts
        )
        self._reader = reader
        try:
            self.timing.begin()
            while (item := self._wait(reader)) is not None:
                self._next = replace(self._next, step=self._next.step + 1)
                if self._heads is not None:
                    self._heads += not item.from_tail
                for batch in self._shown(item):
                    self.timing.waited(self._next.epoch, batch.index)
                    yield self._batches.take_over(batch)
                    self.timing.trained(self._next.epoch, batch.index)
                reader.consumed()
            reader.finish(self._wait_timeout_s)
            self._advance()
        except GeneratorExit:
            # Left early: where it stands can still be saved; the next pass is the next epoch.
            self._left = True
            if self._next.step >= rounds:  # it counted the batches, and took them all
                reader.consumed()
                self._advance()
            raise
        finally:
            self.timing.end()
            if not reader.stop():  # it is stuck, with what is for one thread at a time
                self._batches = self._batch_reader()
            self._reader = None

    def _shown(self, item: TensorBatch | LeftOut) -> list[TensorBatch]:
        """What the trainer sees of a step.

        A batch that was isolated is passed over. Where several ranks train together they must make
        the same number of steps: then this one repeats the batch before it, or the one after.
        """
        if self._world_size == 1:
            return [] if isinstance(item, LeftOut) else [item]
        if isinstance(item, LeftOut):
            log.warning("batch %d is repeated by another one: %s", item.index, item.reason)
            self._owed += self._last is None
            return [self._last] if self._last is not None else []
        shown, self._owed = [item] * (1 + self._owed), 0
        self._last = item if self._feed.attached.on_bad is not BadPolicy.FAIL else None
        return shown

    def _advance(self) -> None:
        self._next, self._rounds = Position(self._next.epoch + 1, 0), len(self)
        self._heads, self._left, self._owed = 0, False, 0

    def _check_idle(self) -> None:
        if self._reader is not None:
            raise Conflict("a pass over this loader is under way; finish or close it first")

    def _wait(self, reader: Prefetcher) -> TensorBatch | LeftOut | None:
        deadline = time.monotonic() + self._wait_timeout_s
        say_at = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return reader.next(_GLANCE_S)
            except queue.Empty:
                if time.monotonic() > say_at:
                    log.warning("still waiting for: %s", reader.waiting_for)
                    say_at = time.monotonic() + _PATIENCE_S
                if reader.paused:
                    deadline = time.monotonic() + self._wait_timeout_s
                if time.monotonic() > deadline:
                    raise WaitTimeout(
                        f"no batch for {self._wait_timeout_s:.0f} s; waiting for: "
                        f"{reader.waiting_for}; raise wait_timeout_s if that is expected"
                    ) from None

    @property
    def _at(self) -> int:
        """Batches of the epoch that all ranks have consumed, once they finish the one at hand."""
        return self._next.before + self._next.step * self._world_size

    def state_dict(self) -> dict[str, Any]:
        """Where training stands, the batch at hand included; small whatever the dataset's size.

        All ranks stand at the same step: the state of one is the state of all.
        """
        state = LoaderState(
            epoch=self._next.epoch,
            position=self._at,
            run=self._identity(),
            heads=self._heads if self._world_size == 1 else None,
            settled=self._feed.settled(self._next.epoch),
        )
        return asdict(state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state: the next pass delivers what its epoch had left.

        Another number of workers, devices or ranks may go on than the state was taken with.
        """
        try:
            given = LoaderState(**state)
        except TypeError as error:
            raise InvalidInput(f"this is no state of a DualLoader: {error}") from error
        self._check_idle()
        if given.run != self._identity():
            raise InvalidInput(
                f"the state is of another run ({given.run}); this one is {self._identity()}"
            )
        self._go_to(given)

    def _go_to(self, state: LoaderState) -> None:
        where = self._feed.resume(state)
        attached = self._feed.attached
        if attached.plan.world_size != self._world_size:
            self._feed.attached = attached.model_copy(update={"plan": self._plan})
        self._next = Position(where.epoch, where.step, where.position)
        self._rounds = where.rounds
        self._heads, self._left, self._last, self._owed = state.heads, False, None, 0
        if where.step >= where.rounds:  # taken with the last batch at hand
            self._advance()

    def _identity(self) -> dict[str, Any]:
        """What a state must share with a run: whatever decides which bytes come in which batch."""
        attached = self._feed.attached
        plan = attached.plan
        return {
            "samples": plan.samples,
            "batch_size": plan.batch_size,
            "seed": plan.seed,
            "tail": plan.tail.value,
            "dataset": attached.dataset_version,
            "pipeline": attached.pipeline_hash,
            "on_bad": attached.on_bad.value,
            "run": self._feed.run_id,
        }

    def close(self) -> None:
        """Let go of the run; with a local one its processes and files go too."""
        if self._reader is not None:
            self._reader.stop()
        self._batches.readers.close()
        self._feed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
