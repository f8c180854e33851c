"""The first start, as it stands on pages that have nothing to show yet."""

from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from ddlp.server.context import ContextDep
from ddlp.web.first_start_views import demo_view
from ddlp.web.templating import templates

router = APIRouter(include_in_schema=False)


@router.get("/first-start")
def first_start(request: Request, context: ContextDep, following: str = "") -> HTMLResponse:
    """The offer, or how far it is; whoever follows it is sent to the run once that is there."""
    info = context.demo.info()
    answer: HTMLResponse = templates.TemplateResponse(
        request, "first_start.html", {"demo": demo_view(info)}
    )
    if following and info.run is not None:
        answer.headers["HX-Redirect"] = f"/runs/{quote(info.run)}"
    return answer
