"""What each device does now: how fast, how busy, for which runs, at how many watts.

What is not known is None, never 0: a device that makes nothing has no rate.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ddlp.core.messages import DeviceInfo
from ddlp.core.messages.work import DeviceRest, WattsInfo
from ddlp.core.types import DeviceHealth, Provenance
from ddlp.server.board import ActiveRun, Board, LiveDevice
from ddlp.server.device_work import SEEN_S, DeviceWork


@dataclass(frozen=True)
class Seen:
    """A device as the board sees it; named as the fields of `DeviceInfo`."""

    holds: int
    images_per_s: float | None
    images_made: int
    busy: float | None
    runs: list[str]
    rests: list[DeviceRest]
    draws: WattsInfo
    dropped_messages: int


UNSEEN: Mapping[str, Seen] = {}


def look(board: Board, now: float) -> dict[str, Seen]:
    """What all devices do now; in the dispatcher's thread."""
    held = {run.name: run.schedule.holders() for run in board.runs.values()}
    counted_on = {
        run.name: {name for name, member in run.schedule.fleet.members.items() if member.slots}
        for run in board.runs.values()
        if run.producing
    }
    found = {}
    for device in board.devices.values():
        runs = sorted(
            name
            for name, holders in held.items()
            if device.name in holders or device.name in counted_on.get(name, ())
        )
        found[device.name] = _seen(board, device, held, runs, now)
    return found


def _seen(
    board: Board,
    device: LiveDevice,
    held: Mapping[str, Counter[str]],
    runs: list[str],
    now: float,
) -> Seen:
    work = board.made.get(device.name, DeviceWork())
    live = board.is_live(device, now)
    holds = sum(holders[device.name] for holders in held.values()) if live else 0
    images, busy_s = work.recent(now)
    busy = None
    if live and (images or not holds):  # at a long batch, nothing is known until it is finished
        busy = min(1.0, busy_s / (SEEN_S * device.slots))
    return Seen(
        holds=holds,
        images_per_s=images / SEEN_S if live and images else None,
        images_made=work.images,
        busy=busy,
        runs=runs,
        rests=[rest for run in board.runs.values() for rest in _rests(run, device.name, now)],
        draws=_draws(board, device, busy, now),
        dropped_messages=device.dropped_messages,
    )


def _rests(run: ActiveRun, device: str, now: float) -> list[DeviceRest]:
    """Whether a device rests from the work of a run."""
    fleet = run.schedule.fleet
    rest_s = fleet.rest_s(device, now)
    if not rest_s or not run.producing:
        return []
    member = fleet.members[device]
    return [DeviceRest(run=run.name, failures=member.failures, rest_s=rest_s, reason=member.reason)]


def _draws(board: Board, device: LiveDevice, busy: float | None, now: float) -> WattsInfo:
    """By its own meter; else from the watts that are declared and how busy it is."""
    meter = board.energy.drive(device.name, now)
    if meter is not None and meter.power_w is not None:
        reading = meter.reading
        return WattsInfo(watts=meter.power_w, provenance=reading.provenance, method=reading.method)
    power = device.power
    if power.active_w is None or busy is None:
        why = "nobody has said what it draws" if power.active_w is None else "not known now"
        return WattsInfo(watts=None, provenance=Provenance.UNAVAILABLE, method=why)
    if power.idle_w is None and not busy:
        why = "what it draws idle is not known"
        return WattsInfo(watts=None, provenance=Provenance.UNAVAILABLE, method=why)
    idle = "without what it draws idle" if power.idle_w is None else f"{power.idle_w:g} W idle"
    return WattsInfo(
        watts=(power.idle_w or 0.0) + power.active_w * busy * device.slots,
        provenance=Provenance.MODELLED,
        method=f"busy slots times {power.active_w:g} W, {idle} ({power.source})",
    )


def health_of(device: DeviceInfo, holds: int, timeout_s: float) -> tuple[DeviceHealth, str]:
    """Whether a device can be counted on, and what that means."""
    if not device.live:
        return DeviceHealth.SILENT, (
            f"Not heard of for more than {timeout_s:g} s; what it held is made by others. Start "
            "its worker again, or remove it."
        )
    if device.drained_at is None and device.rests:
        rest = max(device.rests, key=lambda rest: rest.failures)
        return DeviceHealth.RESTING, (
            f"Failed {rest.failures} times in a row in run {rest.run} and is tried again in "
            f"{rest.rest_s:.0f} s; other devices take over its work. Last error: {rest.reason}"
        )
    if device.drained_at is None:
        return DeviceHealth.LIVE, "Alive, and given work."
    if holds:
        batches = "1 batch" if holds == 1 else f"{holds} batches"
        return DeviceHealth.DRAINING, f"Finishes {batches}, and is given nothing new."
    return DeviceHealth.DRAINED, "Alive, and given no work until it is resumed."
