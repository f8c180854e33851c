"""Tells whoever trains that samples are missing: at the first, then ever more seldom."""

import logging

from ddlp.core.messages import Attached, FedBatch
from ddlp.core.types import BadPolicy

log = logging.getLogger(__name__)


class BadSampleNews:
    """Counts the bad samples that a rank meets in an epoch; each doubling is a warning."""

    def __init__(self, attached: Attached, epoch: int) -> None:
        self._epoch = epoch
        self._done = "replaced" if attached.on_bad is BadPolicy.REPLACE else "skipped"
        self._seen = 0

    def tell(self, fed: FedBatch) -> None:
        """Take note of a batch."""
        if fed.left_out is not None:
            log.warning(
                "batch %d of epoch %d was left out: %s", fed.index, self._epoch, fed.left_out
            )
        before, self._seen = self._seen, self._seen + fed.bad
        if self._seen.bit_length() == before.bit_length():
            return
        example = f", such as {fed.bad_example}" if fed.bad_example else ""
        log.warning(
            "%d bad %s of epoch %d %s so far%s; loader.bad_samples lists them, on_bad='fail' would "
            "end the run",
            self._seen,
            "sample" if self._seen == 1 else "samples",
            self._epoch,
            f"was {self._done}" if self._seen == 1 else f"were {self._done}",
            example,
        )
