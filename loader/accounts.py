"""What a rank tells of how it spent its time, each time that it asks for batches."""

import time

from ddlp.core.messages import TrainerAccount
from ddlp.core.types import Activity
from ddlp.loader.readers.counts import ReadCounts
from ddlp.loader.timing import Timing


class Accounts:
    """Makes one account after the other, numbered, so that one that is sent twice counts once."""

    def __init__(self, timing: Timing, counts: ReadCounts) -> None:
        self.timing = timing
        self._counts = counts
        self._number = 0

    def take(self) -> TrainerAccount:
        """All that is new since the last one."""
        self._number += 1
        busy_s = self.timing.spans.take_busy_s()
        spans, dropped = self.timing.spans.take()
        return TrainerAccount.model_construct(
            number=self._number,
            spent_s=self.timing.take(),
            read_s=busy_s[Activity.READ],
            transfer_s=busy_s[Activity.TRANSFER],
            reads=self._counts.take(),
            sent_s=time.monotonic(),
            spans=spans,
            dropped=dropped,
        )
