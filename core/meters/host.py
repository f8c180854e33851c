"""Which meters a host uses: RAPL, else a Zeus daemon, else the model; and all its GPUs.

Packages and memory are chosen apart: a processor may count the one and not the other. The choice
stays, so that a figure never changes its meaning between two samples.
"""

import socket
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ddlp.core.errors import Unavailable
from ddlp.core.messages.energy import DomainReading, HostSample
from ddlp.core.meters import nvml as gpus
from ddlp.core.meters import rapl, zeusd
from ddlp.core.meters.base import Clock, Meter
from ddlp.core.meters.model import Modelled, ModelledMemory, ModelledPackage
from ddlp.core.meters.proc import BusyTime, used_bytes
from ddlp.core.settings import Settings
from ddlp.core.types import Domain

_MOST_METERS = 256


class HostMeters:
    """All meters of this host, from the moment it is made."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock = time.monotonic,
        proc: Path = Path("/proc"),
        nvml: Callable[[], Any | None] = gpus.load,
    ) -> None:
        self._clock = clock
        self._proc = proc
        self.host = socket.gethostname()
        self.sampler = uuid.uuid4()
        self.meters = [*_choose(settings, clock, proc), *gpus.find(nvml(), clock)][:_MOST_METERS]
        self._busy = BusyTime(proc)
        self._started_s = clock()

    def sample(self) -> HostSample:
        """All meters now."""
        self._busy.look()
        return HostSample(
            host=self.host,
            sampler=self.sampler,
            period_s=self._clock() - self._started_s,
            busy_s=self._busy.busy_s,
            cores=self._busy.cores,
            used_bytes=used_bytes(self._proc),
            domains=[
                DomainReading(
                    name=meter.name,
                    domain=meter.domain,
                    reading=meter.read(),
                    idle_w=meter.idle_w if isinstance(meter, Modelled) else None,
                )
                for meter in self.meters
            ],
        )


def _choose(settings: Settings, clock: Clock, proc: Path) -> list[Meter]:
    counted = rapl.find(settings.powercap, clock)
    package, why_package = _measured(counted, Domain.PACKAGE, settings)
    memory, why_memory = _measured(counted, Domain.DRAM, settings)
    platform, _ = _measured(counted, Domain.PSYS, settings)
    if not (package and memory):
        daemon, why_not = _daemon(settings, clock)
        package = package or _of(daemon, Domain.PACKAGE)
        memory = memory or _of(daemon, Domain.DRAM)
        platform = platform or _of(daemon, Domain.PSYS)
        why_package, why_memory = why_package + why_not, why_memory + why_not
    return [
        *(package or [ModelledPackage(proc, settings, why_package, clock)]),
        *(memory or [ModelledMemory(proc, settings, why_memory, clock)]),
        *platform,
    ]


def _measured(counted: list[Meter], domain: Domain, settings: Settings) -> tuple[list[Meter], str]:
    """RAPL's meters of a domain, if all can be read; else none, and why."""
    found = _of(counted, domain)
    if not found:
        return [], f"no RAPL {domain} below {settings.powercap}"
    failed = next((now for now in (meter.read() for meter in found) if now.joules is None), None)
    return (found, "") if failed is None else ([], failed.method)


def _daemon(settings: Settings, clock: Clock) -> tuple[list[Meter], str]:
    """The daemon's meters, if there is one; else none, and why."""
    if settings.zeusd_socket is None:
        return [], ""
    try:
        return zeusd.find(settings.zeusd_socket, settings.powercap, clock), ""
    except Unavailable as error:
        return [], f"; {error}"


def _of(meters: list[Meter], domain: Domain) -> list[Meter]:
    return [meter for meter in meters if meter.domain is domain]
