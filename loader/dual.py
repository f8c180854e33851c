"""`DualLoader`: the iterable that training code loops over; one pass is one epoch."""

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

from ddlp.core.errors import Conflict, InvalidInput
from ddlp.core.home_lock import server_url
from ddlp.core.messages import BadSampleInfo, ReadInfo
from ddlp.core.pipeline import Pipeline, PipelineSpec
from ddlp.core.sessions import Start
from ddlp.core.settings import load_settings
from ddlp.core.types import BadPolicy, TailPolicy
from ddlp.core.units import epoch_of
from ddlp.loader.accounts import Accounts
from ddlp.loader.buffers import Buffers
from ddlp.loader.course import Course, Position
from ddlp.loader.feed import SHARED, Feed, Going, LoaderState
from ddlp.loader.local import LocalFeed
from ddlp.loader.local_group import GroupFeed
from ddlp.loader.local_run import LocalRun
from ddlp.loader.options import check_waiting, fitting, named, pipeline_of
from ddlp.loader.passes import Pass, Steps
from ddlp.loader.prefetch import BatchReader, Prefetcher
from ddlp.loader.ranks import find_ranks, place_of
from ddlp.loader.readers.choice import Preference, Readers, ReadOptions
from ddlp.loader.readers.counts import ReadCounts
from ddlp.loader.remote import RemoteFeed
from ddlp.loader.span_log import SpanLog
from ddlp.loader.tensors import TensorBatch, TensorOptions, ToTensors
from ddlp.loader.timing import Timing


class DualLoader:
    """Feeds a training loop from both prongs of a run.

    Args:
        run: Name or id of a run on the server.
        url: The server's address; by default DDLP_URL, or the server that `ddlp up` runs here.
        key: A key of scope `work`, if the server asks for one; DDLP_KEY by default.
        device: Where tensors go, such as "cpu" or "cuda:0"; "cuda" is the one of LOCAL_RANK.
        rank: This process's place among `world_size`; taken from torch.distributed, or from
            torchrun's RANK and WORLD_SIZE, by default.
        world_size: How many processes share the run's batches.
        start: How to go on with a run that is under way, unless a state is loaded: an epoch, to
            have that and those after it from its beginning, or "continue", to take what is left.
        prefetch: Batches that are read ahead; by default as many as fit 256 MiB, from 2 to 32.
        normalize: Scale pixels with the pipeline's mean and deviation on the device; "host" does it
            in the host's memory before they are moved.
        dtype: The type of normalised images.
        channels_last: Memory layout of images: as they travel, or channel by channel.
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
        rank: int | None = None,
        world_size: int | None = None,
        start: int | Literal["continue"] | None = None,
        prefetch: int | None = None,
        normalize: bool | Literal["host"] = True,
        dtype: torch.dtype = torch.float32,
        channels_last: bool = True,
        reader: Preference = "auto",
        require_gds: bool = False,
        wait_timeout_s: float | None = None,
    ) -> None:
        check_waiting(prefetch, wait_timeout_s)
        ranks = find_ranks(rank, world_size)
        device = place_of(device, ranks)
        tensors = TensorOptions(device, normalize, dtype, channels_last)
        options = ReadOptions(device, reader, require_gds)
        options.check_gds()
        going = Going.given(start)
        self._rank, self._world_size = ranks.rank, ranks.world_size
        address = url or server_url(load_settings())
        feed = RemoteFeed(address, run, ranks.rank, ranks.world_size, key, device)
        epochs = feed.attached.where.epochs
        if going.start is Start.EPOCH and epochs is not None and going.epoch >= epochs:
            feed.close()
            raise InvalidInput(
                f"start={going.epoch} is not one of the {epochs} epochs of run {run}, which count "
                f"from 0; give it more with: ddlp run extend {run} --epochs N"
            )
        self._setup(feed, tensors, options, prefetch, wait_timeout_s, going)

    @classmethod
    def local(
        cls,
        data: str | Path,
        *,
        pipeline: str | dict[str, Any] = "imagenet-train",
        batch_size: int = 64,
        epochs: int | None = None,
        seed: int = 0,
        reshuffle: bool | None = None,
        strategy: str = "wrr",
        reorder_window: int | None = None,
        tail: str = "short",
        workers: int | None = None,
        csd_speed: float | None = None,
        on_bad: str = "skip",
        max_bad_share: float | None = None,
        as_classes: bool = False,
        device: str = "cpu",
        rank: int | None = None,
        world_size: int | None = None,
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
            data: A folder with one subfolder per class, a manifest, tar, arrays, packed shards.
            pipeline: A preset's name, or {"transforms": [...]}.
            batch_size: Samples per batch, per rank.
            epochs: Passes over the data; as many as are asked for by default.
            seed: Random seed for order and augmentation.
            reshuffle: Whether each pass has an order of its own. By default it has, unless nothing
                in the pipeline is random: then every pass gives the same batches.
            strategy: `wrr`, `mte`, `bounded`, `cpu` or `csd`.
            reorder_window: For `bounded`: how far the order may deviate from the one on paper.
            tail: What becomes of samples that do not fill a batch: `short`, `drop` or `pad`.
            workers: CPU processes; the number of cores by default.
            csd_speed: Adds an emulated CSD of this speed relative to a core.
            on_bad: What a sample that cannot be used does: `fail`, `skip` or `replace`.
            max_bad_share: Share of an epoch's samples that may be bad before the run fails; by
                default 0.001, or 10 samples if that is more, but at most a tenth.
            as_classes: Take folders such as `train` and labels such as `a|b` as names of classes.
            device: Where tensors go; "cuda" is the one of LOCAL_RANK.
            rank: This process's place among the `world_size` that share the batches on this host;
                taken from torch.distributed or torchrun's RANK and WORLD_SIZE by default.
            world_size: How many processes of this host share the batches.
            prefetch: Batches that are read ahead; as many as fit 256 MiB by default.
            normalize: Scale pixels on the device, on the "host", or not at all.
            dtype: The type of normalised images.
            channels_last: Memory layout of images: as they travel, or channel by channel.
            reader: How files are read: `auto`, `mmap`, `direct` or `gds`.
            require_gds: Fail rather than read what drives wrote through the host's memory.
            wait_timeout_s: How long one batch may be waited for.
        """
        check_waiting(prefetch, wait_timeout_s)
        ranks = find_ranks(rank, world_size)
        device = place_of(device, ranks)
        tensors = TensorOptions(device, normalize, dtype, channels_last)
        options = ReadOptions(device, reader, require_gds)
        options.check_gds()
        run = LocalRun(
            data=Path(data),
            pipeline=pipeline_of(pipeline),
            batch_size=batch_size,
            epochs=epochs,
            seed=seed,
            reshuffle=reshuffle,
            strategy=strategy,
            workers=workers or load_settings().cpu_workers_used,
            csd_speed=csd_speed,
            on_bad=named(BadPolicy, "on_bad", on_bad),
            max_bad_share=max_bad_share,
            as_classes=as_classes,
            tail=named(TailPolicy, "tail", tail),
            reorder_window=reorder_window,
        )
        loader = cls.__new__(cls)
        loader._rank, loader._world_size = ranks.rank, ranks.world_size
        patience_s = wait_timeout_s or load_settings().wait_timeout_s
        feed = LocalFeed(run) if ranks.world_size == 1 else GroupFeed(run, ranks, patience_s)
        going = Going(Start.BEGINNING)
        loader._setup(feed, tensors, options, prefetch, wait_timeout_s, going)
        return loader

    def _setup(
        self,
        feed: Feed,
        tensors: TensorOptions,
        options: ReadOptions,
        prefetch: int | None,
        timeout_s: float | None,
        going: Going,
    ) -> None:
        attached = feed.attached
        self._feed = feed
        self._closed = False
        self._wait_timeout_s = timeout_s or load_settings().wait_timeout_s
        plan = replace(attached.plan, world_size=self._world_size)
        self._course = Course(plan, attached.where, going)
        self._steps = Steps(self._world_size, attached.on_bad)
        self._pass: Pass | None = None
        self.timing = Timing(spans=SpanLog(enabled=load_settings().telemetry))
        self.pipeline = Pipeline.parse(PipelineSpec(transforms=attached.transforms))
        self._tensor_options, self._read_options = tensors, options
        self._counts = ReadCounts()
        self._accounts = Accounts(self.timing, self._counts)
        self._batches = self._batch_reader()
        self._prefetch = prefetch or fitting(self.pipeline, attached.plan.batch_size, tensors)

    def _batch_reader(self) -> BatchReader:
        """A reader of batches, for one thread."""
        buffers = Buffers.for_device(self._tensor_options.device)
        readers = Readers(self._read_options, buffers, self._counts)
        return BatchReader(readers, ToTensors(self.pipeline, self._tensor_options))

    @property
    def epoch(self) -> int:
        """The epoch that the next pass, or the pass under way, delivers."""
        return self._course.epoch

    @property
    def epochs(self) -> int | None:
        """How many epochs the run has; None where there are as many as are asked for."""
        return self._course.epochs

    @property
    def rank(self) -> int:
        """This process's place among the ranks that share the run."""
        return self._rank

    @property
    def world_size(self) -> int:
        """How many ranks share the run."""
        return self._world_size

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
        return None if self._under_way is None else self._under_way.waiting_for

    def __len__(self) -> int:
        """Batches per epoch that this rank receives: as many as every other."""
        return self._course.plan.rank_batches

    def set_epoch(self, epoch: int) -> None:
        """Have the next pass deliver an epoch from its beginning, and later ones those after it.

        Setting the one that comes next anyway changes nothing, as in the usual training loop. The
        one after a run's last epoch gives the run one more.
        """
        self._check_open()
        self._end_pass()
        course = self._course
        if epoch < 0 or (course.epochs is not None and epoch > course.epochs):
            raise InvalidInput(
                f"epoch {epoch} is not one of the run's {course.epochs}, nor the one after them"
            )
        if course.left:
            course.advance()
        coming = course.position.epoch
        comes_anyway = epoch == coming and not course.received and course.has_more
        if comes_anyway and not self._must_say():
            return
        fresh = not course.received and course.position.step == 0
        ahead = epoch > coming or (epoch == coming and fresh)
        course.going = Going(Start.EPOCH, epoch, ahead=ahead)

    def _must_say(self) -> bool:
        """Whether the run must be told how to go on, or was to be told something else."""
        going = self._course.going
        if going is None or going.start is Start.CONTINUE:
            return False
        return self._feed.attached.under_way or going.start is not Start.BEGINNING

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """One epoch of (images, labels)."""
        for batch in self.batches():
            yield batch.images, batch.labels

    def batches(self) -> Iterator[TensorBatch]:
        """One epoch of batches that also say which samples they hold.

        A pass that is under way is left by a new one, and its epoch is recorded as left.
        """
        self._check_open()
        self._end_pass()
        self._pass = self._begin_pass()
        yield from self._pass.batches(self._wait_timeout_s)

    def _begin_pass(self) -> Pass:
        course = self._course
        if course.left:
            course.advance()
        going = course.going
        if not course.has_more and (going is None or going.start is not Start.EPOCH):
            name = self._feed.attached.name
            raise Conflict(
                f"all {course.epochs} epochs of run {name} were delivered; give it more with "
                f"set_epoch({course.epochs}), or: ddlp run extend {name} --epochs N"
            )
        self.timing.begin()
        if going is not None:
            try:
                course.move(self._feed.begin(going))
            except BaseException:
                self.timing.end()
                raise
            course.going = None
        if self._pass is not None and self._pass.stuck:
            self._batches = self._batch_reader()
            self._feed.renew()
        return Pass(self._feed, course, self._read_from, self._steps, self.timing)

    def _read_from(self, position: Position) -> Prefetcher:
        """Begin to read ahead."""
        return Prefetcher(
            self._feed, self._rank, position, self._batches, self._prefetch, self._accounts
        )

    def _end_pass(self) -> None:
        """Leave the pass under way, if there is one: where it stands can still be saved."""
        if self._pass is not None:
            self._pass.leave()

    @property
    def _under_way(self) -> Pass | None:
        return None if self._pass is None or self._pass.over else self._pass

    def _check_open(self) -> None:
        if self._closed:
            raise Conflict(
                "this loader is closed; create a new one, and use it inside its with block"
            )

    def state_dict(self) -> dict[str, Any]:
        """Where training stands, the batch at hand included; small whatever the dataset's size.

        All ranks stand at the same step: the state of one is the state of all.
        """
        course, going = self._course, self._course.going
        if going is not None and going.start is Start.EPOCH:
            return asdict(course.start_of(going.epoch, self._identity()))
        if going is not None and self._feed.attached.under_way:
            raise Conflict(
                f"run {self._feed.attached.name} is under way, and this process has received "
                "nothing of it yet: there is no state to take before its first batch"
            )
        place, current = course.position, self._under_way
        settled = course.settled if current is None else current.settled
        state = course.state(self._identity(), place, self._heads(place), settled)
        self._feed.took_state(state.epoch, state.position)
        return asdict(state)

    def _heads(self, place: Position) -> int | None:
        """How many batches came from the head before a place, for all ranks together."""
        if self._world_size == 1 or place.step == 0:
            return place.heads
        known = None if self._under_way is None else self._under_way.heads(place.step)
        if known is not None or place.whole:
            return known
        return self._feed.heads(place.epoch, place.step)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state: the next pass delivers what its epoch had left.

        It may be of any run over the same dataset version, pipeline, seed and batch size, with any
        number of ranks, workers and devices.
        """
        self._check_open()
        given = LoaderState.given(state)
        mine = self._identity()
        wrong = [name for name in SHARED if given.run.get(name) != mine[name]]
        if wrong:
            told = ", ".join(
                f"{name} {given.run.get(name)!r}, not {mine[name]!r}" for name in wrong
            )
            dataset, version = self._feed.attached.dataset, str(given.run.get("dataset"))
            if dataset and "dataset" in wrong:
                told += (
                    "; the dataset has changed since the state was taken. To go on over its "
                    f"earlier version: ddlp run clone {self._feed.attached.name} --dataset "
                    f"{dataset}@{version[:8]}"
                )
            raise InvalidInput(f"the state does not fit this run: it is of {told}")
        self._end_pass()
        self._steps.forget()
        course = self._course
        if course.epochs is not None and given.epoch >= course.epochs:
            course.stand_at_end(given.epoch)
            if given.run.get("run") == mine["run"]:
                self._feed.took_state(given.epoch, given.position)
            return
        course.move(self._feed.begin(Going(Start.STATE, state=given)))
        course.going = None

    def _identity(self) -> dict[str, Any]:
        """All that decides which samples come in which batch, and which run it is."""
        attached = self._feed.attached
        plan = attached.plan
        return {
            "samples": plan.samples,
            "batch_size": plan.batch_size,
            "seed": plan.seed,
            "reshuffle": plan.reshuffle,
            "tail": plan.tail.value,
            "dataset": attached.dataset_version,
            "pipeline": attached.pipeline_hash,
            "on_bad": attached.on_bad.value,
            "run": str(attached.run),
        }

    def __repr__(self) -> str:
        """Run, place and rank, for logs."""
        name, where = self._feed.attached.name, f"epoch {epoch_of(self.epoch, self.epochs)}"
        return f"<DualLoader {name}: {where}, rank {self._rank} of {self._world_size}>"

    def close(self) -> None:
        """Let go of the run; with a local one its processes and files go too."""
        if self._closed:
            return
        self._closed = True
        self._end_pass()
        self._batches.readers.close()
        self._feed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
