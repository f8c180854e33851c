"""How much of the engine's speed is left at the end of the path?

    python -m benchmarks path_cost

One worker process makes batches of 64 with `imagenet-train`: called in a bare loop, through
`DualLoader.local`, and through the whole stack (server, SQL, Celery, files, loader). A ratio of 1
means that the way to the trainer costs nothing.
"""

import tempfile
import time
import uuid
from pathlib import Path

from benchmarks.photos import dataset
from benchmarks.report import Report, interleave
from ddlp.cli.scan import follow_scan
from ddlp.cli.up import Stack
from ddlp.core.client import Client
from ddlp.core.dataset import scan
from ddlp.core.messages import Lease, WorkSpec
from ddlp.core.pipeline import Pipeline
from ddlp.core.plan import RunPlan
from ddlp.core.produce import Producer
from ddlp.core.settings import Settings
from ddlp.core.store import BatchStore, release
from ddlp.loader import DualLoader

_BATCH = 64
_AHEAD = 24  # more than the window and the loader's own batches together


def measure(quick: bool) -> Report:
    """Images a second, by the way they take."""
    images, rounds = (320, 1) if quick else (4096, 3)
    with tempfile.TemporaryDirectory() as scratch:
        root, data = dataset(Path(scratch), images)
        settings = Settings(
            home=Path(scratch) / "home", port=0, dataset_roots=[root], cpu_workers=1, csd_devices=0
        )
        report = Report(
            question="How much of the engine's speed is left at the end of the path? (batch 64)",
            data=data,
            unit="images/s",
            baseline="bare loop",
            notes=["one worker process, strategy cpu; the trainer only takes the batches"],
        )
        with Stack(settings) as stack, Client(stack.url) as client:
            client.post("/datasets", {"uri": str(root), "name": "photos"})
            follow_scan(client, "photos")
            ways = {
                "bare loop": lambda: _bare(root, Path(scratch)),
                "DualLoader.local": lambda: _local(root),
                "whole stack": lambda: _stack(client, stack.url),
            }
            return interleave(report, ways, rounds)


def _bare(root: Path, scratch: Path) -> float:
    summary = scan(root, scratch / "index")
    plan = RunPlan(summary.samples, _BATCH, 1, 0)
    pipeline = Pipeline.preset("imagenet-train")
    spec = WorkSpec(
        run=uuid.uuid4(),
        index_path=scratch / "index",
        dataset_version=summary.version,
        transforms=pipeline.spec.transforms,
        pipeline_hash=pipeline.hash,
        plan=plan,
    )
    producer = Producer(spec, BatchStore(scratch / "store"), "bench")
    started = time.perf_counter()
    for index in range(plan.batches):
        made = producer.make(Lease(run=spec.run, epoch=0, index=index, token=index + 1))
        release(Path(made.location))
    return plan.samples / (time.perf_counter() - started)


def _local(root: Path) -> float:
    with DualLoader.local(
        root, batch_size=_BATCH, workers=1, strategy="cpu", normalize=False
    ) as loader:
        return _take(loader)


def _stack(client: Client, url: str) -> float:
    body = {"dataset": "photos", "batch_size": _BATCH, "strategy": "cpu"}
    run = client.post("/runs", body)["name"]
    with DualLoader(run=run, url=url, normalize=False) as loader:
        return _take(loader)


def _take(loader: DualLoader) -> float:
    """The rate once all that could be made ahead is used up."""
    first = min(_AHEAD, len(loader) // 2)
    images, started = 0, 0.0
    for step, (batch, _) in enumerate(loader):
        if step == first:
            started = time.perf_counter()
        elif step > first:
            images += len(batch)
    return images / (time.perf_counter() - started)
