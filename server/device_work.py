"""What devices make: all of it since they first worked, and how much in the last seconds."""

from dataclasses import dataclass, field

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from ddlp.core.types import Prong
from ddlp.server.models import Tally

SEEN_S = 10
"""Over so many whole seconds it is said what a device makes: slow ones finish a batch rarely."""


@dataclass
class DeviceWork:
    """What one device has made."""

    images: int = 0
    _seconds: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Images and busy seconds, by the second in which they were reported."""

    def add(self, now: float, images: int, busy_s: float) -> None:
        """Count a batch that is finished now."""
        self.images += images
        second = int(now)
        before = self._seconds.get(second, (0, 0.0))
        self._seconds[second] = before[0] + images, before[1] + busy_s
        for old in [at for at in self._seconds if at < second - SEEN_S]:
            del self._seconds[old]

    def recent(self, now: float) -> tuple[int, float]:
        """Images and busy seconds of the last whole seconds."""
        last = [entry for at, entry in self._seconds.items() if int(now) - SEEN_S <= at < int(now)]
        return sum(images for images, _ in last), sum(busy_s for _, busy_s in last)


def images_made(session: Session) -> dict[str, int]:
    """How many images each device has made, for all runs that are kept."""
    makers = [prong.value for prong in Prong]
    query = select(Tally.device, func.sum(Tally.images)).where(Tally.source.in_(makers))
    return {name: int(images) for name, images in session.execute(query.group_by(Tally.device))}
