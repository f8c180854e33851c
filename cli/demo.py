"""`ddlp demo`: the whole path at work: a dataset, a run, a model that learns, a page."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ddlp.cli.demo_data import CLASSES, make_dataset
from ddlp.cli.scan import follow_scan
from ddlp.cli.serve import PortTaken
from ddlp.cli.up import Stack, make_home, stay, stop_on_term
from ddlp.cli.verify import verify_run
from ddlp.core.client import Client
from ddlp.core.errors import Conflict
from ddlp.core.settings import Settings
from ddlp.core.units import joules
from ddlp.loader import DualLoader

_IMAGES = 2400
_BATCH = 24
_CPU_WINDOW = 16
_CSD_STORE_BYTES = 8 << 20  # little, so that the page shows both fronts being held back too
_SIDE = 64
_PIPELINE = {
    "name": "demo-64",
    "transforms": [
        {"name": "random-resized-crop", "size": _SIDE, "min_area": 0.6},
        {"name": "flip"},
        {"name": "normalize", "mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25]},
    ],
}


def run_demo(settings: Settings, epochs: int, strategy: str, oneshot: bool) -> None:
    """Run it and print what it came to; stays for the page unless it is to end by itself."""
    stop_on_term()
    home = settings.home.absolute() / "demo"
    make_home(home)
    print(f"1/4  drawing {_IMAGES} images of {len(CLASSES)} shapes …", flush=True)
    folder = make_dataset(home / "shapes", _IMAGES)
    print("2/4  starting server, broker, CPU workers and an emulated CSD …", flush=True)
    with _stack(settings, home) as stack, Client(stack.url) as client:
        run = _make_run(client, folder, epochs, strategy)
        print(f"3/4  training; watch it at {stack.url}/runs/{run}", flush=True)
        accuracy = _train(stack, run, epochs)
        print("4/4  summary")
        _summarise(client, run, accuracy)
        print(f"  page           {stack.url}/runs/{run}", flush=True)
        if not oneshot:
            print("\nCtrl-C ends the demo.", flush=True)
            with suppress(KeyboardInterrupt):
                stay(stack)


@contextmanager
def _stack(settings: Settings, home: Path) -> Iterator[Stack]:
    """All parts, on the usual port or on a free one."""
    mine = settings.model_copy(
        update={
            "home": home,
            "dataset_roots": [home],
            "cpu_window": _CPU_WINDOW,
            "csd_store_bytes": _CSD_STORE_BYTES,
        }
    )
    try:
        stack = Stack(mine)
        stack.__enter__()
    except PortTaken:
        stack = Stack(mine.model_copy(update={"port": 0}))
        stack.__enter__()
    try:
        yield stack
    finally:
        stack.stop()


def _make_run(client: Client, folder: Path, epochs: int, strategy: str) -> str:
    client.post("/pipelines", _PIPELINE)
    run = client.post(
        "/runs",
        {
            "dataset": _dataset(client, folder),
            "pipeline": _PIPELINE["name"],
            "batch_size": _BATCH,
            "epochs": epochs,
            "seed": 7,
            "strategy": strategy,
        },
    )
    return str(run["name"])


def _dataset(client: Client, folder: Path) -> str:
    """The dataset's name: of an earlier demo's if that saw the very same files."""
    known = client.get("/datasets")
    name = f"shapes-v{len(known) + 1}" if known else "shapes"
    client.post("/datasets", {"uri": str(folder), "name": name})
    version = follow_scan(client, name)["version"]
    for dataset in known:
        if dataset["version"] == version:
            client.delete(f"/datasets/{name}")
            return str(dataset["name"])
    return name


def _model() -> nn.Module:
    def block(before: int, after: int) -> list[nn.Module]:
        return [
            nn.Conv2d(before, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]

    return nn.Sequential(
        *block(3, 16),
        *block(16, 32),
        *block(32, 64),
        *block(64, 64),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, len(CLASSES)),
    )


def _train(stack: Stack, run: str, epochs: int) -> float:
    """Train through both prongs; returns the last epoch's accuracy."""
    torch.manual_seed(7)
    model = _model()
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    accuracy = 0.0
    with DualLoader(run=run, url=stack.url) as loader:
        for epoch in range(epochs):
            started, right, seen = time.monotonic(), 0, 0
            for images, labels in loader:
                scores = model(images)
                loss = nn.functional.cross_entropy(scores, labels)
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                right += int((scores.argmax(1) == labels).sum())
                seen += len(labels)
                stack.watch()
            accuracy = right / seen
            rate = seen / (time.monotonic() - started)
            print(
                f"     epoch {epoch + 1}/{epochs}: accuracy {accuracy:.1%}, {rate:.0f} images/s",
                flush=True,
            )
    return accuracy


_SOURCES = {"cpu": "CPU workers", "csd": "CSD (emulated)", "dram": "memory", "idle": "idle, apart"}


def _summarise(client: Client, run: str, accuracy: float) -> None:
    info: dict[str, Any] = _finished(client, run)
    rates = info["images_per_s"]
    proof = verify_run(client, run)
    last = client.get(f"/runs/{run}/epochs")[-1]
    print(f"  accuracy       {accuracy:.1%} in the last epoch (chance: {1 / len(CLASSES):.1%})")
    print(f"  CPU workers    {info['images']['cpu']} images, {_rate(rates['cpu'])}")
    print(f"  CSD (emulated) {info['images']['csd']} images, {_rate(rates['csd'])}")
    stall = info["wait_share"]
    print(f"  stall          {'unknown' if stall is None else f'{stall:.1%} of the training time'}")
    print(f"  limit          {info['stall']['sentence']}")
    for entry in info["energy"]:
        name = _SOURCES.get(entry["source"], entry["source"])
        each = entry["joules_per_image"]
        figure = "unknown" if each is None else f"{joules(each)}/image"
        print(f"  energy         {name}: {figure} ({entry['provenance']}: {entry['method']})")
    for read in info["reads"]:
        print(f"  read by        {read['path']}: {read['bytes'] / 1e6:.1f} MB ({read['reason']})")
    print(f"  meeting point  batch {last['meeting_point']} of {last['batches']} (last epoch)")
    said = "every sample exactly once" if proof["exactly_once"] else f"BROKEN: {proof['problems']}"
    print(f"  certificate    {proof['epochs']} epochs × {proof['samples']} samples: {said}")
    if not proof["exactly_once"]:
        raise Conflict(f"run {run} did not deliver every sample exactly once")


def _finished(client: Client, run: str) -> dict[str, Any]:
    """The run's figures once it is over: the last acknowledgement is being written."""
    deadline = time.monotonic() + 10
    while True:
        info: dict[str, Any] = client.get(f"/runs/{run}")
        if info["state"] == "completed" or time.monotonic() > deadline:
            return info
        time.sleep(0.05)


def _rate(value: float | None) -> str:
    return "no rate known" if value is None else f"{value:.0f} images/s"
