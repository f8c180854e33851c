"""Makes one batch: the work of every producer, whatever brought it the lease."""

import errno
import os
import time
from dataclasses import replace
from functools import partial

from ddlp.core.batchfile import Array, BatchId
from ddlp.core.dataset import DatasetIndex
from ddlp.core.errors import BadSample, InvalidInput
from ddlp.core.messages import Lease, WorkSpec
from ddlp.core.mishap import Mishap
from ddlp.core.patience import Patience, fault_of
from ddlp.core.pipeline import ENGINE, Engine, Pipeline, PipelineSpec, kept
from ddlp.core.pipeline.engine import Ints
from ddlp.core.pipeline.isolated import IsolatedRenderer
from ddlp.core.schedule.reports import Made
from ddlp.core.stages import PictureTimes, StageTimes, peak_bytes
from ddlp.core.store import BatchStore


class Producer:
    """Makes batches of one run into one store."""

    def __init__(self, spec: WorkSpec, store: BatchStore, device: str) -> None:
        self._spec = spec
        self._index = DatasetIndex(spec.index_path)
        self._index.cure = spec.cure
        if self._index.version != spec.dataset_version:
            raise InvalidInput(
                f"{spec.index_path} has version {self._index.version[:12]}, the run needs "
                f"{spec.dataset_version[:12]}; rescan its dataset and make a new run"
            )
        self._pipeline = Pipeline.parse(PipelineSpec(transforms=spec.transforms))
        if self._pipeline.hash != spec.pipeline_hash:
            raise InvalidInput(
                f"the run's pipeline is {spec.pipeline_hash[:12]}, here it would be "
                f"{self._pipeline.hash[:12]}: DDLP or a package that adds one of its transforms "
                "has another version here than on the server; install the same"
            )
        self._engine = Engine(self._index, self._pipeline, spec.plan.seed, spec.on_bad)
        self._store = store
        self._device = device
        self._patience = Patience()

    def make(self, lease: Lease, speed: float = 1.0, link_bytes_per_s: float | None = None) -> Made:
        """Make and publish a batch; below speed 1 as slowly as a processor of that speed would.

        A link that is named adds the time that it would take to carry the batch. Whoever tried
        before and was never heard of again may have died of a sample: then each one is decoded in a
        process of its own.
        """
        if not lease.losses:
            return self._make(lease, self._engine, speed, link_bytes_per_s)
        with IsolatedRenderer(self._spec.index_path, self._pipeline, self._spec.plan.seed) as apart:
            seed, on_bad = self._spec.plan.seed, self._spec.on_bad
            careful = Engine(self._index, self._pipeline, seed, on_bad, apart)
            return self._make(lease, careful, speed, link_bytes_per_s)

    def _make(
        self, lease: Lease, engine: Engine, speed: float, link_bytes_per_s: float | None
    ) -> Made:
        started, started_cpu = time.monotonic(), time.process_time()
        samples = self._spec.plan.samples_at(lease.epoch, lease.places)
        batch = BatchId(
            run=lease.run,
            epoch=lease.epoch,
            index=lease.index,
            token=lease.token,
            samples=len(samples),
            pipeline=self._pipeline.hash,
            engine=ENGINE,
            device=self._device,
        )
        mishaps: list[Mishap] = []
        filled_s = 0.0

        def fill(arrays: dict[str, Array]) -> int:
            nonlocal filled_s
            began_s = time.monotonic()
            attempt = partial(self._fill, engine, lease.epoch, samples, arrays, mishaps)
            left = self._patience.wait_out(attempt)
            filled_s += time.monotonic() - began_s
            return left

        engine.take_times()  # what an attempt that failed has left
        stored = self._store.write(batch, self._pipeline.batch_tensors(len(samples)), fill)
        written_s = time.monotonic() - started - filled_s
        times = _times(engine.take_times(), filled_s, written_s)
        cpu_s = time.process_time() - started_cpu
        if speed < 1:
            took_s = time.monotonic() - started
            time.sleep(max(0.0, cpu_s / speed - took_s))
            times = times.stretched((time.monotonic() - started) / max(took_s, 1e-9))
        if link_bytes_per_s is not None:
            link_s = stored.nbytes / link_bytes_per_s
            time.sleep(link_s)
            times = replace(times, write_s=times.write_s + link_s)
        return Made(
            device=self._device,
            location=stored.location,
            nbytes=stored.nbytes,
            checksum=stored.checksum,
            seconds=time.monotonic() - started,
            cpu_s=cpu_s,
            bad=tuple(mishaps),
            times=times,
        )

    def _fill(
        self,
        engine: Engine,
        epoch: int,
        samples: Ints,
        arrays: dict[str, Array],
        mishaps: list[Mishap],
    ) -> int:
        """Fill a batch's tensors; how many samples it holds, and which ones could not be used."""
        try:
            mishaps[:] = engine.fill(epoch, samples, arrays["images"])
        except MemoryError as error:
            lacking = OSError(errno.ENOMEM, str(error) or os.strerror(errno.ENOMEM))
            raise fault_of(lacking, "malloc", "memory for a batch") from error
        left = kept(samples, mishaps)
        if not len(left):
            raise BadSample(
                f"none of its {len(samples)} samples can be used; the first: "
                f"{mishaps[0].name}: {mishaps[0].reason}"
            )
        arrays["labels"][: len(left)] = engine.labels(left)
        arrays["samples"][: len(left)] = left
        for name, made in engine.extras(epoch, left).items():
            arrays[name][: len(left)] = made
        return len(left)


def _times(pictures: PictureTimes, filled_s: float, written_s: float) -> StageTimes:
    """What is left of the filling beside the pictures is the pipeline's other work."""
    return StageTimes(
        fetch_s=pictures.fetch_s,
        decode_s=max(0.0, pictures.decode_s),
        transform_s=max(0.0, filled_s - pictures.fetch_s - pictures.decode_s),
        write_s=max(0.0, written_s),
        fetched_bytes=pictures.fetched_bytes,
        peak_bytes=peak_bytes(),
    )
