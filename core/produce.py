"""Makes one batch: the work of every producer, whatever brought it the lease."""

import time
from pathlib import Path

from ddlp.core.batchfile import Array, BatchId, batch_tensors
from ddlp.core.dataset import DatasetIndex
from ddlp.core.errors import InvalidInput
from ddlp.core.messages import Lease, WorkSpec
from ddlp.core.pipeline import ENGINE, Engine, Pipeline, PipelineSpec
from ddlp.core.schedule.run import Made
from ddlp.core.store import BatchStore


class Producer:
    """Makes batches of one run into one store."""

    def __init__(self, spec: WorkSpec, store: BatchStore, device: str) -> None:
        index = DatasetIndex(spec.index_path)
        if index.version != spec.dataset_version:
            raise InvalidInput(
                f"{spec.index_path} has version {index.version[:12]}, the run needs "
                f"{spec.dataset_version[:12]}; register the dataset again and make a new run"
            )
        self._plan = spec.plan
        self._pipeline = Pipeline.parse(PipelineSpec(transforms=spec.transforms))
        self._engine = Engine(index, self._pipeline, spec.plan.seed)
        self._store = store
        self._device = device

    def make(self, lease: Lease, speed: float = 1.0) -> Made:
        """Make and publish a batch; below speed 1 as slowly as a processor of that speed would."""
        started, started_cpu = time.monotonic(), time.process_time()
        samples = self._plan.batch_samples(lease.epoch, lease.index)
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

        def fill(arrays: dict[str, Array]) -> None:
            self._engine.fill(lease.epoch, samples, arrays["images"])
            arrays["labels"][:] = self._engine.labels(samples)
            arrays["samples"][:] = samples

        tensors = batch_tensors(len(samples), self._pipeline.height, self._pipeline.width)
        stored = self._store.write(batch, tensors, fill)
        cpu_s = time.process_time() - started_cpu
        if speed < 1:
            time.sleep(max(0.0, cpu_s / speed - (time.monotonic() - started)))
        return Made(
            location=str(stored.path),
            nbytes=stored.nbytes,
            checksum=stored.checksum,
            seconds=time.monotonic() - started,
            cpu_s=cpu_s,
        )


def forget(made: Made) -> None:
    """Remove a batch that was made for nothing."""
    Path(made.location).unlink(missing_ok=True)
