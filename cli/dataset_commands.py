"""The commands for datasets: one line a command here, the work elsewhere."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, urlencode

import typer

from ddlp.cli import ask
from ddlp.cli.confirm import Yes, confirm
from ddlp.cli.output import show, show_lines
from ddlp.cli.pack_commands import pack, unpack
from ddlp.core.urls import refuse_address

datasets = typer.Typer(help="Datasets.", no_args_is_help=True)
datasets.command("pack")(pack)
datasets.command("unpack")(unpack)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Url = Annotated[str | None, typer.Option(help="The server's address (DDLP_URL).")]
Limit = Annotated[int, typer.Option(min=1, max=200, help="How many at most.")]


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
    splits: Annotated[
        bool, typer.Option("--splits", help="Register train, val and the like, each by itself.")
    ] = False,
    as_classes: Annotated[
        bool,
        typer.Option(
            "--as-classes", help="Take folders such as train, and labels such as a|b, as classes."
        ),
    ] = False,
    wait: Annotated[bool, typer.Option(help="Wait for the end of the scan.")] = True,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Register images; they are scanned in the background, and bad ones are left out."""
    from ddlp.cli.scan import add_dataset, add_splits, show_notes

    refuse_address(data)
    body = {"uri": str(data.absolute()), "name": name, "check": check.value}
    if splits:
        found = add_splits(url, body, wait)
        show(found, as_json, ["name", "state", "samples", "rejected", "uri"])
    else:
        found = [add_dataset(url, body | ({"as_classes": True} if as_classes else {}), wait)]
        show(found[0], as_json)
    for info in found:
        show_notes(info)


@datasets.command("rescan")
def dataset_rescan(
    name: str,
    wait: Annotated[bool, typer.Option(help="Wait for the end of the scan.")] = True,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Scan a dataset again after its files changed; what differs is a new version of that name.

    Runs over the version before go on with it. It is kept as NAME@VERSION until its last run is
    deleted, and new runs may use it by that name.
    """
    from ddlp.cli.scan import follow_rescan, rescan_lines, show_notes

    info = ask.make(url, f"/datasets/{quote(name, safe='')}/rescan", {})
    if wait:
        with ask.client(url) as client:
            info = follow_rescan(client, info["name"])
    show_lines(info, rescan_lines, as_json)
    show_notes(info)


@datasets.command("list")
def dataset_list(
    every: Annotated[
        bool, typer.Option("--all", help="Also earlier versions that are kept for their runs.")
    ] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List all datasets."""
    columns = ["name", "state", "kind", "lossy", "samples", "rejected", "total_bytes", "uri"]
    show(ask.get(url, "/datasets?all=true" if every else "/datasets"), as_json, columns)


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


@datasets.command("delete")
def dataset_delete(
    name: str,
    keep_runs: Annotated[
        bool,
        typer.Option("--keep-runs", help="Although there are runs of it that are over; they stay."),
    ] = False,
    only_copy: Annotated[
        bool, typer.Option("--only-copy", help="Also if its shards may be the only copy.")
    ] = False,
    yes: Yes = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Delete a dataset; its files stay, but shards in the server's own folder are removed.

    Those shards are the ones that were packed without --into. If the dataset that they were made
    from is not registered any more, they may be the only copy, and --only-copy is needed.
    """
    confirm(f"Delete dataset {name} with its index? Its images stay where they are.", yes)
    asked = {"keep_runs": keep_runs, "only_copy": only_copy}
    query = urlencode({name: "true" for name, said in asked.items() if said})
    address = f"/datasets/{quote(name, safe='')}" + (f"?{query}" if query else "")
    show(ask.delete(url, address), as_json)


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
