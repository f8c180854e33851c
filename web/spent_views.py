"""View models of where the trainer's time goes: a bar whose parts sum to the whole, and words."""

from collections.abc import Mapping
from dataclasses import dataclass

from ddlp.core.stalls import shares
from ddlp.core.types import Spending
from ddlp.core.units import duration

SCALE = 1000
"""Width of the bar, in its own units."""

WORDS = {
    Spending.TRAINING: "training",
    Spending.STORAGE: "waiting for storage",
    Spending.NETWORK: "waiting for the network",
    Spending.DECODE: "waiting for decoding",
    Spending.CSD: "waiting for the CSD",
    Spending.TRANSFER: "waiting for tensors",
    Spending.SCHEDULING: "waiting for scheduling",
    Spending.STARTUP: "starting up",
}


@dataclass(frozen=True)
class SpentPart:
    """One part of the trainer's time."""

    kind: str
    words: str
    percent: str
    x: float
    width: float


@dataclass(frozen=True)
class SpentView:
    """All of it."""

    title: str
    sentence: str
    parts: list[SpentPart]
    legend: list[tuple[str, str, str]]
    """Kind, words and percent of everything there is, so that nothing moves when a part comes."""
    summary: str


def spent_view(spent_s: Mapping[Spending, float], sentence: str, live: bool) -> SpentView:
    """The parts side by side, each beginning exactly where its neighbour ends."""
    total_s = sum(spent_s.values())
    when = "in the last seconds" if live else f"over {duration(total_s)}"
    parts: list[SpentPart] = []
    edge = 0.0
    for what, share in shares(spent_s).items():
        if share > 0:
            left, edge = edge, edge + share
            x, end = round(SCALE * left, 1), round(SCALE * edge, 1)
            parts.append(SpentPart(what.value, WORDS[what], _percent(share), x, round(end - x, 1)))
    summary = ", ".join(f"{part.words} {part.percent}" for part in parts)
    title = "Where the trainer's time goes"
    return SpentView(
        title=f"{title} · {when}" if parts else title,
        sentence=sentence,
        parts=parts,
        legend=_legend(parts),
        summary=summary or "no trainer asked for a batch",
    )


def _legend(parts: list[SpentPart]) -> list[tuple[str, str, str]]:
    known = {part.kind: part.percent for part in parts}
    nothing = "0 %" if parts else "—"
    return [(what.value, words, known.get(what.value, nothing)) for what, words in WORDS.items()]


def _percent(share: float) -> str:
    return "< 0.1 %" if share < 0.001 else f"{100 * share:.1f} %"
