"""The board: every active run with its schedule, and the devices that are alive.

Only the dispatcher's thread touches it. The database holds the truth: the board can be thrown away
at any moment and is then read back.
"""

import logging
import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ddlp.core.bursts import Burst
from ddlp.core.energy import PowerModel
from ddlp.core.errors import Conflict, DdlpError, NotFound
from ddlp.core.image.arithmetic import same_arithmetic
from ddlp.core.lifecycle import ACTIVE
from ddlp.core.messages import Attach, Attempt, RoomInfo
from ddlp.core.pipeline import ENGINE, Pipeline, PipelineSpec
from ddlp.core.plan import RunPlan
from ddlp.core.schedule import Batch, Limits, Replay, RunSchedule, strategy
from ddlp.core.schedule.strategies import Strategy
from ddlp.core.sessions import Checkpoint, Joined, Start
from ddlp.core.settings import Settings
from ddlp.core.stages import RecentWork
from ddlp.core.store import StoreAddress
from ddlp.core.throughput import DeliveryWatch
from ddlp.core.types import BadPolicy, DeviceKind, Prong, RunState, TailPolicy
from ddlp.server import certificates, ledger, rollups
from ddlp.server.device_work import DeviceWork, images_made
from ddlp.server.energy import Charge, EnergyBook
from ddlp.server.models import Device, Run
from ddlp.server.telemetry import RATE_S, Telemetry
from ddlp.server.timeline import Timeline
from ddlp.server.windows import Windows, batch_bytes


@dataclass
class LiveDevice:
    """A device as the scheduler sees it."""

    name: str
    prong: Prong
    kind: DeviceKind
    slots: int
    host: str
    engine: str
    store: str
    serves: str | None
    store_key: str | None
    room: RoomInfo
    power: PowerModel
    incarnation: uuid.UUID
    last_seen_at: float
    drained_at: float | None = None
    gone: bool = False
    discard: list[Attempt] = field(default_factory=list)
    """What it is to clear away itself, at its next sign of life."""
    told: list[Attempt] = field(default_factory=list)
    """What it was told last; once more, since that answer may have been lost."""
    dropped_messages: int = 0
    """Unsigned messages that its worker dropped since it was started."""

    @classmethod
    def of(cls, row: Device) -> "LiveDevice":
        """From the database's row."""
        return cls(
            name=row.name,
            prong=Prong(row.prong),
            kind=DeviceKind(row.kind),
            slots=row.slots,
            host=row.host,
            engine=row.engine,
            store=row.store,
            serves=row.serves,
            store_key=row.store_key,
            room=RoomInfo(**row.room),
            power=power_of(row),
            incarnation=row.incarnation,
            last_seen_at=row.last_seen_at,
            drained_at=row.drained_at,
        )

    @property
    def folder(self) -> Path | None:
        """Its store, where this machine sees one under that name."""
        folder = StoreAddress.parse(self.store).folder
        # Path.is_dir raises where it may not look.
        return folder if folder is not None and os.path.isdir(folder) else None


def power_of(row: Device) -> PowerModel:
    """What a device is declared to draw."""
    return PowerModel(active_w=row.active_w, idle_w=row.idle_w, source=row.power_source)


@dataclass
class TrainerSession:
    """A process that holds a rank of a run, or held it last."""

    id: uuid.UUID
    world_size: int
    heard_at: float
    host: str = ""
    place: str = ""
    """Where its process number means something."""
    process: int = 0
    device: str = ""
    """Where its tensors go; empty where it does not say."""
    begun: bool = False
    """Whether it has said how it goes on."""
    turn: int = 0
    """How often it has said so."""
    went: Checkpoint | None = None
    """Where it went on when it said so last."""
    left: bool = False
    """Whether it has said that it ends; it is not heard any more."""
    since: float = 0.0
    """When it took its rank."""
    gone: bool = False

    @classmethod
    def of(cls, body: Attach, now: float) -> "TrainerSession":
        """Of a process that takes a rank."""
        return cls(
            body.session,
            body.world_size,
            now,
            body.host,
            body.place,
            body.process,
            body.device,
            since=now,
        )

    def as_json(self) -> dict[str, Any]:
        """As it is kept; that it was heard of is known anew after a restart."""
        return {**vars(self), "id": str(self.id), "heard_at": 0.0, "since": 0.0}

    @classmethod
    def from_json(cls, kept: dict[str, Any], now: float) -> "TrainerSession":
        """As it was kept; nobody could be heard of while no server was there."""
        went = kept.get("went")
        place = None if went is None else (went[0], went[1])
        known = {"id": uuid.UUID(kept["id"]), "went": place, "heard_at": now, "since": now}
        return cls(**{**kept, **known})


def _made_again() -> dict[int, Burst]:
    words = "{} batches cannot be read and are made again"
    return {level: Burst(words) for level in (logging.INFO, logging.WARNING)}


@dataclass
class ActiveRun:
    """A run that is not over."""

    id: uuid.UUID
    name: str
    state: RunState
    schedule: RunSchedule
    engine: str = ENGINE
    """Names the arithmetic that its batches need."""
    engines: set[str] = field(default_factory=set)
    """The engines that made its batches, and how many of them the database knows."""
    engines_saved: int = 0
    tokens_saved: int = 0
    """The database knows that tokens below this one may have been given out."""
    paces_saved: dict[str, int] = field(default_factory=dict)
    """Batches behind the pace of each device that is remembered for the next run."""
    storage: str | None = None
    """The storage form of its dataset."""
    reason: str | None = None
    held_up: str | None = None
    """What the database knows of why it rests."""
    telemetry: Telemetry = field(default_factory=Telemetry)
    delivery: DeliveryWatch = field(default_factory=DeliveryWatch)
    left: bool = False
    """Whether it is paused because its last trainer left."""
    sessions: dict[int, TrainerSession] = field(default_factory=dict)
    """Which process holds each rank, or held it last."""
    sessions_saved: bool = True
    came_saved: dict[int, Joined] = field(default_factory=dict)
    """How the sessions came to what they are handed next, as that was last written down."""
    expected_failure: str | None = None
    """Why it will fail, should training come to it; as it was last told."""
    checkpoint_saved: Checkpoint | None = None
    taken_up_at: float | None = None
    """When the reconciler first saw it."""
    accounts: dict[int, tuple[uuid.UUID, int]] = field(default_factory=dict)
    """The last account of each rank that was counted."""
    timeline: Timeline = field(default_factory=Timeline)
    work: RecentWork = field(default_factory=RecentWork)
    made_again: dict[int, Burst] = field(default_factory=_made_again)
    """What is told of batches that trainers could not read, by the level of the log."""

    def is_news(self, rank: int, session: uuid.UUID, number: int) -> bool:
        """Whether a rank's account was not counted yet; from then on it is."""
        known, last = self.accounts.get(rank, (session, 0))
        if known == session and number <= last:
            return False
        self.accounts[rank] = session, number
        return True

    def trainers_json(self) -> dict[str, dict[str, Any]]:
        """Who holds each rank, and how it came to what it is handed next, as that is kept."""
        found = {}
        for rank, held in self.sessions.items():
            who, start, mark = self.schedule.sessions.get(rank, ("", Start.ONWARD, None))
            came = [start.value, mark] if who == str(held.id) else None
            found[str(rank)] = {"held": held.as_json(), "came": came}
        self.came_saved = dict(self.schedule.sessions)
        self.sessions_saved = True
        return found

    def read_trainers(self, kept: Mapping[str, dict[str, Any]], now: float) -> None:
        """Know again who holds each rank."""
        for rank, entry in ((int(rank), entry) for rank, entry in kept.items()):
            held = self.sessions[rank] = TrainerSession.from_json(entry["held"], now)
            if entry["came"] is not None and rank < self.schedule.plan.world_size:
                start, mark = entry["came"]
                checkpoint = None if mark is None else (mark[0], mark[1])
                self.schedule.sessions[rank] = str(held.id), Start(start), checkpoint
        self.came_saved = dict(self.schedule.sessions)

    def hold(self, rank: int, session: TrainerSession) -> None:
        """Note who holds a rank."""
        self.sessions[rank] = session
        self.sessions_saved = False

    def keep_sessions(self, world_size: int) -> None:
        """Forget those of another number of ranks."""
        self.sessions = {r: s for r, s in self.sessions.items() if s.world_size == world_size}
        self.sessions_saved = False

    @property
    def heard_at(self) -> float | None:
        """When a trainer was last heard of."""
        return max((held.heard_at for held in self.sessions.values()), default=None)

    def delivered_per_s(self, now: float) -> float | None:
        """Images that its trainers receive a second now; None where that is not measured."""
        found = self.telemetry.throughput(now)
        if found is None and self.delivery.waited_s(now) >= RATE_S:
            return 0.0
        return found

    def watch_delivery(self, now: float) -> None:
        """Let the time of its throughput run while it goes on and trainers are there."""
        present = {rank for rank, held in self.sessions.items() if not held.gone}
        self.delivery.look(now, self.state is RunState.RUNNING, present)

    @property
    def producing(self) -> bool:
        """Whether new leases may be given out."""
        return self.state in (RunState.CREATED, RunState.RUNNING)


@dataclass
class Board:
    """All that the dispatcher has in its head."""

    settings: Settings
    runs: dict[uuid.UUID, ActiveRun] = field(default_factory=dict)
    devices: dict[str, LiveDevice] = field(default_factory=dict)
    energy: EnergyBook = field(default_factory=EnergyBook)
    made: dict[str, DeviceWork] = field(default_factory=dict)
    """What each device has made, and how much of it lately."""
    written: list[Callable[[], object]] = field(default_factory=list)
    """Done once what was changed is in the database, and not where that comes to nothing."""
    deleted: set[uuid.UUID] = field(default_factory=set)
    """Runs that were deleted: stores out of reach may still hold batches of them."""

    def charge(self, session: Session, charges: Iterable[Charge], now: float) -> None:
        """Add joules that a meter counted to the figures of the runs that they are shared by."""
        for charge in charges:
            run = self.runs.get(charge.run)
            if run is not None:
                run.telemetry.add(now, charge.source, charge.bucket, charge.epoch, charge.device)
            elif session.get(Run, charge.run) is not None:  # it ended since its last batch
                late = Telemetry()
                late.add(now, charge.source, charge.bucket, charge.epoch, charge.device)
                rollups.save_news(session, charge.run, late.take(now, all_of_it=True))

    def load(self, session: Session, now: float) -> None:
        """Read everything that is active from the database."""
        self._load_devices(session, now)
        self.made = {name: DeviceWork(images) for name, images in images_made(session).items()}
        active = select(Run).where(Run.state.in_([state.value for state in ACTIVE]))
        self.runs = {}
        for row in session.scalars(active).all():
            try:
                run = self.add_run(session, row, now)
            except DdlpError as error:  # a package that its pipeline needs is gone, say
                reason = f"it cannot be taken up again: {error}"
                ledger.change_state(session, row, RunState.FAILED, now, reason)
            else:
                for epoch in run.schedule.open_epochs():
                    for batch in epoch.under_way.in_flight():
                        _mend_lease(batch, now)

    def _load_devices(self, session: Session, now: float) -> None:
        """Nobody could be heard of while no server was there: that time does not count."""
        rows = list(session.scalars(select(Device)))
        self.devices = {row.name: LiveDevice.of(row) for row in rows}
        away_s = now - max((row.last_seen_at for row in rows), default=now)
        for device in self.devices.values():
            device.last_seen_at += away_s

    def add_run(self, session: Session, row: Run, now: float = 0.0) -> ActiveRun:
        """Take a run up, at its beginning or where it was left."""
        if row.id in self.runs:  # the reconciler was quicker
            return self.runs[row.id]
        plan = run_plan(row)
        schedule = RunSchedule(
            plan=plan,
            strategy=run_strategy(session, row),
            limits=self._limits(row),
            epochs=ledger.load_epochs(session, row),
            next_token=row.tokens,
            next_epoch=ledger.next_epoch(session, row.id),
        )
        paces = ledger.load_paces(session, row)
        for device, (prong, pace) in paces.items():
            schedule.fleet.recall(device, prong, pace)
        oldest = min(schedule.epochs, default=schedule.next_epoch)
        schedule.rank_epoch = [oldest] * plan.world_size
        if row.checkpoint is not None:
            schedule.checkpoint = row.checkpoint[0], row.checkpoint[1]
        engines = set(filter(None, row.engines.split(", ")))
        run = ActiveRun(
            id=row.id,
            name=row.name,
            state=RunState(row.state),
            schedule=schedule,
            engine=row.engine,
            engines=engines,
            engines_saved=len(engines),
            tokens_saved=row.tokens,
            paces_saved={device: pace.batches for device, (_, pace) in paces.items()},
            storage=row.storage,
            reason=row.reason,
            held_up=row.held_up,
            left=row.left,
            checkpoint_saved=schedule.checkpoint,
        )
        run.read_trainers(row.trainers, now)
        self.runs[row.id] = run
        return run

    def run(self, run_id: uuid.UUID) -> ActiveRun:
        """An active run."""
        if run_id not in self.runs:
            raise NotFound(f"run {run_id} is not active")
        return self.runs[run_id]

    def _limits(self, row: Run) -> Limits:
        pipeline = Pipeline.parse(PipelineSpec(transforms=row.transforms))
        free = {prong: self.free_bytes(prong) for prong in Prong}
        return Limits(
            stored=Windows.of(self.settings, row).stored(batch_bytes(row), free),
            calibration_batches=row.calibration,
            sample_s=pipeline.decode.max_seconds,
            all_failing_s=self.settings.failing_timeout_s,
            on_bad=BadPolicy(row.on_bad),
            bad_share=row.max_bad_share,
        )

    def free_bytes(self, prong: Prong) -> int | None:
        """The room in the fullest store of a prong; None where nobody has said."""
        mine = [d for d in self.devices.values() if d.prong is prong and not d.gone]
        rooms = [device.room.free_bytes for device in mine]
        return min((free for free in rooms if free is not None), default=None)

    # Devices

    def note_silent(self, now: float) -> None:
        """What a device held that fell silent is lost."""
        for device in self.devices.values():
            if self.is_live(device, now):
                device.gone = False
            elif not device.gone:
                self._lose(device, died=False)

    def set_devices(self, run: ActiveRun) -> None:
        """Tell a run's schedule which live devices make its very bytes, and which of them rest."""
        able = [
            device
            for device in self.devices.values()
            if not device.gone and same_arithmetic(device.engine, run.engine)
        ]
        run.schedule.set_devices(
            {d.name: (d.prong, d.slots) for d in able if d.drained_at is None},
            {d.name: d.prong for d in able if d.drained_at is not None},
        )

    def drain(self, device: LiveDevice, now: float) -> None:
        """Give a device nothing new; where its prong is alone with that, the other takes over."""
        device.drained_at = now
        for run in self.runs.values():
            self.set_devices(run)
            if not run.schedule.fleet.slots(device.prong):
                run.schedule.take_back_queued(device.prong, f"{device.name} was drained")

    def is_live(self, device: LiveDevice, now: float) -> bool:
        """Whether a device was heard of lately."""
        return now - device.last_seen_at <= self.settings.device_timeout_s

    def register(self, device: LiveDevice, now: float) -> None:
        """Take a device in; one that was started anew has lost what it held before."""
        known = self.devices.get(device.name)
        if known is not None and known.incarnation != device.incarnation:
            if known.host != device.host and self.is_live(known, now):
                raise Conflict(
                    f"a device {device.name} is alive on {known.host}; give this one another --name"
                )
            self._lose(known, died=True)
        self.devices[device.name] = device

    def forget(self, device: LiveDevice) -> None:
        """A device that will not come back is none of the board's any more."""
        if not device.gone:
            self._lose(device, died=False)
        del self.devices[device.name]

    def heard_of(self, name: str, incarnation: uuid.UUID, now: float) -> LiveDevice:
        """A sign of life; a device that is not known as such must register again."""
        device = self.devices.get(name)
        if device is None or device.incarnation != incarnation:
            raise NotFound(f"device {name} is not registered; register it again")
        device.last_seen_at = now
        return device

    def _lose(self, device: LiveDevice, died: bool) -> None:
        device.gone = True
        for run in self.runs.values():
            run.schedule.device_gone(device.name, device.prong, died)


def _mend_lease(batch: Batch, now: float) -> None:
    """A lease whose time was up while no server was there, or lies ahead, begins anew.

    Clocks are set while servers are away: what is left of a lease is never more than it was given.
    """
    given_s = batch.deadline - batch.leased_at
    if not now < batch.deadline <= now + given_s:
        batch.leased_at, batch.deadline = now, now + given_s


def run_plan(row: Run) -> RunPlan:
    """The plan of a run."""
    return RunPlan(
        samples=row.samples,
        batch_size=row.batch_size,
        epochs=row.epochs,
        seed=row.seed,
        world_size=row.world_size,
        tail=TailPolicy(row.tail),
        reshuffle=row.reshuffle,
    )


def run_strategy(session: Session, row: Run) -> Strategy:
    """The strategy of a run; a replay's comes from the run that it follows."""
    if row.replay_of is not None:
        source = session.get(Run, row.replay_of)
        if source is None:
            raise NotFound(f"the run that {row.name} replays was removed")
        return Replay(certificates.orders(session, source))
    return strategy(row.strategy, row.reorder_window)
