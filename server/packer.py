"""Has workers pack datasets: sends a few shards at a time, and hears what became of each.

One thread owns the table of packings under way. It can be lost: rows in state `packing` are taken
up again by the next server, and workers find the shards that are there already.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from ddlp.core.errors import Conflict, DdlpError, Held, NotFound
from ddlp.core.messages import (
    PackCreate,
    PackingInfo,
    PackSpec,
    PackTask,
    ShardClaim,
    ShardGranted,
    ShardNews,
    ShardReport,
    ShardWanted,
)
from ddlp.core.outage import Outage
from ddlp.core.schedule import STRATEGIES
from ddlp.core.settings import Settings
from ddlp.core.types import DatasetState, DeviceKind, Prong, RunState
from ddlp.server import datasets, pack_folders, packings, versions
from ddlp.server.database import AWAY, Database
from ddlp.server.forecasts import Expected
from ddlp.server.models import Dataset, Device, Run
from ddlp.server.pack_plan import Made, PackPlan, plan_of
from ddlp.server.shards import SILENCE_S, Holder, Shards

_TICK_S = 0.25
_RESUME_S = 5.0
_PRODUCING = [RunState.CREATED.value, RunState.RUNNING.value]

log = logging.getLogger(__name__)


@dataclass
class _Packing:
    """One packing under way."""

    row: Dataset
    plan: PackPlan
    spec: PackSpec
    shards: Shards
    emulated: bool | None = None
    """Whether devices that are emulated have packed some of it."""
    waiting: str | None = None

    def note(self, device: Device) -> None:
        """A device is at it."""
        self.emulated = bool(self.emulated) or DeviceKind(device.kind).emulated


@dataclass(frozen=True)
class _Live:
    """The devices that are alive, the slots of those that take work, and prongs that runs want."""

    incarnations: dict[Prong, dict[str, uuid.UUID]]
    slots: dict[Prong, int]
    busy: set[Prong]

    def window(self, prong: Prong) -> int:
        """How many shards may be out: half of the processes are left to runs that go on."""
        slots = self.slots[prong]
        return max(1, slots // 2) if slots and prong in self.busy else slots


class Packer(threading.Thread):
    """Owns the packings under way."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        send: Callable[[Prong, PackTask], None],
        scan: Callable[[Dataset], None],
        now: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(name="packer", daemon=True)
        self._database = database
        self._settings = settings
        self._send = send
        self._scan = scan
        self._now = now
        """The time by which devices fall silent."""
        self._clock = clock
        self._packings: dict[uuid.UUID, _Packing] = {}
        self._resumed_at = clock()
        self._lock = threading.Lock()
        self._folders = threading.Lock()
        """Held by whoever decides which packing a folder is for, or ends that."""
        self._stopping = threading.Event()
        self._wake = threading.Event()

    def resume(self) -> None:
        """Take up what an earlier server left, or a request that did not come to its end."""
        self._resumed_at = self._clock()
        with self._folders:
            with self._database.session() as session:
                packing = select(Dataset).where(Dataset.state == DatasetState.PACKING.value)
                rows = list(session.scalars(packing))
            for row in rows:
                if row.id not in self._packings:
                    self.begin(row)

    def run(self) -> None:
        """Send, listen, and look again in a while."""
        outage = Outage(log, "packing is held up")
        while not self._stopping.is_set():
            pause_s = _TICK_S
            try:
                self.step()
            except AWAY as error:
                pause_s = max(_TICK_S, outage.failed(error))
            except Exception as error:  # the border of the thread, which goes on
                pause_s = max(_TICK_S, outage.failed(error, trace=True))
            else:
                outage.succeeded()
            self._wake.wait(pause_s)
            self._wake.clear()

    def stop(self) -> None:
        """End the thread; what is not done goes on with the next server."""
        self._stopping.set()
        self._wake.set()
        if self.is_alive():
            self.join(timeout=5)

    # Asked by others

    def draft(self, origin: str, body: PackCreate) -> Dataset:
        """The row that a wish comes to, remembered or not."""
        with self._database.session() as session:
            return packings.draft(session, self._settings, origin, body)

    def admit(self, origin: str, body: PackCreate, expected: Expected) -> Dataset:
        """Begin what a wish asks for, unless that was done; whoever asks at once gets the same."""
        with self._folders:
            try:
                row, begins = self._remember(origin, body, expected)
            except IntegrityError:  # another server was faster
                row, begins = self._remember(origin, body, expected)
            if begins:
                self.begin(row)
        return row

    def _remember(self, origin: str, body: PackCreate, expected: Expected) -> tuple[Dataset, bool]:
        with self._database.session() as session:
            row = packings.draft(session, self._settings, origin, body)
            return row, packings.remember(session, row, body, expected)

    def begin(self, row: Dataset) -> None:
        """Have a dataset packed from now on."""
        try:
            plan = plan_of(row)
            with self._database.session() as session:
                spec = packings.spec_of(session, row)
            pack_folders.prepare(spec.into, row.id, own=plan.own)
        except DdlpError as error:
            with self._database.session() as session:
                datasets.fail(session, row.id, str(error))
            return
        with self._lock:
            shards = Shards(plan.counts)
            self._packings[row.id] = _Packing(row, plan, spec, shards, plan.emulated)
        self._wake.set()

    def forget(self, row: Dataset) -> Path | None:
        """A dataset was removed: no more of it is wanted; gives the folder that went with it."""
        with self._lock:
            self._packings.pop(row.id, None)
        with self._folders, self._database.session() as session:
            return pack_folders.clear(session, self._settings, row)

    def progress(self, row: Dataset) -> PackingInfo | None:
        """How a dataset was packed, or how far that has come."""
        with self._lock:
            found = self._packings.get(row.id)
            shards, waiting = (found.shards, found.waiting) if found else (None, None)
            info = packings.info(row, shards, waiting, self._clock())
            if info is None or found is None:
                return info
            return info.model_copy(update={"emulated": found.emulated})

    def spec(self, dataset_id: uuid.UUID) -> PackSpec:
        """What a worker must know."""
        with self._lock:
            return self._find(dataset_id).spec

    def claim(self, dataset_id: uuid.UUID, body: ShardClaim) -> ShardGranted:
        """A process starts on a shard, unless that is there or in good hands."""
        device = self._device(body.device)
        claimer = Holder(body.device, device.incarnation, body.process, uuid.uuid4())
        with self._lock:
            found = self._find(dataset_id)
            try:
                found.shards.claim(body.shard, claimer, self._clock(), body.dead)
            except Held as error:
                return ShardGranted(token=None, silence_s=SILENCE_S, holder=error.process)
            found.note(device)
        return ShardGranted(token=claimer.token, silence_s=SILENCE_S)

    def hear(self, dataset_id: uuid.UUID, body: ShardNews) -> ShardWanted:
        """A sign of life; whoever has lost the shard, or its packing, is told to stop."""
        device = self._device(body.device)
        teller = Holder(body.device, device.incarnation, body.process, body.token)
        with self._lock:
            found = self._packings.get(dataset_id)
            if found is None:
                return ShardWanted(wanted=False)
            wanted = found.shards.hear(body.shard, teller, body.samples, self._clock())
            if wanted:
                found.note(device)
        return ShardWanted(wanted=wanted)

    def report(self, dataset_id: uuid.UUID, body: ShardReport) -> None:
        """A shard is there, or it is known why not."""
        with self._lock:
            found = self._find(dataset_id)
            if body.skipped and found.spec.options.on_bad == "fail":
                raise Conflict(f"shard {body.shard} lacks samples, which is not wanted any more")
            found.shards.report(body, self._clock())
        self._wake.set()

    def _find(self, dataset_id: uuid.UUID) -> _Packing:
        if dataset_id not in self._packings:
            raise NotFound(f"dataset {dataset_id} is not being packed; drop the work")
        return self._packings[dataset_id]

    def _device(self, name: str) -> Device:
        with self._database.session() as session:
            device = session.get(Device, name)
        if device is None:
            raise Conflict(f"device {name} is not registered; register it, then try again")
        return device

    # In the thread

    def step(self) -> None:
        """Take back what was lost, end what is over, and send what there is room for."""
        if self._clock() - self._resumed_at >= _RESUME_S:
            self.resume()
        if not self._packings:
            return
        with self._database.session() as session:
            live = self._look(session)
        with self._lock:
            under_way = list(self._packings.values())
            for packing in under_way:
                packing.shards.expire(self._clock(), live.incarnations[packing.plan.on])
        for packing in under_way:
            self._write_down(packing)
            if packing.shards.doom is not None or packing.shards.finished:
                self._end(packing)
        for prong in Prong:
            self._top_up(prong, live)

    def _look(self, session: Session) -> _Live:
        now, silent_s = self._now(), self._settings.device_timeout_s
        everybody = session.scalars(select(Device))
        alive = [row for row in everybody if now - row.last_seen_at <= silent_s]
        by_prong = {prong: [row for row in alive if row.prong == prong.value] for prong in Prong}
        strategies = session.scalars(
            select(Run.strategy).where(Run.state.in_(_PRODUCING)).distinct()
        )
        busy = {prong for name in strategies for prong in STRATEGIES[name].prongs}
        return _Live(
            {p: {row.name: row.incarnation for row in rows} for p, rows in by_prong.items()},
            {
                p: sum(row.slots for row in rows if row.drained_at is None)
                for p, rows in by_prong.items()
            },
            busy,
        )

    def _write_down(self, packing: _Packing) -> None:
        """Keep what must not be forgotten, should the server end."""
        if packing.emulated != packing.plan.emulated and packing.emulated is not None:
            with self._database.session() as session:
                packings.note_emulated(session, packing.row.id, packing.emulated)
            packing.plan = packing.plan.model_copy(update={"emulated": packing.emulated})

    def _end(self, packing: _Packing) -> None:
        """Write down what became of it; the scan of what was packed is the scanner's."""
        row, shards = packing.row, packing.shards
        # Before it is known to be over: from then on the folder may be for the next attempt.
        pack_folders.unmark(Path(row.uri), row.id, own=packing.plan.own)
        with self._database.session() as session:
            if shards.doom is not None:
                datasets.fail(session, row.id, versions.cured(shards.doom, row.origin or ""))
                found = None
            else:
                found = packings.hand_over(session, row.id, Made.of(list(shards.done.values())))
        if found is not None:
            self._scan(found)
        with self._lock:
            if self._packings.get(row.id) is packing:  # it may have been begun again meanwhile
                del self._packings[row.id]

    def _top_up(self, prong: Prong, live: _Live) -> None:
        """Send shards of the oldest packing first."""
        with self._lock:
            mine = [packing for packing in self._packings.values() if packing.plan.on is prong]
            room = live.window(prong) - sum(packing.shards.out for packing in mine)
            for packing in sorted(mine, key=lambda packing: packing.row.created_at):
                packing.waiting = None if live.slots[prong] else _nobody(prong, live)
                while room > 0 and (shard := packing.shards.take(self._clock())) is not None:
                    self._send(prong, PackTask(packing=packing.row.id, shard=shard))
                    room -= 1


def _nobody(prong: Prong, live: _Live) -> str:
    drained = sorted(live.incarnations[prong])
    if drained:
        names = ", ".join(drained)
        return f"drained: {names}; give it work again with: ddlp device resume {drained[0]}"
    return f"no {prong} device is alive; start one with: ddlp worker --prong {prong}"
