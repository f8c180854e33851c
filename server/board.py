"""The board: every active run with its schedule, and the devices that are alive.

Only the dispatcher's thread touches it. The database holds the truth: the board can be thrown away
at any moment and is then read back.
"""

import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from ddlp.core.batchfile import batch_tensors, layout
from ddlp.core.energy import PowerModel
from ddlp.core.errors import Conflict, InvalidInput, NotFound, Refused
from ddlp.core.image.arithmetic import same_arithmetic
from ddlp.core.lifecycle import ACTIVE, TERMINAL
from ddlp.core.messages import (
    Attach,
    Claim,
    Claimed,
    Commit,
    Failure,
    Fed,
    FedBatch,
    FeedRequest,
    Lease,
    Rewind,
)
from ddlp.core.pipeline import ENGINE, Pipeline, PipelineSpec
from ddlp.core.plan import RunPlan
from ddlp.core.schedule import Batch, Limits, Made, RunSchedule, explain_wait, strategy
from ddlp.core.settings import Settings
from ddlp.core.store import batch_path, store_limit
from ddlp.core.types import DeviceKind, Prong, RunState
from ddlp.server import ledger
from ddlp.server.models import Device, Run
from ddlp.server.telemetry import Bucket, Telemetry


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
    power: PowerModel
    incarnation: uuid.UUID
    last_seen_at: float
    gone: bool = False

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
            power=PowerModel(active_w=row.active_w, source=row.power_source),
            incarnation=row.incarnation,
            last_seen_at=row.last_seen_at,
        )


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
    reason: str | None = None
    telemetry: Telemetry = field(default_factory=Telemetry)
    trainers: dict[int, float] = field(default_factory=dict)
    """When each rank was last heard of."""
    sessions: dict[int, uuid.UUID] = field(default_factory=dict)
    """Which attachment of each rank is the valid one."""

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

    def load(self, session: Session) -> None:
        """Read everything that is active from the database."""
        self.devices = {row.name: LiveDevice.of(row) for row in session.scalars(select(Device))}
        active = select(Run).where(Run.state.in_([state.value for state in ACTIVE]))
        self.runs = {}
        for row in session.scalars(active).all():
            try:
                self.add_run(session, row)
            except InvalidInput as error:  # a package that its pipeline needs is gone, say
                reason = f"it cannot be taken up again: {error}"
                ledger.change_state(session, row, RunState.FAILED, time.time(), reason)

    def add_run(self, session: Session, row: Run) -> ActiveRun:
        """Take a run up, at its beginning or where it was left."""
        plan = run_plan(row)
        schedule = RunSchedule(
            plan=plan,
            strategy=strategy(row.strategy),
            limits=self._limits(row),
            epochs=ledger.load_epochs(session, row),
            next_token=ledger.next_token(session, row.id),
            next_epoch=ledger.next_epoch(session, row.id),
        )
        oldest = min(schedule.epochs, default=schedule.next_epoch)
        schedule.rank_epoch = [min(oldest, plan.epochs - 1)] * plan.world_size
        engines = set(filter(None, row.engines.split(", ")))
        run = ActiveRun(
            id=row.id,
            name=row.name,
            state=RunState(row.state),
            schedule=schedule,
            engine=row.engine,
            engines=engines,
            engines_saved=len(engines),
            reason=row.reason,
        )
        self.runs[row.id] = run
        return run

    def run(self, run_id: uuid.UUID) -> ActiveRun:
        """An active run."""
        if run_id not in self.runs:
            raise NotFound(f"run {run_id} is not active")
        return self.runs[run_id]

    def _limits(self, row: Run) -> Limits:
        pipeline = Pipeline.parse(PipelineSpec(transforms=row.transforms))
        _, nbytes = layout(batch_tensors(row.batch_size, pipeline.shape, pipeline.dtype))
        settings = self.settings
        cpu = store_limit(nbytes, settings.cpu_store_bytes, settings.cpu_store_path)
        csd = store_limit(nbytes, settings.csd_store_bytes, settings.csd_store_path)
        return Limits(
            stored={Prong.CPU: min(cpu, settings.cpu_window), Prong.CSD: csd},
            sample_s=pipeline.decode.max_seconds,
            bad_share=row.max_bad_share,
        )

    # Devices

    def note_silent(self, now: float) -> None:
        """What a device held that fell silent is lost."""
        for device in self.devices.values():
            if self.is_live(device, now):
                device.gone = False
            elif not device.gone:
                self._lose(device)

    def slots_for(self, run: ActiveRun) -> Counter[Prong]:
        """Worker slots by prong of the live devices that make a run's very bytes."""
        slots: Counter[Prong] = Counter()
        for device in self.devices.values():
            if not device.gone and same_arithmetic(device.engine, run.engine):
                slots[device.prong] += device.slots
        return slots

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
            self._lose(known)
        self.devices[device.name] = device

    def heard_of(self, name: str, incarnation: uuid.UUID, now: float) -> LiveDevice:
        """A sign of life; a device that is not known as such must register again."""
        device = self.devices.get(name)
        if device is None or device.incarnation != incarnation:
            raise NotFound(f"device {name} is not registered; register it again")
        device.last_seen_at = now
        return device

    def _lose(self, device: LiveDevice) -> None:
        device.gone = True
        for run in self.runs.values():
            run.schedule.device_gone(device.name, device.prong)

    # Workers

    def claim(self, claim: Claim, now: float) -> Claimed:
        """A worker starts on a lease, and learns what became of earlier attempts."""
        lease = claim.lease
        run = self._leased_run(lease)
        device = self.devices.get(claim.device)
        if device is not None and not same_arithmetic(device.engine, run.engine):
            raise Refused(
                f"run {run.name} needs the arithmetic of engine {run.engine}, not {device.engine}"
            )
        batch = run.schedule.claim(lease.epoch, lease.index, lease.token, claim.device, now)
        return Claimed(
            lease=lease.model_copy(update={"losses": batch.losses}),
            lasts_s=batch.deadline - now,
        )

    def commit(self, commit: Commit, now: float) -> None:
        """A worker has finished a lease."""
        lease = commit.lease
        run = self._leased_run(lease)
        device = self.devices.get(commit.device)
        if device is None:
            raise Refused(f"device {commit.device} is not registered; register it, then try again")
        path = batch_path(Path(device.store), lease.run, lease.epoch, lease.index, lease.token)
        made = Made(
            location=str(path),
            nbytes=commit.nbytes,
            checksum=commit.checksum,
            seconds=commit.seconds,
            cpu_s=commit.cpu_s,
            bad=tuple(commit.bad),
        )
        try:
            news = run.schedule.commit(lease.epoch, lease.index, lease.token, made, now)
        except Refused:
            run.schedule.learn(device.prong, commit.seconds)
            raise
        if not news:
            return
        run.engines.add(device.engine)
        busy_s = commit.cpu_s if device.kind is DeviceKind.HOST else commit.seconds
        bucket = Bucket(
            batches=1,
            images=run.schedule.plan.batch_length(lease.index) - made.left_out,
            nbytes=commit.nbytes,
            busy_s=commit.seconds,
            cpu_s=commit.cpu_s,
            joules=device.power.joules(busy_s),
            emulated=device.kind.emulated,
        )
        run.telemetry.add(now, device.prong.value, bucket)

    def fail(self, failure: Failure) -> None:
        """A worker could not finish a lease."""
        lease = failure.lease
        run = self._leased_run(lease)
        key = lease.epoch, lease.index, lease.token
        if failure.no_room:
            run.schedule.no_room(*key, failure.reason)
        else:
            run.schedule.fail(*key, failure.reason, failure.permanent)

    def _leased_run(self, lease: Lease) -> ActiveRun:
        run = self.runs.get(lease.run)
        if run is None or run.state in TERMINAL:
            raise Refused(f"run {lease.run} is over; drop the work")
        return run

    # Trainers

    def attach(self, run_id: uuid.UUID, session: uuid.UUID, body: Attach) -> tuple[int, int]:
        """The epoch and step at which a rank goes on; an earlier process of it is shut out."""
        run, rank, world_size = self.run(run_id), body.rank, body.world_size
        schedule = run.schedule
        if world_size != schedule.plan.world_size or rank >= world_size:
            raise Conflict(
                f"the run is made for {schedule.plan.world_size} ranks; rank {rank} of "
                f"{world_size} cannot join it"
            )
        run.sessions[rank] = session
        for number in sorted(schedule.epochs):
            done = schedule.epochs[number].acknowledged[rank]
            if done < schedule.plan.rank_batches(rank):
                return number, done
        return schedule.next_epoch, 0

    def rewind(self, session: Session, run_id: uuid.UUID, back: Rewind, now: float) -> None:
        """A rank goes back to a step it has passed, in this epoch or an earlier one."""
        run = self.run(run_id)
        schedule = run.schedule
        if back.rank >= schedule.plan.world_size:
            raise InvalidInput(f"rank {back.rank} is not in a world of {schedule.plan.world_size}")
        row = session.get_one(Run, run_id)
        ledger.save_changes(session, run_id, schedule.changes(), now)
        known = {
            number: schedule.epochs.get(number) or ledger.load_epoch(session, row, number)
            for number in range(back.epoch, schedule.next_epoch)
        }
        first = known.get(back.epoch)
        received = first.received[back.rank] if first else 0
        if back.step > received:
            raise Conflict(
                f"rank {back.rank} cannot go to step {back.step} of epoch {back.epoch}: it has "
                f"received {received} batches of it"
            )
        for number, epoch in known.items():
            schedule.epochs[number] = epoch
            step = back.step if number == back.epoch else 0
            again = ledger.consumed_since(session, run_id, number, back.rank, step)
            schedule.rewind(back.rank, number, again)
        schedule.epochs = dict(sorted(schedule.epochs.items()))

    def acknowledge(self, run: ActiveRun, request: FeedRequest, now: float) -> None:
        """Take note of what a rank has consumed, and of how it spent its time."""
        if run.sessions.setdefault(request.rank, request.session) != request.session:
            raise Conflict(f"another process joined run {run.name} as rank {request.rank}")
        run.trainers[request.rank] = now
        consumed = run.schedule.consume(request.rank, request.epoch, request.consumed, now)
        bucket = Bucket(
            batches=len(consumed),
            images=sum(batch.samples for batch in consumed),
            nbytes=sum(batch.nbytes for batch in consumed),
            waited_s=request.waited_s,
            trained_s=request.trained_s,
        )
        run.telemetry.add(now, "trainer", bucket)

    def fetch(self, run: ActiveRun, request: FeedRequest, now: float) -> Fed:
        """What is ready for a rank now."""
        schedule = run.schedule
        batches: list[Batch] = []
        if request.want:
            batches = schedule.fetch(request.rank, request.epoch, request.received, request.want)
        received = request.received + len(batches)
        done = schedule.rank_done(request.rank, request.epoch, received)
        waiting = None
        if not batches and not done:
            waiting = explain_wait(schedule, request.rank, request.epoch, now)
        return Fed(
            batches=[FedBatch.of(batch) for batch in batches],
            done=done,
            state=run.state,
            reason=run.reason,
            waiting_for=waiting,
        )


def run_plan(row: Run) -> RunPlan:
    """The plan of a run."""
    return RunPlan(
        samples=row.samples,
        batch_size=row.batch_size,
        epochs=row.epochs,
        seed=row.seed,
        world_size=row.world_size,
    )
