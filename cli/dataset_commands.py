"""The commands for datasets: one line a command here, the work elsewhere."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ddlp.cli import ask
from ddlp.cli.output import show
from ddlp.cli.pack_commands import pack, unpack

datasets = typer.Typer(help="Datasets.", no_args_is_help=True)
datasets.command("pack")(pack)
datasets.command("unpack")(unpack)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Url = Annotated[str | None, typer.Option(help="The server's address (DDLP_URL).")]
Limit = Annotated[int, typer.Option(min=1, max=200, help="How many at most.")]


_LOSSY = {None: "-", False: "no", True: "yes"}


class Check(StrEnum):
    """How closely a scan looks."""

    QUICK = "quick"
    FULL = "full"


@datasets.command("add")
def dataset_add(
    data: Annotated[
        Path, typer.Argument(help="A folder with one subfolder a class, or a file of samples.")
    ],
    name: Annotated[str | None, typer.Option(help="A name for it.")] = None,
    check: Annotated[
        Check, typer.Option(help="Read each image's head, or decode each image.")
    ] = Check.QUICK,
    wait: Annotated[bool, typer.Option(help="Wait for the end of the scan.")] = True,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Register images; they are scanned in the background, and bad ones are left out."""
    from ddlp.cli.scan import follow_scan

    body = {"uri": str(data.absolute()), "name": name, "check": check.value}
    info = ask.make(url, "/datasets", body)
    if wait:
        with ask.client(url) as client:
            info = follow_scan(client, info["name"])
    show(info, as_json)


@datasets.command("list")
def dataset_list(url: Url = None, as_json: Json = False) -> None:
    """All datasets."""
    columns = ["name", "state", "kind", "lossy", "samples", "rejected", "total_bytes", "uri"]
    rows = ask.get(url, "/datasets")
    if not as_json:
        rows = [{**row, "lossy": _LOSSY[row["lossy"]]} for row in rows]
    show(rows, as_json, columns)


@datasets.command("show")
def dataset_show(name: str, url: Url = None, as_json: Json = False) -> None:
    """One dataset."""
    from ddlp.cli.pack import described

    info = ask.get(url, f"/datasets/{name}")
    show(info if as_json else described(info), as_json)


@datasets.command("rejected")
def dataset_rejected(
    name: str,
    offset: Annotated[int, typer.Option(min=0, help="How many to pass over.")] = 0,
    limit: Limit = 100,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Files that the scan left out, and why."""
    path = f"/datasets/{name}/rejected?offset={offset}&limit={limit}"
    show(ask.get(url, path), as_json, ["name", "reason"])


@datasets.command("remove")
def dataset_remove(
    name: str,
    yes: Annotated[
        bool, typer.Option("--yes", help="Also if its shards may be the only copy.")
    ] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Forget a dataset; its files stay, but shards in the server's own folder are removed.

    Those are the ones that were packed without --into. If the dataset that they were made from is
    not registered any more, they may be the only copy, and --yes is needed.
    """
    show(ask.delete(url, f"/datasets/{name}" + ("?only_copy=true" if yes else "")), as_json)


@datasets.command("preview")
def dataset_preview(
    name: str,
    pipeline: Annotated[str, typer.Option(help="Name of a pipeline.")] = "imagenet-train",
    samples: Annotated[str, typer.Option(help="Sample numbers, separated by commas.")] = "0,1,2",
    seed: Annotated[int, typer.Option(help="As of the run.")] = 0,
    epoch: Annotated[int, typer.Option(help="As of the run.")] = 0,
    explain: Annotated[bool, typer.Option("--explain", help="Show the parameters drawn.")] = False,
    out: Annotated[Path | None, typer.Option(help="PNG file for a sheet of pictures.")] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Show what a pipeline makes of samples: which, what chance decides, and how they look."""
    from ddlp.cli.preview import lines, preview

    question = {"pipeline": pipeline, "samples": samples, "seed": seed, "epoch": epoch}
    with ask.client(url) as client:
        found = preview(client, name, question, out)
    if explain and not as_json:
        print("\n".join(lines(found)))
    else:
        show(found, as_json, ["sample", "name", "class_name", "label", "width", "height"])
