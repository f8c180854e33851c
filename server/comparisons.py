"""Compares runs: what was different, and what that changed."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from ddlp.core.comparison import Group, Measured, compare
from ddlp.core.errors import InvalidInput
from ddlp.core.messages.comparison import (
    ComparisonInfo,
    DifferenceInfo,
    FigureInfo,
    GroupInfo,
)
from ddlp.server import reports, runs


def compare_runs(session: Session, names: Sequence[str]) -> ComparisonInfo:
    """Runs by name or id; those whose conditions are equal are repeats of each other."""
    rows = [runs.find(session, name) for name in names]
    if len({row.id for row in rows}) < len(rows):
        raise InvalidInput("a run is named twice; name each one once")
    measured = []
    for row in rows:
        conditions = reports.conditions(row)
        found = reports.figures_of(runs.report(session, row))
        measured.append(Measured(row.name, "\n".join(conditions.values()), found, conditions))
    found_groups = compare(measured)
    return ComparisonInfo(
        groups=[_group(group) for group in found_groups.groups],
        differences=[
            DifferenceInfo(condition=entry.condition, values=list(entry.values))
            for entry in found_groups.differences
        ],
    )


def _group(group: Group) -> GroupInfo:
    figures = {}
    for name, estimate in group.figures.items():
        change = group.changes.get(name)
        figures[name] = FigureInfo(
            n=estimate.n,
            mean=estimate.mean,
            half_interval=estimate.half,
            change=change.relative if change else None,
            change_low=change.low if change else None,
            change_high=change.high if change else None,
            clear=bool(change and change.clear),
        )
    return GroupInfo(runs=list(group.runs), figures=figures)
