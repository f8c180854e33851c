"""The commands that look after what `ddlp up` started: status, logs and down."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ddlp.cli import ask
from ddlp.cli.output import show
from ddlp.core.settings import load_settings

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Url = Annotated[str | None, typer.Option(help="The server's address (DDLP_URL).")]
Home = Annotated[Path | None, typer.Option(help="Home folder of `ddlp up` (DDLP_HOME).")]


def status(home: Home = None, url: Url = None, as_json: Json = False) -> None:
    """Show server, devices, queue and the runs under way on one screen."""
    from ddlp.cli.running import find_running
    from ddlp.cli.status import print_status, read_status
    from ddlp.core.home_lock import read_lock

    if home is not None and url is None:
        url = find_running(home.absolute()).url
    with ask.client(url) as client:
        found = read_status(client)
    local = read_lock(load_settings(home=home).home)
    mine = local is not None and local.lives and local.url == found["server"]
    process = local.pid if local is not None and mine else None
    if as_json:
        show({**found, "process": process}, as_json)
    else:
        print_status(found, process)


def logs(
    part: Annotated[
        str | None, typer.Argument(help="server, redis, cpu or csd0; all parts by default.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Last lines per part.")] = 50,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show what the parts that `ddlp up` started have logged."""
    from ddlp.cli.log_files import last_lines, log_files, new_lines

    files = log_files(load_settings(home=home).home, part)
    width = max(map(len, files))

    def say(name: str, line: str) -> None:
        said = json.dumps({"part": name, "line": line}) if as_json else f"{name:<{width}} | {line}"
        print(said, flush=True)

    for entry in last_lines(files, lines):
        say(*entry)
    if follow:
        for entry in new_lines(files):
            say(*entry)


def down(home: Home = None, as_json: Json = False) -> None:
    """End what `ddlp up` started on a home folder, all parts together."""
    from ddlp.cli.running import end

    place = load_settings(home=home).home.absolute()
    ended = end(place)
    show({"ended": str(place), "process": ended.pid}, as_json)
