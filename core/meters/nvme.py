"""NVMe: what a drive draws, from the table of power states that its controller holds.

Each state says the most that is drawn in it (MP) and often what a typical load (ACTP) and an idle
drive (IDLP) draw. They are figures of the maker, for the whole drive: times the seconds in which
it was busy or idle they make joules that are `modelled`.

The layout is that of Identify Controller in the NVM Express base specification: the highest number
of a state (NPSS) is byte 263, and descriptors of 32 bytes begin at byte 2048.
"""

import ctypes
import fcntl
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ddlp.core.energy import EnergyReading
from ddlp.core.errors import InvalidInput
from ddlp.core.meters.base import reading, unavailable
from ddlp.core.types import Provenance

IDENTIFY_BYTES = 4096
_NPSS = 263
_STATES = 2048
_STATE = struct.Struct("<HxB12xHBxHB9x")
"""MP, flags, (latencies and ranks), IDLP, its scale, ACTP, its scale and workload, (the rest)."""
_MOST_STATES = 32

_MAX_SCALE = 0x01
_NOT_OPERATIONAL = 0x02
_SCALES = {1: 0.0001, 2: 0.01}
"""Watts of a step of IDLP and ACTP, by the highest two bits of the byte after it; 0 is none."""

_ADMIN_COMMAND = struct.Struct("=BBHIIIQQIIIIIIIIII")
_NVME_IOCTL_ADMIN_CMD = 0xC0484E41
_IDENTIFY, _GET_FEATURES = 0x06, 0x0A
_CONTROLLER, _POWER_MANAGEMENT = 0x01, 0x02


@dataclass(frozen=True)
class PowerState:
    """One row of the table; what the maker left out is None."""

    number: int
    max_w: float | None
    idle_w: float | None
    active_w: float | None
    operational: bool

    @property
    def busy_w(self) -> float | None:
        """What a busy drive draws: typically, or else at most."""
        return self.max_w if self.active_w is None else self.active_w


def parse_identify(data: bytes) -> list[PowerState]:
    """The table of power states in the answer to Identify Controller."""
    if len(data) != IDENTIFY_BYTES:
        raise InvalidInput(f"Identify Controller has {IDENTIFY_BYTES} bytes, not {len(data)}")
    if data[_NPSS] >= _MOST_STATES:
        raise InvalidInput(f"a controller has at most {_MOST_STATES} states, not {data[_NPSS] + 1}")
    return [
        _state(number, _STATE.unpack_from(data, _STATES + number * _STATE.size))
        for number in range(data[_NPSS] + 1)
    ]


def _state(number: int, fields: tuple[int, ...]) -> PowerState:
    most, flags, idle, idle_scale, active, active_scale = fields
    step_w = 0.0001 if flags & _MAX_SCALE else 0.01
    return PowerState(
        number=number,
        max_w=most * step_w or None,
        idle_w=_scaled(idle, idle_scale),
        active_w=_scaled(active, active_scale),
        operational=not flags & _NOT_OPERATIONAL,
    )


def _scaled(value: int, scale: int) -> float | None:
    """0 means that nothing is reported, as does a scale of 0."""
    step_w = _SCALES.get(scale >> 6)
    return None if step_w is None else value * step_w or None


def ask_controller(controller: Path) -> tuple[bytes, int]:
    """Identify Controller of a device such as /dev/nvme0, and the number of its present state."""
    data = ctypes.create_string_buffer(IDENTIFY_BYTES)
    with controller.open("rb") as device:
        _admin(device.fileno(), _IDENTIFY, ctypes.addressof(data), IDENTIFY_BYTES, _CONTROLLER)
        state = _admin(device.fileno(), _GET_FEATURES, 0, 0, _POWER_MANAGEMENT)
    return data.raw, state & 0x1F


def _admin(device: int, opcode: int, address: int, length: int, dword10: int) -> int:
    """The first word of the answer; a status that the drive returns is an OSError."""
    fields = [opcode, 0, 0, 0, 0, 0, 0, address, 0, length, dword10, 0, 0, 0, 0, 0, 0, 0]
    command = bytearray(_ADMIN_COMMAND.pack(*fields))
    status = fcntl.ioctl(device, _NVME_IOCTL_ADMIN_CMD, command)
    if status:
        raise OSError(f"the drive answers opcode {opcode:#x} with status {status:#x}")
    return int(_ADMIN_COMMAND.unpack(command)[-1])


@dataclass(frozen=True)
class NvmePower:
    """What a drive draws while it is busy and while it is idle, and how that is known."""

    active_w: float | None
    idle_w: float | None
    words: str

    @classmethod
    def of_controller(
        cls, controller: Path, ask: Callable[[Path], tuple[bytes, int]] = ask_controller
    ) -> Self:
        """From a controller's table; one that cannot be asked is not known, and it is said why."""
        try:
            data, present = ask(controller)
            return cls.of_table(parse_identify(data), present, str(controller))
        except OSError as error:
            reason = (
                f"{controller} cannot be asked ({error}); let the worker read it, or run as root"
            )
            return cls(None, None, reason)
        except InvalidInput as error:
            return cls(None, None, f"{controller}: {error}")

    @classmethod
    def of_table(cls, states: list[PowerState], present: int, name: str) -> Self:
        """Busy in the present state, or, if the drive sleeps in it, in the first that works."""
        now = next((state for state in states if state.number == present), states[0])
        first = next((state for state in states if state.operational), states[0])
        busy = now if now.operational else first
        if busy.busy_w is None:
            return cls(None, None, f"the table of {name} has no watts for state {busy.number}")
        kind = "at most" if busy.active_w is None else "typically"
        idle_w = now.idle_w if now.operational or now.idle_w is not None else now.max_w
        idle = "idle not reported" if idle_w is None else f"state {now.number} idle {idle_w:g} W"
        words = f"power states of {name}: state {busy.number} {kind} {busy.busy_w:g} W, {idle}"
        return cls(busy.busy_w, idle_w, words)

    def energy(self, busy_s: float, idle_s: float) -> EnergyReading:
        """Joules of so many seconds."""
        period_s = busy_s + idle_s
        if self.active_w is None:
            return unavailable(self.words, period_s)
        said = f"{busy_s:.1f} s busy × {self.active_w:g} W"
        if self.idle_w is None:
            said += "; its idle time is not counted"
        else:
            said += f" + {idle_s:.1f} s idle × {self.idle_w:g} W"
        joules = busy_s * self.active_w + idle_s * (self.idle_w or 0.0)
        return reading(joules, f"{said} ({self.words})", period_s, Provenance.MODELLED)
