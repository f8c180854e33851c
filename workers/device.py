"""A worker's device: what it is, and the signs of life it gives."""

import logging
import socket
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from ddlp.core.client import Client
from ddlp.core.energy import EnergyReading, PowerModel
from ddlp.core.errors import DdlpError, NotFound, Unavailable
from ddlp.core.messages import DeviceRegister, Heartbeat, Orders
from ddlp.core.outage import Outage
from ddlp.core.pipeline import ENGINE
from ddlp.core.process import parent_death_signal
from ddlp.core.seal import fetch_key
from ddlp.core.settings import Settings
from ddlp.core.store import StoreAddress, StoreOptions
from ddlp.core.types import DeviceKind, Prong
from ddlp.workers.csd.driver import CsdDriver, Health
from ddlp.workers.csd.host import HostCpu
from ddlp.workers.csd.registry import make_driver
from ddlp.workers.csd.usage import Usage
from ddlp.workers.intake import Intake
from ddlp.workers.keeper import StoreKeeper
from ddlp.workers.watchdog import Watchdog, start_anew

_PERIOD_S = 1.5

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WorkerDevice:
    """One producer: a host's CPU pool, a CSD or an emulated one."""

    name: str
    prong: Prong
    kind: DeviceKind
    slots: int
    store: StoreAddress
    power: PowerModel
    options: StoreOptions = field(default_factory=StoreOptions)
    serve: str | None = None
    """Address at which it serves its store."""
    cache: Path = Path(".ddlp/index-copies")
    """Where it keeps copies of indexes that it cannot open where the server has them."""
    dataset_map: Mapping[Path, Path] = field(default_factory=dict)
    """Folders that the server sees elsewhere than this host does."""
    telemetry: bool = True
    """Whether it tells where the seconds of a batch went."""
    driver: CsdDriver = field(default_factory=HostCpu)
    speed: float = 1.0
    """Below 1 its processes sleep, to be as slow as a processor of this speed."""
    link_bytes_per_s: float | None = None
    """What each of its processes has of an emulated link."""

    @classmethod
    def from_settings(cls, settings: Settings, prong: Prong, slots: int | None) -> Self:
        """The device that the settings describe for a prong."""
        driver = HostCpu(settings) if prong is Prong.CPU else make_driver(settings)
        described = driver.describe()
        used = slots or described.cores
        return cls(
            name=settings.device_name or _own_name(prong),
            prong=prong,
            kind=described.kind,
            slots=used,
            store=driver.store,
            power=described.power_of_a_slot(used),
            options=settings.store_options,
            serve=settings.serve_store,
            cache=settings.home.absolute() / "index-copies",
            dataset_map=settings.dataset_map,
            telemetry=settings.telemetry,
            driver=driver,
        )

    def started(self) -> Self:
        """The device made ready for its processes, which are forked after this."""
        pace = self.driver.start(self.slots)
        return replace(self, speed=pace.speed, link_bytes_per_s=pace.link_bytes_per_s)


def _own_name(prong: Prong) -> str:
    return f"{prong.value}-{socket.gethostname()}"[:64]


def wait_for_key(url: str) -> str:
    """The secret that messages are signed with; a server that is away is waited for."""
    away = Outage(log, "the server cannot be asked for the key of the queues")
    refused = Outage(log, "the server refuses this worker")
    with Client(url, timeout_s=5, patience_s=0) as client:
        while True:
            try:
                return fetch_key(client)
            except Unavailable as error:
                away.failed(error)
            except DdlpError as error:
                refused.failed(error)
            time.sleep(_PERIOD_S)


class Presence(threading.Thread):
    """Registers a device and keeps saying that it lives."""

    def __init__(
        self, device: WorkerDevice, url: str, watchdog: Watchdog, usage: Usage, intake: Intake
    ) -> None:
        super().__init__(name="presence", daemon=True)
        self._watchdog = watchdog
        self._death_signal = parent_death_signal()
        self._device = device
        self._usage = usage
        self._intake = intake
        self._keeper = StoreKeeper(device.store, device.options, device.serve)
        self._client = Client(url, timeout_s=5, patience_s=0)
        self._incarnation = uuid.uuid4()
        self._stopping = threading.Event()

    def run(self) -> None:
        """Register, then beat until stopped; a server that is away is waited for."""
        registered = False
        away = Outage(log, "the server does not hear of this device")
        unwell = Outage(log, "the device cannot work, and is not announced")
        refused = Outage(log, "the server refuses this device")
        unclear = Outage(log, "the device cannot be described to the server")
        self._keeper.start()
        while True:
            health = self._health()
            try:
                if not health.ok:
                    unwell.failed(Unavailable(health.reason))
                elif registered:
                    self._beat()
                else:
                    self._register()
                    registered = True
                if health.ok:
                    away.succeeded()
                    unwell.succeeded()
                    refused.succeeded()
                    unclear.succeeded()
            except NotFound:
                registered = False
            except Unavailable as error:
                away.failed(error)
            except DdlpError as error:
                refused.failed(error)
            except ValueError as error:  # a value that no message takes, such as a driver's
                unclear.failed(error)
            if self._stopping.wait(_PERIOD_S):
                return
            if self._intake.is_open and self._watchdog.stuck():
                log.error("messages wait but none is taken; starting the worker anew")
                try:
                    start_anew(self._death_signal)
                except OSError as error:  # too many files are open, say
                    log.error("the worker cannot be started anew (%s); trying again", error)

    def stop(self) -> None:
        """Say no more."""
        self._stopping.set()
        self._keeper.stop()

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
            store=device.store.url,
            serves=self._keeper.serves,
            store_key=self._keeper.key,
            room=self._keeper.room,
            power=device.power,
            clock_s=time.time(),
        )
        self._client.post("/devices", body)
        self._intake.seal.key = fetch_key(self._client)  # it may be another server's now

    def _beat(self) -> None:
        energy = self._energy()
        room, stored = self._keeper.take_news()
        body = Heartbeat(
            incarnation=self._incarnation,
            room=room,
            stored=stored,
            energy=energy,
            dropped_messages=self._intake.seal.dropped,
        )
        answer = self._client.post(f"/devices/{self._device.name}/heartbeat", body)
        orders = Orders.model_validate(answer)
        self._keeper.obey(orders)
        self._intake.set_open(not orders.drained)

    def _health(self) -> Health:
        try:
            return self._device.driver.health()
        except Exception as error:  # the border to a driver's code, which raises whatever it likes
            return Health(False, f"its driver cannot say how it is: {error!r}")

    def _energy(self) -> EnergyReading | None:
        try:
            return self._device.driver.energy(*self._usage.seconds())
        except Exception as error:  # the same border: a device without a figure can work
            log.warning("the driver cannot say what energy was used: %r", error)
            return None
