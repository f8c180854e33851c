"""`ddlp csd conformance`: checks a living device against the contract, whatever its driver is.

A run that this device alone can make is taken batch by batch; what comes is compared with what this
host makes, its store is watched, and stale leases and a full drive are tried on it. `findings` says
what a check can come to; each of the others is one check, or what several of them need.
"""

import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddlp.cli.conformance.findings import Finding, Outcome, failed, not_checked, passed
from ddlp.cli.conformance.full import CHECK as FULL
from ddlp.cli.conformance.full import FullDrive, cancel, recovered
from ddlp.cli.conformance.power import power_finding
from ddlp.cli.conformance.reference import (
    BATCH_SIZE,
    PIPELINE,
    TRANSFORMS,
    Host,
    add_dataset,
)
from ddlp.cli.conformance.stale import CHECK as STALE
from ddlp.cli.conformance.stale import Stale, spent
from ddlp.cli.conformance.trainer import Taken, Trainer
from ddlp.cli.conformance.waiting import happens
from ddlp.cli.conformance.watcher import Watcher
from ddlp.core.client import Client
from ddlp.core.errors import Conflict, DdlpError, NotFound
from ddlp.core.messages import DeviceInfo, Lease
from ddlp.core.pipeline import ENGINE
from ddlp.core.plan import RunPlan
from ddlp.core.store import StoreAddress

__all__ = ["Finding", "Outcome", "Subject", "conform"]

BYTES = "bytes"
_TOTALS_S = 20.0


@dataclass(frozen=True)
class Subject:
    """What is to be checked, and with what."""

    name: str
    """Of the device."""
    data: Path
    """Where the reference images are written to."""
    redis_url: str | None
    patience_s: float
    say: Callable[[str], None] = lambda _: None
    """Told what is being done."""


def conform(client: Client, subject: Subject) -> list[Finding]:
    """Check a device; what could not be checked is said, and is no pass."""
    device = _device_alone(client, subject.name)
    dataset = add_dataset(client, subject.data)
    client.post("/pipelines", {"name": PIPELINE, "transforms": TRANSFORMS})
    with (
        tempfile.TemporaryDirectory(prefix="ddlp-conformance-") as scratch,
        _run(client, device, dataset) as run,
    ):
        return _Examination(client, subject, device, dataset, run, Path(scratch)).findings()


@dataclass(frozen=True)
class _Examination:
    client: Client
    subject: Subject
    device: DeviceInfo
    dataset: str
    run: dict[str, Any]
    scratch: Path

    def findings(self) -> list[Finding]:
        """All checks, in a fixed order."""
        watcher = Watcher(StoreAddress.parse(self.device.store).folder, uuid.UUID(self.run["id"]))
        watcher.start()
        try:
            same, stale, full = self._work(watcher)
        finally:
            watcher.stop()
        return [same, watcher.finding(), stale, self._power(), full]

    def _work(self, watcher: Watcher) -> tuple[Finding, Finding, Finding]:
        """An epoch to compare, the checks that need leases of it, and a full drive at the end."""
        why = "it needs a device that makes batches"
        stale, full = not_checked(STALE, why), not_checked(FULL, why)
        try:
            self.subject.say("comparing an epoch of its batches with this host's …")
            taken = self._take(self.run)
            if not taken.problems:
                root = watcher.root if watcher.sees else None
                self.subject.say("sending it leases that are not valid any more …")
                stale = self._stale(taken, root)
                self.subject.say("filling its drive, if that is small enough; up to two minutes …")
                full = self._fill(root)
        except DdlpError as error:
            return failed(BYTES, f"{self.device.name} makes no batches: {error}"), stale, full
        return self._bytes(taken), stale, full

    def _take(self, run: dict[str, Any]) -> Taken:
        host = Host(self.client, uuid.UUID(run["id"]), self.scratch)
        name, patience_s = self.subject.name, self.subject.patience_s
        with Trainer(self.client.url, run["id"], name, patience_s) as trainer:
            return trainer.take(0, host)

    def _bytes(self, taken: Taken) -> Finding:
        problems = taken.problems
        engines = f"by {self.device.engine} there and {ENGINE} here"
        if problems:
            more = f" (and {len(problems) - 1} more)" if problems[1:] else ""
            return failed(
                BYTES,
                f"{problems[0]}{more}, {engines}; install the same version of DDLP on the device, "
                "and see docs/image-path.md",
            )
        return passed(
            BYTES,
            f"all {taken.tensors} tensors of {taken.batches} batches are the same bytes, {engines}",
        )

    def _stale(self, taken: Taken, root: Path | None) -> Finding:
        plan = RunPlan(
            samples=self.run["samples"], batch_size=BATCH_SIZE, epochs=2, seed=self.run["seed"]
        )
        index = min(taken.tokens)
        places = plan.whole.places(index)
        run = uuid.UUID(self.run["id"])
        lease = Lease(run=run, epoch=0, index=index, token=taken.tokens[index], places=places)
        self.client.post(f"/runs/{self.run['id']}/pause")  # so that its queue becomes quiet
        leases = spent(lease)
        return Stale(self.client, self.device, leases, root, self.subject.redis_url).finding()

    def _fill(self, root: Path | None) -> Finding:
        """Fill the drive; then it must be heard of, and make a run when there is room again."""
        drive = FullDrive(self.client, _device(self.client, self.device.name), self.dataset, root)
        try:
            said = drive.fill()
        except Conflict as error:
            return not_checked(FULL, f"the server does not take runs that would fill it: {error}")
        if isinstance(said, Finding):
            return said
        try:
            with _run(self.client, self.device, self.dataset, self.subject.patience_s) as run:
                taken = self._take(run)
        except DdlpError as error:
            return failed(FULL, f"since it said {said!r} it makes no batches any more: {error}")
        problems = [*taken.problems, *self._silent()]
        if problems:
            return failed(FULL, f"it said {said!r}, and after that: {problems[0]}")
        return recovered(said, taken.batches)

    def _silent(self) -> list[str]:
        live = _device(self.client, self.device.name).live
        return [] if live else ["it is not heard of any more"]

    def _power(self) -> Finding:
        """The totals of a run are added up every few seconds."""
        emulated: list[str] = []

        def told() -> bool:
            emulated[:] = self.client.get(f"/runs/{self.run['id']}")["emulated"]
            return bool(emulated) or not self.device.emulated

        happens(told, _TOTALS_S)
        return power_finding(_device(self.client, self.device.name), emulated)


def _device(client: Client, name: str) -> DeviceInfo:
    found = [DeviceInfo.model_validate(entry) for entry in client.get("/devices")]
    for device in found:
        if device.name == name:
            return device
    known = ", ".join(device.name for device in found) or "none"
    raise NotFound(f"there is no device {name}; known devices: {known}")


def _device_alone(client: Client, name: str) -> DeviceInfo:
    """The device, if what is asked of its prong is asked of it."""
    device = _device(client, name)
    if not device.live:
        start = f"ddlp worker --prong {device.prong} --name {name}"
        raise Conflict(f"device {name} is not heard of; start it: {start}")
    others = [
        other["name"]
        for other in client.get("/devices")
        if other["live"] and other["prong"] == device.prong.value and other["name"] != name
    ]
    if others:
        raise Conflict(
            f"{', '.join(others)} would do some of the work of prong {device.prong} in place of "
            f"{name}; stop them for the time of the check, or check it on a server of its own"
        )
    return device


@contextmanager
def _run(
    client: Client, device: DeviceInfo, dataset: str, patience_s: float = 0.0
) -> Iterator[dict[str, Any]]:
    """A run that is over when the check is; a server may need a while to know of room for it."""
    body = {
        "name": f"conformance-{uuid.uuid4().hex[:8]}",
        "dataset": dataset,
        "pipeline": PIPELINE,
        "batch_size": BATCH_SIZE,
        "epochs": 2,
        "seed": 1,
        "strategy": device.prong.value,
    }
    made: list[dict[str, Any]] = []

    def taken() -> bool:
        try:
            made.append(client.post("/runs", body, once=True))
        except Conflict:
            return False
        return True

    if not happens(taken, patience_s):
        made.append(client.post("/runs", body, once=True))
    try:
        yield made[0]
    finally:
        cancel(client, made[0]["id"])
