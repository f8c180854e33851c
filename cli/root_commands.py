"""The commands for allowed folders: one line a command here, the work on the server."""

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from ddlp.cli import ask
from ddlp.cli.output import show
from ddlp.core.urls import refuse_address

roots = typer.Typer(help="Folders that datasets may be read from.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(help="A folder on the server.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Url = Annotated[str | None, typer.Option(help="The server's address (DDLP_URL).")]


@roots.command("list")
def list_all(url: Url = None, as_json: Json = False) -> None:
    """List the folders that datasets may be read from."""
    columns = ["path", "from_settings", "added_at", "added_by", "state", "datasets"]
    show(ask.get(url, "/roots"), as_json, columns)


@roots.command("add")
def add(
    folder: Folder,
    force: Annotated[
        bool, typer.Option("--force", help="Allow even /: every file that the server can read.")
    ] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Allow a folder, immediately and after restarts; adding it twice is harmless."""
    _say(ask.make(url, "/roots", {"path": _absolute(folder), "force": force}), as_json)


@roots.command("remove")
def remove(folder: Folder, url: Url = None, as_json: Json = False) -> None:
    """Remove a folder that was added; datasets below it stay registered."""
    _say(ask.delete(url, f"/roots?path={quote(_absolute(folder))}"), as_json)


def _absolute(folder: Path) -> str:
    refuse_address(folder)
    return str(folder.absolute())


def _say(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        show(answer, as_json)
    else:
        print(answer["note"])
