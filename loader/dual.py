"""`DualLoader`: the iterable that training code loops over; one pass is one epoch."""

import queue
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

try:
    import torch
except ImportError as error:
    raise ImportError(
        "ddlp.loader needs PyTorch; install the build for your machine, or: pip install ddlp[torch]"
    ) from error

from ddlp.core.errors import Conflict, InvalidInput, WaitTimeout
from ddlp.core.messages import BadSampleInfo
from ddlp.core.pipeline import Pipeline, PipelineSpec
from ddlp.core.ranges import Ranges
from ddlp.core.settings import load_settings
from ddlp.core.types import BadPolicy
from ddlp.loader.feed import Feed, LoaderState, RemoteFeed
from ddlp.loader.local import LocalFeed, LocalRun
from ddlp.loader.prefetch import Position, Prefetcher
from ddlp.loader.tensors import TensorBatch, ToTensors
from ddlp.loader.timing import Timing

_GLANCE_S = 0.5
_MOST_AHEAD = 256


class DualLoader:
    """Feeds a training loop from both prongs of a run.

    Args:
        run: Name or id of a run on the server.
        url: The server's address; DDLP_URL, else the local one, where left out.
        device: Where tensors go, such as "cpu" or "cuda:0".
        rank: This process's place among `world_size`.
        world_size: How many processes share the run's batches.
        prefetch: Batches that are read ahead.
        normalize: Scale pixels with the pipeline's mean and deviation, on the device.
        wait_timeout_s: How long one batch may be waited for.
    """

    def __init__(
        self,
        run: str,
        url: str | None = None,
        *,
        device: str = "cpu",
        rank: int = 0,
        world_size: int = 1,
        prefetch: int = 4,
        normalize: bool = True,
        wait_timeout_s: float | None = None,
    ) -> None:
        _check_prefetch(prefetch)
        settings = load_settings()
        feed = RemoteFeed(url or settings.server_url, run, rank, world_size)
        self._rank = rank
        self._setup(feed, device, prefetch, normalize, wait_timeout_s)

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
        workers: int | None = None,
        csd_speed: float | None = None,
        on_bad: str = "fail",
        max_bad_share: float = 0.01,
        device: str = "cpu",
        prefetch: int = 4,
        normalize: bool = True,
        wait_timeout_s: float | None = None,
    ) -> Self:
        """Preprocess images in processes of this machine; no server is needed.

        Args:
            data: A folder with one subfolder a class, a manifest, tar files or arrays.
            pipeline: A preset's name, or {"transforms": [...]}.
            batch_size: Samples a batch.
            epochs: Passes over the data.
            seed: Decides the order and every augmentation.
            strategy: `wrr`, `mte`, `cpu` or `csd`.
            workers: CPU processes; the number of cores where left out.
            csd_speed: Adds an emulated CSD of this speed relative to a core.
            on_bad: What a sample that cannot be used does: `fail`, `skip` or `replace`.
            max_bad_share: Share of an epoch's samples that may be bad before the run fails.
            device: Where tensors go.
            prefetch: Batches that are read ahead.
            normalize: Scale pixels with the pipeline's mean and deviation, on the device.
            wait_timeout_s: How long one batch may be waited for.
        """
        _check_prefetch(prefetch)
        run = LocalRun(
            data=Path(data),
            pipeline=_pipeline(pipeline),
            batch_size=batch_size,
            epochs=epochs,
            seed=seed,
            strategy=strategy,
            workers=workers or load_settings().cpu_workers_used,
            csd_speed=csd_speed,
            on_bad=_policy(on_bad),
            max_bad_share=max_bad_share,
        )
        loader = cls.__new__(cls)
        loader._rank = 0
        loader._setup(LocalFeed(run), device, prefetch, normalize, wait_timeout_s)
        return loader

    def _setup(
        self, feed: Feed, device: str, prefetch: int, normalize: bool, timeout_s: float | None
    ) -> None:
        attached = feed.attached
        self._feed = feed
        self._prefetch = prefetch
        self._wait_timeout_s = timeout_s or load_settings().wait_timeout_s
        self._next = Position(attached.epoch, attached.step)
        self._delivered = Ranges()
        self._left = False
        self._reader: Prefetcher | None = None
        self.timing = Timing()
        self.pipeline = Pipeline.parse(PipelineSpec(transforms=attached.transforms))
        self._tensors = ToTensors(self.pipeline, device, normalize)

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

    def __len__(self) -> int:
        """Batches that this rank receives an epoch."""
        return self._feed.attached.plan.rank_batches(self._rank)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """One epoch of (images, labels)."""
        for batch in self.batches():
            yield batch.images, batch.labels

    def batches(self) -> Iterator[TensorBatch]:
        """One epoch of batches that also say which samples they hold."""
        if self._reader is not None:
            raise Conflict("a pass over this loader is under way; finish or close it first")
        if self._left:
            self._advance()
        if self._next.epoch >= self.epochs:
            raise Conflict(f"all {self.epochs} epochs of the run were delivered")
        reader = Prefetcher(
            self._feed, self._rank, self._next, self._tensors, self._prefetch, self.timing
        )
        self._reader = reader
        try:
            self.timing.begin()
            while (batch := self._wait(reader)) is not None:
                self.timing.waited()
                self._next = Position(self._next.epoch, self._next.step + 1)
                self._delivered.add(batch.index)
                yield batch
                self.timing.trained()
                reader.consumed()
            reader.finish(self._wait_timeout_s)
            self._advance()
        except GeneratorExit:
            # Left early: where it stands can still be saved; the next pass is the next epoch.
            self._left = True
            raise
        finally:
            reader.stop()
            self._reader = None

    def _advance(self) -> None:
        self._next = Position(self._next.epoch + 1, 0)
        self._delivered = Ranges()
        self._left = False

    def _wait(self, reader: Prefetcher) -> TensorBatch | None:
        deadline = time.monotonic() + self._wait_timeout_s
        while True:
            try:
                return reader.next(_GLANCE_S)
            except queue.Empty:
                if reader.paused:
                    deadline = time.monotonic() + self._wait_timeout_s
                if time.monotonic() > deadline:
                    raise WaitTimeout(
                        f"no batch for {self._wait_timeout_s:.0f} s; waiting for: "
                        f"{reader.waiting_for}; raise wait_timeout_s if that is expected"
                    ) from None

    def state_dict(self) -> dict[str, Any]:
        """Where training stands, the batch at hand included; small whatever the dataset's size."""
        state = LoaderState(
            epoch=self._next.epoch,
            step=self._next.step,
            delivered=[list(pair) for pair in self._delivered],
            split=self._feed.split(self._next.epoch),
            run=self._identity(),
        )
        return asdict(state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state: the next pass delivers what its epoch had left."""
        given = LoaderState(**state)
        if self._reader is not None:
            raise Conflict("a pass over this loader is under way; finish or close it first")
        if given.run != self._identity():
            raise InvalidInput(
                f"the state is of another run ({given.run}); this one is {self._identity()}"
            )
        self._feed.resume(self._rank, given)
        self._next = Position(given.epoch, given.step)
        self._delivered = Ranges((start, stop) for start, stop in given.delivered)
        self._left = False

    def _identity(self) -> dict[str, Any]:
        """What a state must share with a run: whatever decides which bytes come in which batch."""
        attached = self._feed.attached
        return {
            **asdict(attached.plan),
            "dataset": attached.dataset_version,
            "pipeline": attached.pipeline_hash,
            "on_bad": attached.on_bad.value,
        }

    def close(self) -> None:
        """Let go of the run; with a local one its processes and files go too."""
        if self._reader is not None:
            self._reader.stop()
        self._feed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_prefetch(prefetch: int) -> None:
    if not 1 <= prefetch <= _MOST_AHEAD:
        raise InvalidInput(f"prefetch={prefetch} is not from 1 to {_MOST_AHEAD}")


def _policy(given: str) -> BadPolicy:
    try:
        return BadPolicy(given)
    except ValueError as error:
        raise InvalidInput(f"on_bad={given!r} is none of {', '.join(BadPolicy)}") from error


def _pipeline(given: str | dict[str, Any]) -> Pipeline:
    if isinstance(given, str):
        return Pipeline.preset(given)
    return Pipeline.parse(PipelineSpec.model_validate(given))
