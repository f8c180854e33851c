"""Runs a Celery worker for one device: a pool of processes on the queue of its prong."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from billiard.process import current_process
from celery import Celery
from celery.signals import (
    setup_logging,
    worker_process_init,
    worker_process_shutdown,
    worker_ready,
    worker_shutting_down,
)
from celery.worker.state import active_requests, total_count

from ddlp.core import logs
from ddlp.core.errors import InvalidInput
from ddlp.core.meters.remote import sample_host
from ddlp.core.meters.single import Sampling
from ddlp.core.private import close_to_others, make_home
from ddlp.core.process import die_with_parent
from ddlp.core.queue import PACK, TASK, check_broker, create_celery
from ddlp.core.seal import Seal
from ddlp.core.settings import Settings
from ddlp.core.types import DeviceKind
from ddlp.workers.csd.usage import Usage
from ddlp.workers.deaths import Deaths
from ddlp.workers.device import Presence, WorkerDevice, wait_for_key
from ddlp.workers.intake import Intake
from ddlp.workers.packing import Ending, PackBench
from ddlp.workers.tasks import Bench
from ddlp.workers.watchdog import Watchdog

_SETTLE_S = 2.0


def run_worker(settings: Settings, device: WorkerDevice) -> None:
    """Serve until told to stop."""
    logs.configure(settings.log_format)
    if settings.redis_url is None:
        raise InvalidInput("DDLP_REDIS_URL is not set; name the broker, or use: ddlp up")
    check_broker(settings.redis_url)
    _close_stores(settings)
    try:
        _serve(settings, settings.redis_url, device.started())
    finally:
        device.driver.stop()


def _close_stores(settings: Settings) -> None:
    """Close to other users what nobody has named: a home and a store of an earlier version."""
    named = settings.cpu_store, settings.csd_store
    stores = settings.cpu_store_address.folder, settings.csd_store_address.folder
    found = [store for name, store in zip(named, stores, strict=True) if name is None]
    with suppress(OSError):  # it may need none
        make_home(settings.home)
    for folder in found:
        if folder is not None and folder.is_dir():
            close_to_others(folder)


def _serve(settings: Settings, redis_url: str, device: WorkerDevice) -> None:
    seal = Seal(wait_for_key(settings.server_url))
    celery = create_celery(redis_url, seal)
    usage = Usage(device.slots, device.driver.describe().cores)
    deaths = Deaths()
    benches = _add_task(celery, lambda: Bench(device, settings.server_url, deaths), usage)
    end = Ending()
    _add_pack_task(celery, lambda: PackBench(device, settings.server_url, end), usage)
    watchdog = Watchdog(redis_url, device.prong.value, _Progress())
    intake = Intake(device.prong.value, seal)
    presence = Presence(device, settings.server_url, watchdog, usage, intake)
    sampling = _sampling(settings, device)
    main = os.getpid()

    # Celery keeps only weak references to receivers: the names keep them alive.
    def logging_is_ours(**_: Any) -> None:
        """Celery sets up no logging of its own where somebody listens for it."""

    def ready(sender: Any, **_: Any) -> None:
        intake.attach(sender)
        _watch_pool(sender, deaths)
        presence.start()
        if sampling is not None:
            sampling.start()

    def stopping(**_: Any) -> None:
        end.begin()
        presence.stop()
        if sampling is not None:
            sampling.stop()

    def child(**_: Any) -> None:
        die_with_parent(main)

    def ending(**_: Any) -> None:
        for bench in benches.values():
            bench.settle(_SETTLE_S)

    setup_logging.connect(logging_is_ours)
    worker_ready.connect(ready)
    worker_shutting_down.connect(stopping)
    worker_process_init.connect(child)
    worker_process_shutdown.connect(ending)
    worker = celery.Worker(
        hostname=f"{device.name}@{device.prong}",
        pool="prefork",
        concurrency=device.slots,
        queues=[device.prong.value],
        loglevel="WARNING",
        optimization="fair",
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    worker.start()


def _sampling(settings: Settings, device: WorkerDevice) -> Sampling | None:
    """Reads this host's meters, unless the host is a drive: that one says itself what it uses."""
    if not settings.telemetry or device.kind is DeviceKind.CSD:
        return None
    return sample_host(settings, settings.server_url)


class _Progress:
    """Whether the pool works, or has taken something since it was last asked."""

    def __init__(self) -> None:
        self._taken = 0

    def __call__(self) -> bool:
        before, self._taken = self._taken, sum(total_count.values())
        return bool(active_requests) or self._taken != before


def _watch_pool(consumer: Any, deaths: Deaths) -> None:
    """Note how each process of the pool ends, before its message is delivered again."""
    pool = consumer.pool._pool
    tell = pool.on_process_down

    def on_process_down(process: Any) -> None:
        if process.exitcode:
            deaths.note(process.pid, process.exitcode)
        tell(process)

    pool.on_process_down = on_process_down


def _add_task(celery: Celery, make: Callable[[], Bench], usage: Usage) -> dict[int, Bench]:
    benches: dict[int, Bench] = {}

    @celery.task(name=TASK)  # type: ignore[untyped-decorator]
    def produce(body: Any) -> None:
        # One bench a process: made after the fork, so that no connection is shared.
        pid = os.getpid()
        if pid not in benches:
            benches[pid] = make()
        with usage.busy(current_process().index):
            benches[pid].handle(body)

    return benches


def _add_pack_task(celery: Celery, make: Callable[[], PackBench], usage: Usage) -> None:
    benches: dict[int, PackBench] = {}

    @celery.task(name=PACK)  # type: ignore[untyped-decorator]
    def pack(body: Any) -> None:
        pid = os.getpid()
        if pid not in benches:
            benches[pid] = make()
        with usage.busy(current_process().index):
            benches[pid].handle(body)
