"""A worker's device: what it is, and the signs of life it gives."""

import logging
import socket
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path

from ddlp.core.client import Client
from ddlp.core.energy import PowerModel
from ddlp.core.errors import DdlpError, NotFound, Unavailable
from ddlp.core.messages import DeviceRegister, Heartbeat
from ddlp.core.pipeline import ENGINE
from ddlp.core.process import parent_death_signal
from ddlp.core.settings import Settings
from ddlp.core.types import DeviceKind, Prong
from ddlp.workers.watchdog import Watchdog, start_anew

_PERIOD_S = 1.5

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WorkerDevice:
    """One producer: a host's CPU pool or an emulated CSD."""

    name: str
    prong: Prong
    kind: DeviceKind
    slots: int
    store: Path
    speed: float
    power: PowerModel

    @classmethod
    def from_settings(cls, settings: Settings, prong: Prong, slots: int | None) -> "WorkerDevice":
        """The device that the settings describe for a prong."""
        if prong is Prong.CPU:
            return cls(
                name=settings.device_name or _own_name(prong),
                prong=prong,
                kind=DeviceKind.HOST,
                slots=slots or settings.cpu_workers_used,
                store=settings.cpu_store_path,
                speed=1.0,
                power=PowerModel(active_w=settings.cpu_active_w, source="DDLP_CPU_ACTIVE_W"),
            )
        return cls(
            name=settings.device_name or _own_name(prong),
            prong=prong,
            kind=DeviceKind.EMULATED_CSD,
            slots=slots or 1,
            store=settings.csd_store_path,
            speed=settings.csd_speed,
            power=PowerModel(active_w=settings.csd_active_w, source="DDLP_CSD_ACTIVE_W"),
        )


def _own_name(prong: Prong) -> str:
    return f"{prong.value}-{socket.gethostname()}"[:64]


class Presence(threading.Thread):
    """Registers a device and keeps saying that it lives."""

    def __init__(self, device: WorkerDevice, url: str, watchdog: Watchdog) -> None:
        super().__init__(name="presence", daemon=True)
        self._watchdog = watchdog
        self._death_signal = parent_death_signal()
        self._device = device
        self._client = Client(url, timeout_s=5, patience_s=0)
        self._incarnation = uuid.uuid4()
        self._stopping = threading.Event()

    def run(self) -> None:
        """Register, then beat until stopped; a server that is away is waited for."""
        registered = False
        while True:
            try:
                if registered:
                    self._beat()
                else:
                    self._register()
                    registered = True
            except NotFound:
                registered = False
            except Unavailable as error:
                log.warning("%s", error)
            except DdlpError as error:
                log.error("the server refuses this device: %s", error)
            if self._stopping.wait(_PERIOD_S):
                return
            if self._watchdog.stuck():
                log.error("messages wait but none is taken; starting the worker anew")
                start_anew(self._death_signal)

    def stop(self) -> None:
        """Say no more."""
        self._stopping.set()

    def _register(self) -> None:
        device = self._device
        body = DeviceRegister(
            name=device.name,
            prong=device.prong,
            kind=device.kind,
            slots=device.slots,
            host=socket.gethostname(),
            incarnation=self._incarnation,
            engine=ENGINE,
            store=str(device.store),
            power=device.power,
        )
        self._client.post("/devices", body)

    def _beat(self) -> None:
        self._client.post(
            f"/devices/{self._device.name}/heartbeat", Heartbeat(incarnation=self._incarnation)
        )
