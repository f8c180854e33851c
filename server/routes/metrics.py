"""What Prometheus asks for."""

from collections import defaultdict

from fastapi import APIRouter, Request, Response
from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from ddlp.core.errors import DdlpError
from ddlp.core.lifecycle import ACTIVE
from ddlp.core.messages import DeviceInfo, RunInfo
from ddlp.core.types import Prong, Stage
from ddlp.server import devices, figures, metrics, runs
from ddlp.server.board import Board
from ddlp.server.context import Context, ContextDep, SessionDep
from ddlp.server.metrics import Exposed, ExposedDevice, Exposure
from ddlp.server.models import Epoch, Run

_PATIENCE_S = 1.0

router = APIRouter(tags=["metrics"])


@router.get("/metrics", response_class=Response)
def show(request: Request, session: SessionDep, context: ContextDep) -> Response:
    """The server's figures in Prometheus' text format."""
    now = context.dispatcher.now()
    dropped = _dropped_messages(context)  # before a connection to the database is held
    found = devices.list_all(session, context.settings, now)
    shown = Exposure(
        version=request.app.version,
        states=_states(session),
        runs=gather(session, context),
        devices=[_exposed_device(device, dropped, now) for device in found],
        live_streams=context.streams,
    )
    return Response(metrics.exposition(shown), media_type=metrics.CONTENT_TYPE)


def gather(session: Session, context: Context) -> list[Exposed]:
    """The runs that are named: active, or ended lately."""
    since = context.dispatcher.now() - metrics.NAMED_FOR_S
    active = Run.state.in_([state.value for state in ACTIVE])
    query = (
        select(Run)
        .where(or_(active, Run.ended_at >= since))
        .order_by(Run.created_at.desc(), Run.name)
        .limit(metrics.MOST_RUNS)
    )
    rows = session.scalars(query).all()
    made = _batches_made(session, [row.name for row in rows])
    totals = figures.totals(session, [row.id for row in rows])
    return [
        _exposed(info, made.get(info.name, {}), _stages(totals[info.id]))
        for info in runs.infos(session, rows)
    ]


def _stages(totals: figures.Totals) -> dict[tuple[Prong, Stage], float]:
    """Seconds of work by prong and stage; what did not happen is left out."""
    return {
        (prong, stage): seconds
        for prong in Prong
        for stage, seconds in totals[prong.value].bucket.stages_s.items()
        if seconds > 0
    }


def _exposed(
    info: RunInfo, batches: dict[str, int], stage_s: dict[tuple[Prong, Stage], float]
) -> Exposed:
    joules: dict[tuple[str, str], float] = defaultdict(float)
    for energy in info.energy:
        if energy.joules is not None:
            joules[energy.source, str(energy.provenance)] += energy.joules
    read_bytes: dict[str, int] = defaultdict(int)
    for read in info.reads:
        read_bytes[read.path.value] += read.bytes
    return Exposed(
        run=info.name,
        state=info.state,
        images=info.images,
        batches=batches,
        spent_s=info.stall.spent_s,
        stage_s=stage_s,
        joules=joules,
        read_bytes=read_bytes,
    )


def _batches_made(session: Session, names: list[str]) -> dict[str, dict[str, int]]:
    query = (
        select(Run.name, func.sum(Epoch.made_cpu), func.sum(Epoch.made_csd))
        .join(Run, Run.id == Epoch.run_id)
        .where(Run.name.in_(names))
        .group_by(Run.name)
    )
    return {
        name: {Prong.CPU.value: int(cpu), Prong.CSD.value: int(csd)}
        for name, cpu, csd in session.execute(query)
    }


def _states(session: Session) -> dict[str, int]:
    query = select(Run.state, func.count()).group_by(Run.state)
    return {state: int(count) for state, count in session.execute(query)}


def _dropped_messages(context: Context) -> dict[str, int]:
    """By device; unknown where the dispatcher has no time: the other figures must not wait."""

    def look(board: Board, *_: object) -> dict[str, int]:
        return {device.name: device.dropped_messages for device in board.devices.values()}

    try:
        found: dict[str, int] = context.dispatcher.call(look).result(_PATIENCE_S)
    except (TimeoutError, DdlpError):
        return {}
    return found


def _exposed_device(device: DeviceInfo, dropped: dict[str, int], now: float) -> ExposedDevice:
    is_named = now - device.last_seen_at <= metrics.NAMED_FOR_S
    energy = device.energy if is_named else None
    return ExposedDevice(
        name=device.name,
        prong=device.prong.value,
        kind=device.kind.value,
        live=device.live,
        joules=None if energy is None else energy.joules,
        provenance="" if energy is None else energy.provenance.value,
        dropped_messages=dropped.get(device.name) if is_named else None,
    )
