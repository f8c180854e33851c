"""Templates, and the few words that every one of them may use."""

from datetime import UTC, datetime
from pathlib import Path

from fastapi.templating import Jinja2Templates
from markupsafe import Markup
from starlette.requests import Request

from ddlp.server import identity
from ddlp.web.fingerprint import static_url


def _who(_: Request) -> dict[str, str | None]:
    """Who is signed in, for the head of every page."""
    found = identity.current()
    return {"signed_in": None if found is None else found.name}


templates = Jinja2Templates(Path(__file__).parent / "templates", context_processors=[_who])
templates.env.trim_blocks = templates.env.lstrip_blocks = True


def exact(at: float) -> str:
    """A time to the second."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def when(at: float | None, style: str = "ago") -> Markup:
    """A time as an element that the browser words in the reader's zone: `ago`, `at` or `exact`."""
    if at is None:
        return Markup("—")
    moment = datetime.fromtimestamp(at, UTC)
    return Markup('<time datetime="{}" title="{}" data-as="{}">{}</time>').format(
        moment.isoformat(timespec="seconds"),
        exact(at),
        style,
        moment.strftime("%Y-%m-%d %H:%M"),
    )


templates.env.globals["when"] = when
templates.env.globals["static"] = static_url
