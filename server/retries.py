"""Runs that are tried again: as new ones, since a run ends once."""

import re

from sqlalchemy.orm import Session

from ddlp.core.errors import Conflict, NotFound
from ddlp.core.lifecycle import ACTIVE
from ddlp.core.messages import RetryCreate
from ddlp.core.pipeline import Pipeline, PipelineSpec
from ddlp.core.types import RunState
from ddlp.server import datasets, run_names, runs, versions
from ddlp.server.board import run_strategy
from ddlp.server.ledger import audit
from ddlp.server.models import Dataset, Run


def create_retry(session: Session, ref: str, body: RetryCreate) -> Run:
    """A new run with everything that decided one that failed or was cancelled."""
    source = runs.find(session, ref)
    _check_over(source)
    dataset = _find_dataset(session, source)
    _check_pipeline(source)
    run_strategy(session, source)  # what it replays may be gone
    row = runs.made_like(
        source,
        name=body.name or _free_name(session, source),
        dataset_id=dataset.id,
        dataset=versions.base_name(dataset.name),
        storage=dataset.kind,
        strategy=source.strategy,
        reorder_window=source.reorder_window,
        replay_of=source.replay_of,
        retry_of=source.id,
    )
    runs.add(session, row)
    audit(session, "run.retry", row.name, row.created_at, of=source.name)
    return row


def _check_over(source: Run) -> None:
    state = RunState(source.state)
    if state in ACTIVE:
        raise Conflict(
            f"run {source.name} is {state.value}; wait until it is over, "
            f"or end it with: ddlp run cancel {source.name}"
        )
    if state is RunState.COMPLETED:
        raise Conflict(
            f"run {source.name} was completed, so there is nothing to try again; make another "
            f"like it with: ddlp run clone {source.name}, give it more epochs with: "
            f"ddlp run extend {source.name} --epochs {(source.epochs or 0) + 1}, or deliver "
            f"its batches once more with: ddlp replay {source.name}"
        )


def _find_dataset(session: Session, source: Run) -> Dataset:
    """The dataset of a run, if it is the same still; one that was added anew may be."""
    known = session.get(Dataset, source.dataset_id) if source.dataset_id else None
    try:
        known = known or versions.of_version(session, source.dataset, source.dataset_version)
        found = datasets.find_ready(session, known.name if known else source.dataset)
    except NotFound as error:
        raise NotFound(
            f"dataset {source.dataset} of run {source.name} was removed; add it again with: "
            "ddlp dataset add"
        ) from error
    if found.version != source.dataset_version:
        raise Conflict(
            f"dataset {found.name} has another version now ({found.version[:12]}, "
            f"not {source.dataset_version[:12]}), so run {source.name} cannot be tried again; "
            f"make a new one with: ddlp run create {found.name}"
        )
    return found


def _check_pipeline(source: Run) -> None:
    pipeline = Pipeline.parse(PipelineSpec(transforms=source.transforms))
    if pipeline.hash != source.pipeline_hash:
        raise Conflict(
            f"pipeline {source.pipeline} makes other bytes in this version of DDLP "
            f"({pipeline.hash[:12]}, not {source.pipeline_hash[:12]}), so run {source.name} cannot "
            f"be tried again; make a new one with: ddlp run create {source.dataset}"
        )


def _free_name(session: Session, source: Run) -> str:
    """The old name with the next free number: a third attempt is NAME-3, not NAME-2-2."""
    counted = re.fullmatch(r"(.+)-\d+", source.name) if source.retry_of is not None else None
    known = counted is not None and run_names.is_taken(session, counted[1])
    return run_names.numbered(session, counted[1] if counted and known else source.name)
