"""The lock of a home folder: which `ddlp up` runs on it, and where its server listens."""

import json
from dataclasses import dataclass
from pathlib import Path

from ddlp.core.processes import is_running, this_process
from ddlp.core.settings import Settings


@dataclass(frozen=True)
class Running:
    """A `ddlp up` as its lock names it; it may be gone."""

    pid: int
    place: str
    """Where and since when the number means that process."""
    url: str

    @property
    def lives(self) -> bool:
        """Whether it is that very process still, and not another one with its number."""
        return is_running(self.place, self.pid)


def lock_text(url: str) -> str:
    """What this process writes into the lock of its home folder."""
    me = this_process()
    return json.dumps({"pid": me.number, "place": me.place, "url": url})


def read_lock(home: Path) -> Running | None:
    """What was started on a home folder last, if that can be read."""
    try:
        found = json.loads((home / "lock").read_text())
        return Running(int(found["pid"]), str(found.get("place", "")), str(found["url"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def server_url(settings: Settings) -> str:
    """The address in the settings, of what was started at home, or where it would be started."""
    found = None if settings.url else read_lock(settings.home)
    return settings.url or (found.url if found is not None else settings.server_url)
