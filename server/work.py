"""What workers ask and report: leases claimed, batches made or failed, in groups."""

from ddlp.core.errors import Conflict, Held, InvalidInput, Refused
from ddlp.core.image.arithmetic import same_arithmetic
from ddlp.core.lifecycle import TERMINAL
from ddlp.core.messages import (
    Claim,
    Claimed,
    Commit,
    Denied,
    Failure,
    Granted,
    Lease,
    Reported,
    Reports,
)
from ddlp.core.schedule import Holder, Made
from ddlp.core.store import batch_name
from ddlp.core.types import DeviceKind
from ddlp.server.board import ActiveRun, Board, LiveDevice
from ddlp.server.telemetry import Bucket


def claim(board: Board, body: Claim, now: float) -> Claimed:
    """A process starts on the leases of a message, and learns what became of earlier attempts."""
    if body.dead is not None:
        for run in board.runs.values():
            run.schedule.process_died(Holder(body.device, body.dead))
    granted: list[Granted] = []
    denied: list[Denied] = []
    for lease in body.leases:
        try:
            granted.append(_claim(board, body, lease, now))
        except Held as error:
            denied.append(Denied(lease=lease, reason=str(error), process=error.process))
        except Refused as error:
            denied.append(Denied(lease=lease, reason=str(error)))
    return Claimed(granted=granted, denied=denied)


def _claim(board: Board, body: Claim, lease: Lease, now: float) -> Granted:
    run = _run_of(board, lease)
    device = board.devices.get(body.device)
    if device is not None and not same_arithmetic(device.engine, run.engine):
        raise Refused(
            f"run {run.name} needs the arithmetic of engine {run.engine}, not {device.engine}"
        )
    key = lease.epoch, lease.index, lease.token
    deadline = run.schedule.claim(*key, Holder(body.device, body.process), now)
    batch = run.schedule.in_hand(*key)
    losses = batch.losses + batch.kills
    return Granted(lease=lease.model_copy(update={"losses": losses}), lasts_s=deadline - now)


def report(board: Board, body: Reports, now: float) -> Reported:
    """What a device has to say of its leases; what came too late is named."""
    device = board.devices.get(body.device)
    if device is None:
        raise Conflict(f"device {body.device} is not registered; register it, then try again")
    denied: list[Denied] = []
    entries: list[Commit | Failure] = [*body.made, *body.failed]
    for entry in entries:
        try:
            run = _run_of(board, entry.lease)
            if isinstance(entry, Commit):
                _commit(run, device, entry, now)
            else:
                _fail(run, entry, now)
        except Refused as error:
            denied.append(Denied(lease=entry.lease, reason=str(error)))
    return Reported(denied=denied)


def _commit(run: ActiveRun, device: LiveDevice, commit: Commit, now: float) -> None:
    lease = commit.lease
    made = _made(device, commit)
    key = lease.epoch, lease.index, lease.token
    try:
        news = run.schedule.commit(*key, made, now)
    except Refused:
        samples = sum(stop - start for start, stop in lease.places)
        run.schedule.learn(device.name, commit.seconds, samples)
        raise
    except InvalidInput as error:
        run.schedule.fail(*key, str(error), permanent=True)
        raise Refused(str(error)) from error
    batch = run.schedule.find(lease.epoch, lease.index)
    if not news or batch is None:
        return
    run.engines.add(device.engine)
    busy_s = commit.cpu_s if device.kind is DeviceKind.HOST else commit.seconds
    bucket = Bucket(
        batches=1,
        images=batch.samples,
        nbytes=commit.nbytes,
        busy_s=commit.seconds,
        cpu_s=commit.cpu_s,
        joules=device.power.joules(busy_s),
        joules_unknown=device.power.joules(busy_s) is None,
        emulated=device.kind.emulated,
    )
    run.telemetry.add(now, device.prong.value, bucket)


def _made(device: LiveDevice, commit: Commit) -> Made:
    lease = commit.lease
    name = batch_name(lease.run, lease.epoch, lease.index, lease.token)
    return Made(
        device=device.name,
        location=f"{device.store}/{name}",
        nbytes=commit.nbytes,
        checksum=commit.checksum,
        seconds=commit.seconds,
        cpu_s=commit.cpu_s,
        bad=tuple(commit.bad),
    )


def _fail(run: ActiveRun, failure: Failure, now: float) -> None:
    lease = failure.lease
    key = lease.epoch, lease.index, lease.token
    if failure.no_room:
        run.schedule.no_room(*key, failure.reason, now)
    else:
        run.schedule.fail(*key, failure.reason, failure.permanent)


def _run_of(board: Board, lease: Lease) -> ActiveRun:
    run = board.runs.get(lease.run)
    if run is None or run.state in TERMINAL:
        raise Refused(f"run {lease.run} is over; drop the work")
    return run
