"""Foretells a run from paces that were seen before: rates, where the ends meet, times and joules.

The same sums as the scheduling core's: a device makes slots ÷ seconds a sample, and one whose pace
is not known is taken to be like the others of its prong. What nobody has seen yet stays unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ddlp.core.energy import PowerModel
from ddlp.core.types import Prong, Provenance


@dataclass(frozen=True)
class KnownDevice:
    """A live device, and what earlier runs have shown of it."""

    name: str
    prong: Prong
    slots: int
    power: PowerModel
    emulated: bool = False
    sample_s: float | None = None
    """Seconds that one slot needs for a sample; None where it never made this pipeline's."""
    known_from: str = ""
    """Where that was seen."""


@dataclass(frozen=True)
class ProngOutlook:
    """What the devices of one prong would do."""

    prong: Prong
    devices: tuple[KnownDevice, ...]

    @property
    def slots(self) -> int:
        """Worker processes of its devices."""
        return sum(device.slots for device in self.devices)

    @property
    def images_per_s(self) -> float | None:
        """What they make together; None where no pace is known, 0 where there is no device."""
        if not self.devices:
            return 0.0
        each_s = self._slot_s
        return None if each_s is None else self.slots / each_s

    @property
    def known_from(self) -> list[str]:
        """Where their paces were seen."""
        return sorted({device.known_from for device in self.devices if device.sample_s})

    @property
    def joules_per_image(self) -> float | None:
        """Busy seconds times declared watts, over the devices by what each makes."""
        rate = self.images_per_s
        if not rate:
            return None
        watts = [device.power.joules(device.slots) for device in self.devices]
        known = [value for value in watts if value is not None]
        return sum(known) / rate if len(known) == len(watts) else None

    @property
    def provenance(self) -> Provenance:
        """How the joules are known."""
        unknown = self.joules_per_image is None
        return Provenance.UNAVAILABLE if unknown else Provenance.MODELLED

    @property
    def method(self) -> str:
        """How the joules were obtained, or why they are not known."""
        if not self.devices:
            return "no live device"
        if self.images_per_s is None:
            return "no pace is known yet"
        silent = [device.name for device in self.devices if device.power.active_w is None]
        if silent:
            return f"nobody has declared the watts of {', '.join(silent)}"
        sources = dict.fromkeys(device.power.source for device in self.devices)
        return f"busy seconds × declared watts ({'; '.join(sources)})"

    @property
    def _slot_s(self) -> float | None:
        """What a sample takes on one slot, over the devices whose pace is known."""
        known = [(d.slots, d.sample_s) for d in self.devices if d.sample_s]
        if not known:
            return None
        return sum(slots for slots, _ in known) / sum(slots / s for slots, s in known)


@dataclass(frozen=True)
class Outlook:
    """A whole run on some devices."""

    batches: int
    """An epoch."""
    images: int
    """An epoch."""
    epochs: int
    prongs: tuple[ProngOutlook, ...]
    trainer_per_s: float | None = None
    """Images that the trainers take while they do not wait; None where nobody knows."""

    @property
    def made_per_s(self) -> float | None:
        """What the prongs make together; None where one of them is not known, or none lives."""
        rates = [prong.images_per_s for prong in self.prongs]
        known = [rate for rate in rates if rate is not None]
        return sum(known) or None if len(known) == len(rates) else None

    @property
    def images_per_s(self) -> float | None:
        """What is delivered: the slower of making and training."""
        made = self.made_per_s
        if made is None or self.trainer_per_s is None:
            return made
        return min(made, self.trainer_per_s)

    @property
    def limited_by_trainer(self) -> bool:
        """Whether the prongs would make more than the trainer takes."""
        made = self.made_per_s
        return made is not None and self.trainer_per_s is not None and self.trainer_per_s < made

    @property
    def epoch_s(self) -> float | None:
        """Seconds of one epoch."""
        rate = self.images_per_s
        return self.images / rate if rate else None

    @property
    def run_s(self) -> float | None:
        """Seconds of all epochs."""
        return None if self.epoch_s is None else self.epoch_s * self.epochs

    def share(self, prong: ProngOutlook) -> float | None:
        """The part of an epoch that a prong makes."""
        total, rate = self.made_per_s, prong.images_per_s
        return None if total is None or rate is None else rate / total

    def images_of(self, prong: ProngOutlook) -> int | None:
        """The images of an epoch that a prong makes."""
        share = self.share(prong)
        return None if share is None else round(self.images * share)

    @property
    def meeting_point(self) -> int | None:
        """The batch near which the ends meet; None unless both prongs work."""
        shares = {prong.prong: self.share(prong) for prong in self.prongs}
        cpu, csd = shares.get(Prong.CPU), shares.get(Prong.CSD)
        return round(self.batches * cpu) if cpu and csd else None

    @property
    def joules_per_image(self) -> float | None:
        """Of all that makes batches; None as soon as a part is unknown."""
        total = 0.0
        for prong in self.prongs:
            share = self.share(prong)
            if share == 0:
                continue
            each_j = prong.joules_per_image
            if share is None or each_j is None:
                return None
            total += share * each_j
        return total

    @property
    def joules(self) -> float | None:
        """Of the whole run."""
        each_j = self.joules_per_image
        return None if each_j is None else each_j * self.images * self.epochs


def outlook_prongs(
    devices: Sequence[KnownDevice], prongs: Sequence[Prong]
) -> tuple[ProngOutlook, ...]:
    """The devices by prong, of the prongs that a strategy uses."""
    return tuple(ProngOutlook(p, tuple(d for d in devices if d.prong is p)) for p in prongs)
