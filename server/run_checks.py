"""Checks what a run would be made of, field by field, without making it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from sqlalchemy import select
from sqlalchemy.orm import Session

from ddlp.core.errors import DdlpError, InvalidInput
from ddlp.core.messages import DeviceInfo, RunCreate
from ddlp.core.messages.outlook import FieldProblem
from ddlp.core.pipeline import Pipeline
from ddlp.core.plan import RunPlan
from ddlp.core.schedule import CHOICES, strategy
from ddlp.server import datasets, pipelines, runs
from ddlp.server.models import Dataset, Run

_WORDS = {
    "missing": "it is needed",
    "int_parsing": "write a whole number",
    "int_type": "write a whole number",
    "int_from_float": "write a whole number",
    "float_parsing": "write a number",
    "float_type": "write a number",
    "finite_number": "write a number",
    "greater_than": "it must be more than {gt}",
    "greater_than_equal": "it must be at least {ge}",
    "less_than": "it must be less than {lt}",
    "less_than_equal": "it must be at most {le}",
    "string_pattern_mismatch": "use letters, digits, dots, dashes and underscores; at most 64, "
    "and a letter or a digit first",
    "extra_forbidden": "a run has no such field",
}


class RunDraft(RunCreate):
    """A run as a form says it: numbers may be text, as they are typed."""

    strict_numbers = False


@dataclass
class Checked:
    """What was asked for, as far as it can be used, and what stands in its way."""

    body: RunCreate | None = None
    dataset: Dataset | None = None
    pipeline: Pipeline | None = None
    plan: RunPlan | None = None
    problems: list[FieldProblem] = field(default_factory=list)

    def object_to(self, name: str, problem: str) -> None:
        """Note a problem."""
        self.problems.append(FieldProblem(field=name, problem=problem))


def check(session: Session, raw: Mapping[str, Any], devices: list[DeviceInfo]) -> Checked:
    """Look at every field of a body for `POST /runs`; nothing is raised and nothing made."""
    found = Checked()
    found.body = _parsed(raw, found)
    if found.body is None:
        return found
    _check_name(session, found)
    _check_strategy(found)
    _find(session, found)
    if found.dataset is not None and found.pipeline is not None:
        _check_sizes(found, devices)
    return found


def _parsed(raw: Mapping[str, Any], found: Checked) -> RunCreate | None:
    """The body; a name that cannot be used is no reason to say nothing of the rest."""
    try:
        return RunDraft.model_validate(dict(raw))
    except ValidationError as error:
        for entry in error.errors():
            found.object_to(str(entry["loc"][0]) if entry["loc"] else "body", _words(entry))
    if {problem.field for problem in found.problems} == {"name"}:
        return RunDraft.model_validate({k: v for k, v in raw.items() if k != "name"})
    return None


def _words(error: ErrorDetails) -> str:
    words = _WORDS.get(error["type"])
    if words:
        return words.format(**error.get("ctx", {}))
    return error["msg"].removeprefix("Value error, ")


def _check_name(session: Session, found: Checked) -> None:
    assert found.body is not None
    name = found.body.name
    if name is not None and session.scalar(select(Run.id).where(Run.name == name)) is not None:
        found.object_to("name", f"there is a run {name} already; choose another name")


def _check_strategy(found: Checked) -> None:
    assert found.body is not None
    try:
        strategy(found.body.strategy, found.body.reorder_window)
    except InvalidInput as error:
        known = found.body.strategy in CHOICES
        found.object_to("reorder_window" if known else "strategy", str(error))


def _find(session: Session, found: Checked) -> None:
    assert found.body is not None
    try:
        found.dataset = datasets.find_ready(session, found.body.dataset)
    except DdlpError as error:
        found.object_to("dataset", str(error))
    try:
        found.pipeline = pipelines.find(session, found.body.pipeline)
    except DdlpError as error:
        found.object_to("pipeline", str(error))


def _check_sizes(found: Checked, devices: list[DeviceInfo]) -> None:
    """What depends on the dataset and on the pipeline's output."""
    body, dataset, pipeline = found.body, found.dataset, found.pipeline
    assert body is not None
    assert dataset is not None
    assert pipeline is not None
    plan = RunPlan(
        samples=dataset.samples,
        batch_size=body.batch_size,
        epochs=body.epochs,
        seed=body.seed,
        world_size=body.world_size or 1,
        tail=body.tail,
    )
    try:
        runs.check_batch_size(dataset, body.batch_size)
    except InvalidInput as error:
        return found.object_to("batch_size", str(error))
    try:
        runs.check_world(plan)
    except InvalidInput as error:
        return found.object_to("world_size", str(error))
    found.plan = plan
    if body.strategy in CHOICES:
        _check_room(found, body, pipeline, devices)
    return None


def _check_room(
    found: Checked, body: RunCreate, pipeline: Pipeline, devices: list[DeviceInfo]
) -> None:
    draft = Run(
        transforms=pipeline.spec.transforms, batch_size=body.batch_size, strategy=body.strategy
    )
    try:
        runs.check_room(draft, devices)
    except DdlpError as error:
        found.object_to("batch_size", str(error))
