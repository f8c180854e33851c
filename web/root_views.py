"""View models of the folders that datasets may be read from."""

from dataclasses import dataclass
from urllib.parse import quote

from ddlp.core.messages.roots import RootInfo
from ddlp.core.types import RootState
from ddlp.server.run_names import named

_STATES = {
    RootState.AVAILABLE: "",
    RootState.MISSING: "The folder does not exist. Mount the drive, or remove the folder.",
    RootState.UNREADABLE: "The server cannot read it. Check its permissions.",
}


@dataclass(frozen=True)
class RootRow:
    """An allowed folder."""

    path: str
    from_settings: bool
    added_at: float | None
    added_by: str | None
    state: str
    problem: str
    datasets: str
    address: str | None
    """What removes it, as method and path; None if only a restart does."""
    question: str


def root_rows(found: list[RootInfo]) -> list[RootRow]:
    """All allowed folders."""
    return [_row(info, [other for other in found if other is not info]) for info in found]


def _row(info: RootInfo, others: list[RootInfo]) -> RootRow:
    return RootRow(
        path=info.path,
        from_settings=info.from_settings,
        added_at=info.added_at,
        added_by=info.added_by,
        state=info.state.value,
        problem=_STATES[info.state],
        datasets=named(info.datasets) or "—",
        address=None if info.added_at is None else f"DELETE /api/v1/roots?path={quote(info.path)}",
        question=_question(info, others),
    )


def _question(info: RootInfo, others: list[RootInfo]) -> str:
    """The question before it is removed: what is lost by it."""
    kept = {name for other in others for name in other.datasets}
    lost = [name for name in info.datasets if name not in kept and not info.from_settings]
    if not lost:
        return f"Remove {info.path} from the allowed folders? Its files stay where they are."
    return (
        f"Remove {info.path} from the allowed folders? These datasets below it stay registered "
        f"and can be trained on, but not scanned again: {named(lost)}."
    )
