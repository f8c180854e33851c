"""Says what limits a run, from how the trainer's seconds were spent, and what would change it."""

from collections.abc import Mapping
from dataclasses import dataclass

from ddlp.core.types import Spending

_LEAST_S = 1.0
"""With less than this in the account nothing is said."""
_ENOUGH = 0.9
"""A trainer that works for this share of its time is what limits the run."""


@dataclass(frozen=True)
class Circumstances:
    """What is known of a run beside how its seconds were spent."""

    strategy: str = "wrr"
    storage: str | None = None
    """The dataset's storage form."""
    has_csd: bool = False
    """Whether a drive works for it."""
    paused: bool = False
    devices: frozenset[str] = frozenset()
    """Where its trainers' tensors go; an empty name where one does not say."""
    has_device: bool = True
    """Whether a device lives that may work for it and is not drained."""
    over: bool = False
    """Whether it has ended: then it is told in the past."""

    @property
    def on_cpu(self) -> bool:
        """Whether all that is known of its trainers is that they train on processors."""
        return {kind_of(name) for name in self.devices} == {"cpu"}

    @property
    def on_cuda(self) -> bool:
        """Whether one of its trainers feeds a GPU that drives may be able to write to."""
        return any(kind_of(name) == "cuda" for name in self.devices)


def kind_of(device: str) -> str:
    """The kind of a device that has a number, such as cuda:0."""
    return device.partition(":")[0]


@dataclass(frozen=True)
class Limit:
    """What limits a run now."""

    by: Spending | None
    """None while too little is known."""
    share: float | None
    """Of the trainer's time."""
    sentence: str


def shares(spent_s: Mapping[Spending, float]) -> dict[Spending, float]:
    """Parts of the whole, which sum to 1; none where no time was spent."""
    total_s = sum(spent_s.values())
    if total_s <= 0:
        return {}
    return {what: spent_s.get(what, 0.0) / total_s for what in Spending}


def limit(spent_s: Mapping[Spending, float], known: Circumstances) -> Limit:
    """The largest part of the account, if the trainer does not simply work."""
    if not known.has_device and not known.paused:
        return Limit(None, None, "No device makes batches for this run, so nothing else limits it.")
    if sum(spent_s.values()) < _LEAST_S:
        return Limit(None, None, _too_little(known))
    parts = shares(spent_s)
    training = parts[Spending.TRAINING]
    limits, would = ("limited", "would have changed") if known.over else ("limits", "would change")
    if training >= _ENOUGH:
        works = "worked" if known.over else "works"
        return Limit(
            Spending.TRAINING,
            training,
            f"Training itself {limits} the run: the trainer {works} {_percent(training)} of its "
            f"time. {_training_remedy(known)} {would} that; more workers would not"
            f"{' have' if known.over else ''}.",
        )
    waits = {what: share for what, share in parts.items() if what is not Spending.TRAINING}
    worst = max(waits, key=lambda what: waits[what])
    what, remedy = _words(worst, known)
    waited = "waited" if known.over else "waits"
    return Limit(
        worst,
        waits[worst],
        f"{what} {limits} the run: the trainer {waited} for it {_percent(waits[worst])} of its "
        f"time. {remedy} {would} that.",
    )


def _too_little(known: Circumstances) -> str:
    if known.over:
        return "The run ended too early to say what limited it."
    return "Too little has happened yet to say what limits the run."


def _words(what: Spending, known: Circumstances) -> tuple[str, str]:
    match what:
        case Spending.STORAGE:
            faster = "A faster drive for the dataset or the batches"
            packed = "" if known.storage == "packed" else ", or a packed dataset"
            return "Storage", f"{faster}{packed}"
        case Spending.NETWORK:
            return "The network", "A store that the trainer's host sees, or compression"
        case Spending.DECODE:
            return "Decoding on the host", _decode_remedy(known)
        case Spending.CSD:
            return "The drive's processor", _csd_remedy(known)
        case Spending.TRANSFER:
            return "Making tensors", _transfer_remedy(known)
        case Spending.SCHEDULING:
            if known.paused:
                return "The pause", "Resuming it"
            return "Giving work out", "Larger batches or a larger window"
        case _:
            return "Starting up", "A longer run"


def _decode_remedy(known: Circumstances) -> str:
    ways = ["More CPU workers"]
    if known.storage != "packed":
        ways.append("packed records")
    if known.strategy == "cpu":
        if known.has_csd:
            ways.append("the strategy wrr, which has the drives work too")
    elif not known.has_csd:
        ways.append("a drive as the second prong")
    return " or ".join(ways) if len(ways) < 3 else f"{ways[0]}, {ways[1]} or {ways[2]}"


def _training_remedy(known: Circumstances) -> str:
    return "A faster model or an accelerator" if known.on_cpu else "A faster model or accelerator"


def _transfer_remedy(known: Circumstances) -> str:
    if known.on_cpu:
        return "normalize=False, smaller pictures, or more cores for the trainer"
    if known.on_cuda and known.has_csd:
        return "Normalising on the device, or GPUDirect Storage"
    return "Normalising on the device"


def _csd_remedy(known: Circumstances) -> str:
    if known.strategy == "wrr":
        return "More or faster drives, or more CPU workers"
    return "The strategy wrr, which does not wait for one side, or more drives"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
