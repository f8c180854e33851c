"""The limits of a run that works: changed in place, and told."""

import uuid
from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session

from ddlp.core.errors import DdlpError, InvalidInput
from ddlp.core.messages import DeviceInfo, LimitsChange, LimitsInfo
from ddlp.core.settings import Settings
from ddlp.core.types import Prong
from ddlp.server.board import ActiveRun, Board
from ddlp.server.ledger import audit
from ddlp.server.models import Run
from ddlp.server.windows import LIMITS, Windows, batch_bytes, own_limits


def change(
    board: Board, session: Session, run_id: uuid.UUID, body: LimitsChange, now: float
) -> None:
    """Hold an active run to other limits from now on; what is under way is let finish."""
    run = board.run(run_id)
    wanted = body.model_dump(exclude_none=True)
    if not wanted:
        raise InvalidInput(f"no limit is given; give at least one of {', '.join(LIMITS)}")
    row = session.get_one(Run, run_id)
    if all(getattr(row, name) == value for name, value in wanted.items()):
        return
    old = Windows.of(board.settings, row)
    for name, value in wanted.items():
        setattr(row, name, value)
    new = Windows.of(board.settings, row)
    nbytes = batch_bytes(row)
    free = {prong: _free_bytes(board, run, prong, nbytes) for prong in Prong}
    run.schedule.set_stored(new.stored(nbytes, free))
    audit(session, "run.limits", run.name, now, old=vars(old), new=vars(new))


def in_force(board: Board, run_id: uuid.UUID) -> dict[Prong, int] | None:
    """How many batches of each prong may lie unconsumed now; None where a run is over."""
    run = board.runs.get(run_id)
    return dict(run.schedule.limits.stored) if run is not None else None


def first_windows(settings: Settings, run: Run, devices: Sequence[DeviceInfo]) -> dict[Prong, int]:
    """Return how many batches of each prong may lie unconsumed when a run begins."""
    free = {
        prong: min(
            (
                device.room.free_bytes
                for device in devices
                if device.prong is prong and device.live and device.room.free_bytes is not None
            ),
            default=None,
        )
        for prong in Prong
    }
    return Windows.of(settings, run).stored(batch_bytes(run), free)


def info(settings: Settings, run: Run, stored: Mapping[Prong, int] | None) -> LimitsInfo:
    """The limits of a run, with what comes of them."""
    try:
        nbytes = batch_bytes(run)
    except DdlpError:  # a package that its pipeline needs is gone
        nbytes = None
    return LimitsInfo(
        **vars(Windows.of(settings, run)),
        own=own_limits(run),
        batch_bytes=nbytes,
        batches=None if stored is None else {prong.value: most for prong, most in stored.items()},
    )


def _free_bytes(board: Board, run: ActiveRun, prong: Prong, nbytes: int) -> int | None:
    """The room of a prong's fullest store, were nothing of this run in it."""
    free = board.free_bytes(prong)
    if free is None:
        return None
    epochs = run.schedule.epochs.values()
    made = sum(epoch.stored(prong) - epoch.in_flight(prong) for epoch in epochs)
    devices = sum(d.prong is prong and not d.gone for d in board.devices.values())
    return free + made * nbytes // max(1, devices)
