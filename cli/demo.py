"""`ddlp demo`: the whole path at work: a dataset, a run, a model that learns, a page."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ddlp.cli.scan import follow_scan
from ddlp.cli.serve import PortTaken
from ddlp.cli.up import Stack, csd_words, prepare_home, stay, stop_on_term
from ddlp.cli.verify import verify_run
from ddlp.core.client import Client
from ddlp.core.demo import BATCH_SIZE, CPU_WINDOW, CSD_STORE_BYTES, IMAGES, PIPELINE, SEED
from ddlp.core.demo_images import CLASSES, make_dataset
from ddlp.core.errors import Conflict
from ddlp.core.settings import Settings
from ddlp.core.units import joules
from ddlp.loader.demo_trainer import train


def run_demo(settings: Settings, epochs: int, strategy: str, oneshot: bool) -> None:
    """Run it and print what it came to; stays for the page unless it is to end by itself."""
    stop_on_term()
    home = settings.home.absolute() / "demo"
    prepare_home(home)
    print(f"1/4  drawing {IMAGES} images of {len(CLASSES)} shapes …", flush=True)
    folder = make_dataset(home / "shapes", IMAGES)
    print("2/4  starting server, broker, CPU workers and an emulated CSD …", flush=True)
    with _stack(settings, home) as stack, Client(stack.url) as client:
        _say(csd_words(stack.settings))
        run = _make_run(client, folder, epochs, strategy)
        print(f"3/4  training; watch it at {stack.url}/runs/{run}", flush=True)
        accuracy = train(stack.url, run, _say, stack.watch)
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
            "keys": "off",
            "csd_devices": max(1, settings.csd_devices),
            "cpu_window": CPU_WINDOW,
            "csd_store_bytes": CSD_STORE_BYTES,
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
    client.post("/pipelines", PIPELINE)
    run = client.post(
        "/runs",
        {
            "dataset": _dataset(client, folder),
            "pipeline": PIPELINE["name"],
            "batch_size": BATCH_SIZE,
            "epochs": epochs,
            "seed": SEED,
            "strategy": strategy,
        },
        once=True,
    )
    return str(run["name"])


def _dataset(client: Client, folder: Path) -> str:
    """The dataset's name: of an earlier demo's if that saw the very same files."""
    known = client.get("/datasets")
    name = f"shapes-v{len(known) + 1}" if known else "shapes"
    client.post("/datasets", {"uri": str(folder), "name": name}, once=True)
    version = follow_scan(client, name)["version"]
    for dataset in known:
        if dataset["version"] == version:
            client.delete(f"/datasets/{name}")
            return str(dataset["name"])
    return name


_SOURCES = {"cpu": "CPU workers", "csd": "CSD (emulated)", "dram": "memory", "idle": "idle, apart"}


def _summarise(client: Client, run: str, accuracy: float) -> None:
    info: dict[str, Any] = _finished(client, run)
    rates = info["images_per_s"]
    proof = verify_run(client, run)
    last = client.get(f"/runs/{run}/epochs")[-1]
    print(f"  accuracy       {accuracy:.1%} in the last epoch (chance: {1 / len(CLASSES):.1%})")
    print(f"  throughput     {_rate(info['delivered_images_per_s'])}")
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
    made = " + ".join(f"{many} {prong.upper()}" for prong, many in last["made"].items())
    print(f"  last epoch     {made} of {last['batches']} batches")
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


def _say(line: str) -> None:
    print(f"     {line}", flush=True)


def _rate(value: float | None) -> str:
    return "– images/s (not measured)" if value is None else f"{value:.0f} images/s"
