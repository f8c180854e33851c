"""How fast a prong is, from what its devices report."""

from dataclasses import dataclass

_WEIGHT = 0.2


@dataclass
class Rate:
    """Seconds a batch takes on one worker slot, followed by an exponential average."""

    batches: int = 0
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """Take one finished batch into account."""
        self.batches += 1
        weight = max(_WEIGHT, 1 / self.batches)
        self.seconds += weight * (seconds - self.seconds)

    def per_second(self, slots: int) -> float | None:
        """Batches a second over all slots, or None while nothing is known."""
        return slots / self.seconds if self.batches and self.seconds > 0 and slots else None
