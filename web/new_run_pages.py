"""The page on which runs are made, and what it asks for while somebody types."""

from collections.abc import Mapping

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse
from sqlalchemy import select
from sqlalchemy.orm import Session

from ddlp.core.messages import DatasetInfo
from ddlp.core.schedule import CHOICES
from ddlp.core.schedule.limits import usual_bad_share
from ddlp.core.types import DatasetState
from ddlp.server import (
    datasets,
    outlooks,
    pictures,
    pipelines,
    run_clones,
    run_names,
    runs,
    versions,
)
from ddlp.server.context import Context, ContextDep, SessionDep
from ddlp.server.models import Dataset, Run
from ddlp.server.parameters import Epoch, Seed
from ddlp.server.routes.datasets import find_preview, info
from ddlp.server.security import refuse_cross_site
from ddlp.web.new_run_views import (
    DEFAULTS,
    PreviewView,
    body_of,
    command_of,
    drawn_rows,
    form_view,
    preview_view,
    text_of,
    values_of,
)
from ddlp.web.outlook_views import CheckView, check_view
from ddlp.web.templating import templates

router = APIRouter(prefix="/runs/new", include_in_schema=False)


@router.get("")
def new_run(
    request: Request,
    session: SessionDep,
    context: ContextDep,
    clone: str | None = None,
    epoch: Epoch = 0,
) -> HTMLResponse:
    """The form, filled from the query and from the run that is cloned."""
    copied, notices = _cloned(session, clone) if clone else ({}, [])
    values = values_of(request.query_params, copied)
    every = [info(context, row) for row in _choices(session, values["dataset"], clone)]
    if not values["dataset"]:
        values["dataset"] = _usual_dataset(session, every)
    check, preview = _checked(session, context, values, epoch)
    return templates.TemplateResponse(
        request,
        "new_run.html",
        {
            "form": form_view(
                values, every, pipelines.list_all(session), context.settings, notices
            ),
            "ready": any(entry.state is DatasetState.READY for entry in every),
            "check": check,
            "preview": preview,
            "fields": sorted(DEFAULTS),
        },
    )


@router.get("/check")
def check_run(
    request: Request, session: SessionDep, context: ContextDep, epoch: Epoch = 0
) -> HTMLResponse:
    """What is wrong with the form as it stands, and what the run would come to."""
    values = values_of(request.query_params, dict.fromkeys(DEFAULTS, ""))
    check, preview = _checked(session, context, values, epoch)
    found = {"check": check, "preview": preview, "fields": sorted(DEFAULTS)}
    return templates.TemplateResponse(request, "new_run/check.html", found)


@router.get("/drawn", dependencies=[Depends(refuse_cross_site)])
def drawn(
    request: Request,
    context: ContextDep,
    dataset: str,
    pipeline: str,
    samples: str,
    seed: Seed = 0,
    epoch: Epoch = 0,
) -> HTMLResponse:
    """What chance decides for the samples of a preview."""
    asked = find_preview(dataset, context, pipeline, samples, seed, epoch)
    rows = drawn_rows(pictures.explain(asked))
    return templates.TemplateResponse(request, "new_run/drawn.html", {"rows": rows, "epoch": epoch})


def _checked(
    session: Session, context: Context, values: Mapping[str, str], epoch: int
) -> tuple[CheckView, PreviewView | None]:
    now = context.dispatcher.now()
    found = outlooks.forecast(session, context.settings, body_of(values), now)
    check = check_view(found, command_of(values), set(DEFAULTS))
    wrong = {entry.field for entry in found.problems}
    if wrong & {"dataset", "pipeline", "seed"} or not values["dataset"]:
        return check, None
    row = datasets.find(session, values["dataset"])
    return check, preview_view(values, row.samples, epoch) if row.samples else None


def _choices(session: Session, chosen: str, clone: str | None) -> list[Dataset]:
    """The datasets to choose from: those listed, and versions that are asked for."""
    listed = datasets.list_all(session)
    asked = [versions.find(session, chosen)] if "@" in chosen else []
    if clone:
        run = runs.find(session, clone)
        asked.append(versions.of_version(session, run.dataset, run.dataset_version))
    known = {row.id for row in listed}
    return listed + [row for row in asked if row is not None and row.id not in known]


def _usual_dataset(session: Session, every: list[DatasetInfo]) -> str:
    """The dataset of the newest run if it can be used, else the newest that can."""
    ready = {entry.name: entry.created_at for entry in every if entry.state is DatasetState.READY}
    last = session.scalar(select(Run.dataset).order_by(Run.created_at.desc()).limit(1))
    if last in ready:
        return last
    return max(ready, key=lambda name: ready[name], default="")


def _cloned(session: Session, ref: str) -> tuple[dict[str, str], list[str]]:
    """All that decides a run, to make another one like it, and what is not as it was."""
    run = runs.find(session, ref)
    copied = {name: text_of(value) for name, value in run_clones.settings_of(run).items()}
    if run.max_bad_share == usual_bad_share(run.samples):
        copied.pop("max_bad_share", None)
    notices = [f"Cloned from {run.name}. Change what should differ, then create it."]
    if run.strategy not in CHOICES:
        copied["strategy"] = DEFAULTS["strategy"]
        notices.append(f"{run.name} replays another run; its clone uses {DEFAULTS['strategy']}.")
    notices += _changes(session, run)
    return {**copied, "name": run_names.following(session, run.name)}, notices


def _changes(session: Session, run: Run) -> list[str]:
    """What a run was made from that is not there any more as it was."""
    found = []
    row = versions.find(session, run.dataset)
    if row is None:
        found.append(f"Dataset {run.dataset} was removed since: choose another one.")
    elif row.version != run.dataset_version:
        before = versions.of_version(session, run.dataset, run.dataset_version)
        kept = f" To use those of then, choose {before.name}." if before is not None else ""
        found.append(f"Dataset {run.dataset} has changed since: its images are not the same.{kept}")
    pipeline = next((p for p in pipelines.list_all(session) if p.name == run.pipeline), None)
    if pipeline is None:
        found.append(f"Pipeline {run.pipeline} is not there any more: choose another one.")
    elif pipeline.hash != run.pipeline_hash:
        found.append(f"Pipeline {run.pipeline} makes other bytes now than it did then.")
    return found
