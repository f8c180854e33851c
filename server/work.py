"""What workers ask and report: leases claimed, batches made or failed, in groups."""

import logging

from ddlp.core.errors import Conflict, Held, InvalidInput, Refused, Resting
from ddlp.core.image.arithmetic import same_arithmetic
from ddlp.core.lifecycle import TERMINAL
from ddlp.core.logs import about
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
from ddlp.core.schedule import UNKNOWN, Batch, Failed, Holder, Made
from ddlp.core.store import batch_name
from ddlp.core.types import DeviceKind, Domain
from ddlp.server.board import ActiveRun, Board, LiveDevice
from ddlp.server.device_work import DeviceWork
from ddlp.server.telemetry import Bucket
from ddlp.server.timeline import Maker

log = logging.getLogger(__name__)


def claim(board: Board, body: Claim, now: float) -> Claimed:
    """A process starts on the leases of a message, and learns what became of earlier attempts."""
    if body.dead is not None:
        death = UNKNOWN if body.death is None else body.death
        for run in board.runs.values():
            run.schedule.process_died(Holder(body.device, body.dead), death)
    granted: list[Granted] = []
    denied: list[Denied] = []
    for lease in body.leases:
        try:
            granted.append(_claim(board, body, lease, now))
        except Held as error:
            denied.append(Denied(lease=lease, reason=str(error), process=error.process))
        except Resting as error:
            denied.append(Denied(lease=lease, reason=str(error), rest_s=error.rest_s))
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
    if device is not None and device.drained_at is not None:
        _check_held(run, lease, body)
    deadline = run.schedule.claim(*key, Holder(body.device, body.process), now)
    batch = run.schedule.in_hand(*key)
    return Granted(lease=lease.model_copy(update={"losses": batch.lost}), lasts_s=deadline - now)


def _check_held(run: ActiveRun, lease: Lease, body: Claim) -> None:
    """A drained device may only go on with what it holds already; the rest others get at once."""
    key = lease.epoch, lease.index, lease.token
    batch = run.schedule.in_hand(*key)
    rival = batch.rival
    holder = rival.device if rival is not None and rival.token == lease.token else batch.device
    if holder != body.device:
        reason = f"device {body.device} is drained; resume it to give it work"
        run.schedule.decline(*key, reason)
        raise Refused(reason)


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
                if _commit(board, run, device, entry, now):
                    _show(board, run, device, entry, body.sent_s, now)
            else:
                _fail(run, device, entry, now)
        except Refused as error:
            denied.append(Denied(lease=entry.lease, reason=str(error)))
    return Reported(denied=denied)


def _show(
    board: Board, run: ActiveRun, device: LiveDevice, commit: Commit, sent_s: float, now: float
) -> None:
    """Put a batch on the run's timeline."""
    if board.settings.telemetry:
        emulated = device.kind.emulated
        maker = Maker(device.name, device.prong, emulated, device.incarnation)
        run.timeline.add_made(maker, commit, sent_s, now)


def _commit(board: Board, run: ActiveRun, device: LiveDevice, commit: Commit, now: float) -> bool:
    """Take a finished batch; whether that was news."""
    lease = commit.lease
    made = _made(device, commit)
    key = lease.epoch, lease.index, lease.token
    try:
        news = run.schedule.commit(*key, made, now)
    except InvalidInput as error:
        run.schedule.fail(*key, Failed(str(error), device=device.name), now)
        with about(run=run.name, epoch=lease.epoch, batch=lease.index, device=device.name):
            log.warning("a batch was reported that cannot be so: %s", error)
        raise Refused(str(error)) from error
    batch = run.schedule.find(lease.epoch, lease.index)
    if not news or batch is None:
        return False
    run.engines.add(device.engine)
    run.work.add(device.prong, commit.times)
    board.made.setdefault(device.name, DeviceWork()).add(now, batch.samples, commit.seconds)
    bucket = _bucket(commit, batch)
    bucket.emulated = device.kind.emulated
    _charge(board, run, device, commit, bucket, now)
    run.telemetry.add(now, device.prong.value, bucket, lease.epoch, device.name)
    return True


def _bucket(commit: Commit, batch: Batch) -> Bucket:
    """A finished batch as figures."""
    times = commit.times
    return Bucket(
        batches=1,
        images=batch.samples,
        nbytes=commit.nbytes,
        fetched_bytes=times.fetched_bytes,
        busy_s=commit.seconds,
        cpu_s=commit.cpu_s,
        memory_byte_s=times.peak_bytes * commit.seconds,
        queue_s=batch.queue_s,
        fetch_s=times.fetch_s,
        decode_s=times.decode_s,
        transform_s=times.transform_s,
        write_s=times.write_s,
        peak_bytes=times.peak_bytes,
    )


def _charge(
    board: Board,
    run: ActiveRun,
    device: LiveDevice,
    commit: Commit,
    bucket: Bucket,
    now: float,
) -> None:
    """Charge a batch by the declared watts, unless a meter is read: then that is divided later."""
    book, epoch = board.energy, commit.lease.epoch
    if device.kind is not DeviceKind.HOST:
        book.drive_worked(device.name, (run.id, epoch), commit.seconds)
        if not book.is_drive_measured(device.name, now):
            _model(device, commit.seconds, bucket)
        return
    book.host_worked(device.host, device.name, (run.id, epoch), commit.cpu_s)
    if not book.is_host_measured(device.host, Domain.PACKAGE, now):
        _model(device, commit.cpu_s, bucket)
    if not book.is_host_measured(device.host, Domain.DRAM, now):
        joules = board.settings.dram_w_per_gb * bucket.memory_byte_s / 1e9
        dram = Bucket(joules_modelled=joules)
        run.telemetry.add(now, Domain.DRAM.value, dram, epoch, device.host)


def _model(device: LiveDevice, busy_s: float, bucket: Bucket) -> None:
    joules = device.power.joules(busy_s)
    bucket.joules_modelled, bucket.joules_unknown = joules or 0.0, joules is None


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
        times=commit.times,
    )


def _fail(run: ActiveRun, device: LiveDevice, failure: Failure, now: float) -> None:
    lease = failure.lease
    key = lease.epoch, lease.index, lease.token
    rests = False
    if failure.no_room:
        run.schedule.no_room(*key, failure.reason, now)
    else:
        failed = Failed(failure.reason, failure.permanent, failure.bug, device=device.name)
        rests = run.schedule.fail(*key, failed, now)
    with about(run=run.name, epoch=lease.epoch, batch=lease.index, device=device.name):
        level = logging.INFO if failure.no_room else logging.WARNING
        log.log(level, "a batch was not made: %s", failure.reason)
        if rests:
            rest_s = run.schedule.fleet.rest_s(device.name, now)
            log.warning("the device fails again and again; it rests for %g s", rest_s)


def _run_of(board: Board, lease: Lease) -> ActiveRun:
    run = board.runs.get(lease.run)
    if run is None or run.state in TERMINAL:
        raise Refused(f"run {lease.run} is over; drop the work")
    return run
