"""Checks how a device behaves when its drive is full: it says so, lives on, and works again later.

Runs whose batches nobody takes fill the drive up. That is done only where little room is left, as
by a quota: nobody wants a large drive filled.
"""

import math
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddlp.cli.conformance.findings import Finding, failed, not_checked, passed
from ddlp.cli.conformance.waiting import happens
from ddlp.cli.conformance.watcher import Watcher
from ddlp.core.client import Client
from ddlp.core.errors import Conflict
from ddlp.core.lifecycle import TERMINAL
from ddlp.core.messages import DeviceInfo
from ddlp.core.store import StoreAddress
from ddlp.core.types import RunState

CHECK = "full drive"
MOST_BYTES = 256 << 20
_RUNS = 4
_FILLED_S = 120.0
_ADVICE = "start the device with DDLP_STORE_QUOTA_BYTES=67108864 and check it again"


@dataclass(frozen=True)
class FullDrive:
    """A device whose drive is to be filled up with batches of a dataset."""

    client: Client
    device: DeviceInfo
    dataset: str
    root: Path | None
    """Its store, where this host sees it."""

    def fill(self) -> Finding | str:
        """Fill the drive and make room again; what it said meanwhile, or why it did not pass."""
        room_bytes = self.device.room.free_bytes
        if room_bytes is None:
            return not_checked(CHECK, f"it does not say how much room its store has; {_ADVICE}")
        if room_bytes > MOST_BYTES:
            return not_checked(
                CHECK,
                f"its store has room for {room_bytes >> 20:,} MiB, too much to fill; {_ADVICE}",
            )
        with self._runs(side_px(room_bytes, self.device.slots)) as runs:
            return self._watch(runs)

    def _watch(self, runs: list[dict[str, Any]]) -> Finding | str:
        seen: list[dict[str, Any]] = []

        def told() -> bool:
            seen[:] = [self.client.get(f"/runs/{run['id']}") for run in runs]
            return any(run["held_up"] or RunState(run["state"]) in TERMINAL for run in seen)

        full = happens(told, _FILLED_S)
        for run in seen:
            if RunState(run["state"]) in TERMINAL:
                return failed(
                    CHECK,
                    f"a full store ended run {run['name']}, which is to wait: {run['reason']}",
                )
        if not full:
            return not_checked(
                CHECK, f"its store was not full after {_FILLED_S:.0f} s of filling; {_ADVICE}"
            )
        said = next(str(run["held_up"]) for run in seen if run["held_up"])
        store = StoreAddress.parse(self.device.store)
        if str(store.path) not in said and store.url not in said:
            return failed(CHECK, f"it is full, but does not say that this is {store}: {said}")
        for run in runs:
            watcher = Watcher(self.root, uuid.UUID(run["id"]))
            watcher.look()
            if watcher.broken:
                return failed(CHECK, f"it left an unfinished file: {watcher.broken[0]}")
        return said

    @contextmanager
    def _runs(self, side: int) -> Iterator[list[dict[str, Any]]]:
        """Runs of large samples that nobody trains with, for a while."""
        pipeline = f"ddlp-conformance-{side}"
        steps = [{"name": "resize", "size": side}, {"name": "centre-crop", "size": side}]
        self.client.post("/pipelines", {"name": pipeline, "transforms": steps})
        body = {
            "dataset": self.dataset,
            "pipeline": pipeline,
            "batch_size": 1,
            "strategy": self.device.prong.value,
        }
        made: list[dict[str, Any]] = []
        try:
            for _ in range(_RUNS):
                name = f"conformance-full-{uuid.uuid4().hex[:8]}"
                made.append(self.client.post("/runs", {"name": name, **body}, once=True))
            yield made
        finally:
            for run in made:
                cancel(self.client, run["id"])


def recovered(said: str, batches: int) -> Finding:
    """It was full, and made batches again when there was room."""
    return passed(
        CHECK,
        f"it said: {said!r}; it lived on, left nothing unfinished, and made {batches} batches when "
        "there was room again",
    )


def side_px(room_bytes: int, slots: int) -> int:
    """Side of a picture of which every process can have one at work, two lie ready, and it is full.

    A server takes runs that need no more than that, and lets each fill half of the room.
    """
    batch_bytes = room_bytes // (4 * (slots + 2))
    return max(1, min(8192, math.isqrt(max(0, batch_bytes - (16 << 10)) // 3)))


def cancel(client: Client, run: str) -> None:
    """End a run that may have ended by itself."""
    try:
        client.post(f"/runs/{run}/cancel")
    except Conflict:
        return
