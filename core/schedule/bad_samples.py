"""Bad samples in reports of finished batches: which are believed, and how many are too many."""

from __future__ import annotations

from ddlp.core.errors import InvalidInput
from ddlp.core.mishap import Mishap
from ddlp.core.schedule.batch import Batch
from ddlp.core.schedule.leasing import Leasing
from ddlp.core.schedule.reports import Made


class BadSamples(Leasing):
    """Takes note of bad samples."""

    def _note_bad(self, batch: Batch, made: Made) -> int:
        """Remember the bad samples of a batch; too many of them in an epoch end the run."""
        epoch = self.epochs[batch.epoch]
        planned = epoch.segment.length(batch.index)
        if len(made.bad) > planned or made.left_out == planned:
            raise InvalidInput(f"{len(made.bad)} of {planned} samples are bad; nothing is left")
        named = {mishap.sample for mishap in made.bad}
        if named and (len(named) < len(made.bad) or not named <= self._samples_of(batch)):
            raise InvalidInput("a bad sample is named twice, or is none of its batch")
        self._doomed.pop((batch.epoch, batch.index), None)  # another attempt at it was given up
        if made.bad or batch.bad or batch.isolated:
            self._mishaps[batch.epoch, batch.index] = made.bad
        batch.samples, batch.bad, batch.isolated = planned - made.left_out, len(made.bad), False
        batch.bad_example = f"{made.bad[0].name}: {made.bad[0].reason}" if made.bad else None
        self._check_bad(batch, made.bad)
        return planned

    def _samples_of(self, batch: Batch) -> set[int]:
        places = self.epochs[batch.epoch].segment.places(batch.index)
        return set(self.plan.samples_at(batch.epoch, places).tolist())

    def _check_bad(self, batch: Batch, bad: tuple[Mishap, ...]) -> None:
        found = self.epochs[batch.epoch].bad + batch.bad
        allowed = self.limits.bad_allowed(self.plan.samples)
        if batch.bad and found > allowed:
            self.note_doom(
                batch,
                f"{found} of the {self.plan.samples} samples of epoch {batch.epoch} are bad, more "
                f"than max_bad_share={self.limits.bad_share:g} allows ({allowed}); the last is "
                f"{bad[-1].name}: {bad[-1].reason}",
            )
