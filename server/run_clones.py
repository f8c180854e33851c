"""Makes runs like others: new ones with the same settings, as far as nothing else is asked for."""

from typing import Any

from sqlalchemy.orm import Session

from ddlp.core.errors import Conflict
from ddlp.core.messages import RunClone, RunCreate
from ddlp.core.schedule import CHOICES
from ddlp.server import run_names, runs
from ddlp.server.models import Run


def create_clone(session: Session, ref: str, body: RunClone) -> Run:
    """A new run with the settings of another one, over what its names mean today."""
    source = runs.find(session, ref)
    given = body.model_dump(exclude_unset=True)
    wanted = {**settings_of(source), "name": run_names.following(session, source.name), **given}
    if wanted["strategy"] not in CHOICES:
        raise Conflict(
            f"run {source.name} replays another run; repeat it with: ddlp replay {source.name}, or "
            f"choose a strategy for the clone: ddlp run clone {source.name} --strategy wrr"
        )
    if "strategy" in given and "reorder_window" not in given:
        wanted["reorder_window"] = None  # it belongs to the strategy of before
    return runs.create(session, RunCreate(**wanted), clone_of=source.name)


def settings_of(run: Run) -> dict[str, Any]:
    """What a run would be created with to be like this one; its name is its own."""
    names = RunCreate.model_fields.keys() - {"name"}
    copied = {name: getattr(run, name) for name in names}
    return copied | {"world_size": run.world_size if run.fixed_ranks else None}
