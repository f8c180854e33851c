"""The tables of a run as files."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import StreamingResponse

from ddlp.core.errors import Conflict
from ddlp.core.tables import Form
from ddlp.server import exports
from ddlp.server.context import ContextDep, find_run
from ddlp.server.exports import Export, What
from ddlp.server.parameters import RunRef
from ddlp.server.security import refuse_cross_site

router = APIRouter(prefix="/runs", tags=["exports"])


@router.get(
    "/{ref}/export", response_class=StreamingResponse, dependencies=[Depends(refuse_cross_site)]
)
async def export(
    ref: RunRef,
    context: ContextDep,
    what: What = What.BATCHES,
    form: Annotated[Form, Query(alias="format")] = Form.CSV,
    period: Annotated[
        int | None,
        Query(
            ge=1,
            le=60,
            description="For series: 1, 10 or 60 seconds; the finest that is whole by default.",
        ),
    ] = None,
) -> StreamingResponse:
    """Batches, figures over time, epochs, bad samples or reads of a run as a file."""
    run = await find_run(context, ref)
    if what is What.BATCHES and run.details_removed_at is not None:
        raise Conflict(
            f"the batches of run {run.name} were removed (DDLP_KEEP_RUN_DETAILS_D); its "
            "certificates and totals are kept"
        )
    table = exports.table(context.database, Export(run.id, what, period))
    name = exports.file_name(run.name, what, form)
    return StreamingResponse(
        exports.chunks(table, form),
        media_type=form.media_type,
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            "Cache-Control": "no-store",
        },
    )
