"""The page of devices: what is registered, what it does now, and the meters of hosts."""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from starlette.concurrency import run_in_threadpool

from ddlp.core.messages.reports import HostMeterInfo
from ddlp.server import reports
from ddlp.server.context import ContextDep
from ddlp.server.routes.devices import read_all
from ddlp.web.device_views import device_view, meter_view
from ddlp.web.templating import templates

router = APIRouter(include_in_schema=False)


@router.get("/devices")
async def index(request: Request, context: ContextDep) -> HTMLResponse:
    """All devices and meters."""

    def read_meters() -> list[HostMeterInfo]:
        with context.database.session() as session:
            return reports.hosts(session)

    values = {
        "devices": [device_view(info) for info in await read_all(context)],
        "meters": [meter_view(info) for info in await run_in_threadpool(read_meters)],
    }
    return templates.TemplateResponse(request, "devices.html", values)
