"""How much a store may hold: by its quota, by its filesystem, and for one run."""

import os
from pathlib import Path

from ddlp.core.filesystem import nearest

HIGH_WATER = 0.9
"""A schedule gives out work for so much of a store; the rest is for what must come next."""
_RESERVE_SHARE = 0.02
"""So much of a filesystem is left to others."""


def used_bytes(root: Path, prefix: str) -> int:
    """What the files of all runs take up."""
    total = 0
    for folder in root.glob(f"{prefix}*"):
        for place, _, files in os.walk(folder):
            for name in files:
                try:
                    total += os.stat(os.path.join(place, name)).st_blocks * 512
                except FileNotFoundError:
                    continue
    return total


def usable_bytes(root: Path) -> int:
    """What a filesystem has free, less what is left to others."""
    found = os.statvfs(nearest(root))
    free = found.f_bavail * found.f_frsize
    return max(0, free - int(found.f_blocks * found.f_frsize * _RESERVE_SHARE))


def check_room(where: str, slots: int, batch_bytes: int, free_bytes: int | None) -> str | None:
    """Why a store is too small for a run, with the remedy; None where it is large enough."""
    need = (slots + 2) * batch_bytes
    if free_bytes is None or free_bytes >= need:
        return None
    return (
        f"{where} has room for {_mib(free_bytes)} and needs {_mib(need)}: {slots} at work and two "
        f"ready, {_mib(batch_bytes)} each; make room there (a quota: DDLP_STORE_QUOTA_BYTES; "
        "tmpfs: mount -o remount,size=…; a container: --shm-size), choose another place with "
        "DDLP_CPU_STORE or DDLP_CSD_STORE, or make batches smaller"
    )


def _mib(nbytes: int) -> str:
    return f"{nbytes / (1 << 20):,.1f} MiB"


def store_limit(batch_bytes: int, quota_bytes: int, free_bytes: int | None = None) -> int:
    """How many batches of a run may lie in a store: by its quota, and by half of what is free."""
    most = int(HIGH_WATER * quota_bytes)
    if free_bytes is not None:
        most = min(most, free_bytes // 2)
    return max(2, most // batch_bytes)
