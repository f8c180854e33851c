"""The whole application: the API with its pages, and what a browser may load."""

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ddlp.server import problems
from ddlp.server.app import create_api
from ddlp.server.context import Context
from ddlp.web import (
    audit_pages,
    compare_pages,
    data_pages,
    device_pages,
    first_start_pages,
    key_pages,
    new_run_pages,
    run_list_pages,
    run_pages,
)
from ddlp.web.fingerprint import STATIC
from ddlp.web.live import Hub
from ddlp.web.templating import templates

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_WORTH_BYTES = 1000


def create_app(context: Context) -> FastAPI:
    """Pages over the API; nothing is loaded from other hosts."""
    app = create_api(context)
    app.state.hub = Hub()
    # Routes are tried one after the other: a run's own name comes last.
    for routes in (
        run_list_pages,
        compare_pages,
        data_pages,
        first_start_pages,
        key_pages,
        new_run_pages,
        device_pages,
        audit_pages,
        run_pages,
    ):
        app.include_router(routes.router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    for kind in problems.TOLD:
        app.add_exception_handler(kind, _explain)
    app.add_middleware(_Headers)
    app.add_middleware(_Compressed)
    return app


async def _explain(request: Request, error: Exception) -> Response:
    """Errors as a page for people, as problem details for programs."""
    if request.url.path.startswith("/api/") or "text/html" not in request.headers.get("accept", ""):
        return await problems.tell(request, error)
    told = problems.error_of(request, error)
    status, message = told.status, str(told)
    page: HTMLResponse = templates.TemplateResponse(
        request, "error.html", {"status": status, "message": message}, status_code=status
    )
    return page


class _Compressed:
    """ASGI middleware that compresses pages and their files, not the API and its large ones."""

    def __init__(self, app: ASGIApp) -> None:
        self._plain = app
        self._small = GZipMiddleware(app, minimum_size=_WORTH_BYTES, compresslevel=5)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        api = scope.get("path", "").startswith("/api/")
        await (self._plain if api else self._small)(scope, receive, send)


class _Headers:
    """ASGI middleware that tells browsers what a page may load."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Content-Security-Policy"] = _POLICY
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "no-referrer"
                if scope["path"].startswith("/static/") and b"v=" in scope["query_string"]:
                    headers["Cache-Control"] = "public, max-age=31536000, immutable"
            await send(message)

        await self._app(scope, receive, send_with_headers)
