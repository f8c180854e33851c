"""The commands for keys: one line a command here, the work elsewhere."""

from typing import Annotated
from urllib.parse import quote

import typer

from ddlp.cli import ask
from ddlp.cli.output import show
from ddlp.core.types import Scope

keys = typer.Typer(help="Keys.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Url = Annotated[str | None, typer.Option(help="The server's address (DDLP_URL).")]
Local = Annotated[
    bool,
    typer.Option(
        "--local",
        help="Do it in the database that the settings name, without the server and without a key.",
    ),
]


@keys.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Who or what will use it.")],
    scope: Annotated[
        Scope, typer.Option(help="read sees, work also makes and fetches batches, admin does all.")
    ] = Scope.READ,
    local: Local = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Make a key and show it, this once and never again; the first one with --local."""
    if local:
        from ddlp.cli import keys_locally

        made = keys_locally.create(name, scope)
    else:
        made = ask.make(url, "/keys", {"name": name, "scope": scope.value})
    show(made, as_json)


@keys.command("list")
def list_all(local: Local = False, url: Url = None, as_json: Json = False) -> None:
    """All keys there are and were, without what makes them keys."""
    if local:
        from ddlp.cli import keys_locally

        found = keys_locally.list_all()
    else:
        found = ask.get(url, "/keys")
    show(found, as_json, ["name", "scope", "created_at", "last_used_at", "revoked_at"])


@keys.command("revoke")
def revoke(
    name: Annotated[str, typer.Argument(help="Name of a key.")],
    local: Local = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Refuse a key from now on, for good."""
    if local:
        from ddlp.cli import keys_locally

        ended = keys_locally.revoke(name)
    else:
        ended = ask.post(url, f"/keys/{quote(name, safe='')}/revoke", {})
    show(ended, as_json)
