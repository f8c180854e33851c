"""The commands that pack and unpack datasets: one line a command here, the work elsewhere."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ddlp.cli import ask
from ddlp.cli.output import show
from ddlp.core.errors import InvalidInput
from ddlp.core.types import Prong
from ddlp.core.urls import refuse_address

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Url = Annotated[str | None, typer.Option(help="The server's address (DDLP_URL).")]
_TIMEOUT_S = 120.0
"""Before it answers, the server tries how large the shards will be."""


class OnBad(StrEnum):
    """What a sample that cannot be read does to a packing."""

    FAIL = "fail"
    SKIP = "skip"


def pack(
    dataset: Annotated[str, typer.Argument(help="Name of a dataset; with --local, its path.")],
    name: Annotated[str | None, typer.Option(help="A name; DATASET-packed if left out.")] = None,
    into: Annotated[
        Path | None, typer.Option(help="Folder for the shards; one of the server's if left out.")
    ] = None,
    on: Annotated[Prong, typer.Option(help="Whose processors pack.")] = Prong.CPU,
    max_side: Annotated[
        int | None, typer.Option(min=1, help="Make larger pictures smaller; pixels are lost.")
    ] = None,
    quality: Annotated[
        int | None, typer.Option(min=1, max=100, help="Encode pictures anew; pixels are lost.")
    ] = None,
    keep_heads: Annotated[
        bool, typer.Option("--keep-heads", help="Keep EXIF data, profiles and comments.")
    ] = False,
    on_bad: Annotated[
        OnBad, typer.Option(help="What a sample that cannot be read does.")
    ] = OnBad.FAIL,
    forecast: Annotated[
        bool, typer.Option("--forecast", help="Only say what it would come to.")
    ] = False,
    local: Annotated[
        bool, typer.Option("--local", help="Pack here, without a server; needs --into.")
    ] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, help="With --local; as many as cores if left out.")
    ] = None,
    wait: Annotated[bool, typer.Option(help="Wait for its end.")] = True,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Store a dataset in a form that decodes several times faster, with the same pixels."""
    from ddlp.cli import pack as packing
    from ddlp.cli import pack_locally

    for place in (dataset, into or ""):
        refuse_address(place)
    choice = {
        "max_side": max_side,
        "quality": quality,
        "keep_heads": keep_heads,
        "on_bad": on_bad.value,
    }
    if local:
        if name is not None or on is not Prong.CPU:
            raise InvalidInput("--name and --on are for a server, not for --local")
        job = pack_locally.Job(Path(dataset), into, choice, processes)
        if forecast:
            _say(job.forecast(), as_json)
        else:
            show(job.pack(), as_json)
        return
    _check_for_server(dataset, processes)
    with ask.client(url, _TIMEOUT_S) as client:
        wish = packing.Wish(client, dataset, choice, on)
        if forecast:
            _say(wish.forecast(), as_json)
            return
        info = wish.begin(name, into)
        if wait and info["state"] == "packing" and _is_followed():
            print("\n".join(packing.expectation(info["packing"])), file=sys.stderr)
        if wait:
            info = packing.follow(client, info["name"])
    if not as_json:
        info = packing.summary(info) if wait else packing.described(info)
    show(info, as_json)


def unpack(
    packed: Annotated[str, typer.Argument(help="A folder of shards, or the name of a dataset.")],
    into: Annotated[Path, typer.Option(help="Folder for the files; empty, or not there yet.")],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Make image files of a packed dataset again: CLASS/NAME, with the same pixels."""
    from ddlp.cli.unpack import find_folder, unpack_locally

    for place in (packed, into):
        refuse_address(place)
    folder = Path(packed)
    if not folder.is_dir():
        folder = find_folder(ask.get(url, f"/datasets/{packed}"))
    show(unpack_locally(folder, into), as_json)


def _is_followed() -> bool:
    """Whether a person looks on."""
    return sys.stderr.isatty()


def _check_for_server(dataset: str, processes: int | None) -> None:
    """Refuse what only makes sense with --local."""
    if "/" in dataset:
        raise InvalidInput(
            f"{dataset} is a path; register it with: ddlp dataset add, or pack it with --local"
        )
    if processes is not None:
        raise InvalidInput("--processes is for --local; a server's workers have theirs")


def _say(forecast: dict[str, Any], as_json: bool) -> None:
    """Print a forecast."""
    from ddlp.cli.pack import forecast_lines

    if as_json:
        show(forecast, as_json)
    else:
        print("\n".join(forecast_lines(forecast)))
