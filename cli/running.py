"""Find and end what `ddlp up` started on a home folder."""

import os
import select
import signal
from pathlib import Path

from ddlp.core.errors import NotAllowed, NotFound, WaitTimeout
from ddlp.core.home_lock import Running, read_lock

_END_S = 40.0
"""Longer than all parts together are given to end."""


def find_running(home: Path) -> Running:
    """What runs on a home folder now."""
    found = read_lock(home)
    if found is None or not found.lives:
        raise _nothing(home)
    return found


def end(home: Path, wait_s: float = _END_S) -> Running:
    """End what `ddlp up` started on a home folder, and wait until it has ended."""
    found = read_lock(home)
    if found is None:
        raise _nothing(home)
    try:
        process = os.pidfd_open(found.pid)
    except ProcessLookupError as error:
        raise _nothing(home) from error
    try:
        # Asked once the process is held: its number cannot be given to another one in between.
        if not found.lives:
            raise _nothing(home)
        signal.pidfd_send_signal(process, signal.SIGTERM)
        ended = select.poll()
        ended.register(process, select.POLLIN)
        if not ended.poll(wait_s * 1000):
            raise WaitTimeout(
                f"process {found.pid} on {home} has not ended within {wait_s:g} s; see what it "
                f"does with: ddlp logs --home {home}"
            )
    except PermissionError as error:
        raise NotAllowed(
            f"process {found.pid} on {home} belongs to another user, who must end it"
        ) from error
    finally:
        os.close(process)
    return found


def _nothing(home: Path) -> NotFound:
    return NotFound(
        f"nothing that `ddlp up` started runs on {home}; name another folder with --home or "
        "DDLP_HOME"
    )
