"""The commands for runs: one line a command here, the work elsewhere."""

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import typer

from ddlp.cli import ask
from ddlp.cli.confirm import Yes, confirm
from ddlp.cli.output import show, show_lines
from ddlp.cli.run_making import (
    CpuBytes,
    CpuWindow,
    CsdBytes,
    Json,
    RunRef,
    Url,
    clone,
    create,
    retry,
)
from ddlp.core.exit_codes import ExitCode
from ddlp.core.messages.run_list import RunSort
from ddlp.core.tables import Form
from ddlp.core.types import RunState

runs = typer.Typer(help="Runs.", no_args_is_help=True)
runs.command("create")(create)
runs.command("clone")(clone)
runs.command("retry")(retry)

Limit = Annotated[int, typer.Option(min=1, max=200, help="How many at most.")]


@runs.command("list")
def run_list(
    state: Annotated[list[RunState] | None, typer.Option(help="Only these; repeat it.")] = None,
    search: Annotated[str | None, typer.Option(help="A part of the name or the dataset.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Only of this dataset.")] = None,
    strategy: Annotated[str | None, typer.Option(help="Only with this strategy.")] = None,
    pipeline: Annotated[str | None, typer.Option(help="Only with this pipeline.")] = None,
    sort: Annotated[RunSort, typer.Option(help="What they are ordered by.")] = RunSort.CREATED,
    ascending: Annotated[bool, typer.Option("--ascending", help="The least first.")] = False,
    limit: Limit = 50,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Runs, the newest first unless told otherwise."""
    wanted = {"search": search, "dataset": dataset, "strategy": strategy, "pipeline": pipeline}
    given = {name: value for name, value in wanted.items() if value is not None}
    order = {"sort": sort.value, "ascending": ascending, "limit": limit}
    states = [one.value for one in state or []]
    asked = urlencode({"state": states, **given, **order}, doseq=True)
    columns = ["name", "state", "dataset", "strategy", "batch_size", "epochs", "created_at"]
    show(ask.get(url, f"/runs?{asked}"), as_json, columns)


@runs.command("show")
def run_show(run: RunRef, url: Url = None, as_json: Json = False) -> None:
    """One run with its epochs."""
    info = ask.get(url, f"/runs/{run}")
    show({**info, "epochs_seen": ask.get(url, f"/runs/{run}/epochs")}, as_json)


@runs.command("bad")
def run_bad(
    run: RunRef,
    limit: Limit = 100,
    before: Annotated[int | None, typer.Option(help="Only entries with a lower id.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Samples of a run that were skipped or replaced, the newest first."""
    from ddlp.cli.bad_samples import bad_samples

    with ask.client(url) as client:
        found = bad_samples(client, run, before, None if everything else limit)
    columns = ["id", "epoch", "batch", "sample", "action", "substitute", "name", "reason"]
    show(found, as_json, columns)


@runs.command("export")
def run_export(
    run: RunRef,
    what: Annotated[
        str, typer.Option(help="batches, series, epochs, bad-samples or reads.")
    ] = "batches",
    form: Annotated[
        Form | None, typer.Option("--format", help="The ending of --out, or csv, if left out.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File to write; printed if left out.")] = None,
    period: Annotated[
        int | None,
        typer.Option(help="For series: 1, 10 or 60 seconds; the finest that is whole by default."),
    ] = None,
    url: Url = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Write a table of a run for a spreadsheet, pandas or a program."""
    from ddlp.cli.export import chosen_form, export, export_path

    form = Form.JSON if as_json else chosen_form(form, out)
    with ask.client(url) as client:
        export(client, export_path(run, what, form, period), out, form)


@runs.command("report")
def run_report(run: RunRef, url: Url = None, as_json: Json = False) -> None:
    """Where every second and every joule of a run went, by device, stage and epoch."""
    from ddlp.cli.report import report_lines

    found = ask.get(url, f"/runs/{run}/report")
    show_lines(found, report_lines, as_json)


@runs.command("compare")
def run_compare(
    run_names: Annotated[
        list[str], typer.Argument(metavar="RUN RUN…", help="Two or more; the first is the base.")
    ],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Put runs side by side; equal ones are repeats of each other, which gives 95 % intervals."""
    from ddlp.cli.report import comparison_lines

    asked = "&".join(f"run={quote(name, safe='')}" for name in run_names)
    show_lines(ask.get(url, f"/runs/compare?{asked}"), comparison_lines, as_json)


@runs.command("watch")
def run_watch(run: RunRef, url: Url = None, as_json: Json = False) -> None:
    """Follow a run until it is over; the status is 0 only if it was completed."""
    from ddlp.cli.watch import watch

    if watch(ask.client(url), run, as_json) != RunState.COMPLETED:
        raise typer.Exit(ExitCode.FAILED_CHECK)


@runs.command("pause")
def run_pause(run: RunRef, url: Url = None, as_json: Json = False) -> None:
    """Give out no more work for a run."""
    _change(run, "pause", url, as_json)


@runs.command("resume")
def run_resume(run: RunRef, url: Url = None, as_json: Json = False) -> None:
    """Go on with a paused run."""
    _change(run, "resume", url, as_json)


@runs.command("strategy")
def run_strategy(
    run: RunRef,
    strategy: Annotated[str, typer.Argument(help="wrr, mte, bounded, cpu or csd.")],
    reorder_window: Annotated[int | None, typer.Option(help="For bounded.")] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Go on with another strategy, in the middle of an epoch too."""
    body = {"strategy": strategy, "reorder_window": reorder_window}
    info = ask.post(url, f"/runs/{run}/strategy", body)
    show({"name": info["name"], "strategy": info["strategy"]}, as_json)


@runs.command("limits")
def run_limits(
    run: RunRef,
    cpu_window: CpuWindow = None,
    cpu_store_bytes: CpuBytes = None,
    csd_store_bytes: CsdBytes = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Show how much of a run may lie unconsumed, or change it while the run works."""
    body = {
        "cpu_window": cpu_window,
        "cpu_store_bytes": cpu_store_bytes,
        "csd_store_bytes": csd_store_bytes,
    }
    asks = all(value is None for value in body.values())
    info = ask.get(url, f"/runs/{run}") if asks else ask.post(url, f"/runs/{run}/limits", body)
    show({"name": info["name"], **info["limits"]}, as_json)


@runs.command("cancel")
def run_cancel(
    run_names: Annotated[
        list[str], typer.Argument(metavar="RUN…", help="Names or ids of one run or more.")
    ],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """End runs for good; of several, the status is 0 only if all were cancelled."""
    if len(run_names) == 1:
        _change(run_names[0], "cancel", url, as_json)
        return
    found = ask.post(url, "/runs/cancel", {"runs": run_names})
    show(found, as_json, ["run", "cancelled", "reason"])
    if not all(entry["cancelled"] for entry in found):
        raise typer.Exit(ExitCode.REFUSED)


@runs.command("extend")
def run_extend(
    run: RunRef,
    epochs: Annotated[int, typer.Option(help="How many it has then, those done included.")],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Give a run more epochs; one that was completed waits for a trainer then."""
    info = ask.post(url, f"/runs/{run}/extend", {"epochs": epochs})
    show({"name": info["name"], "state": info["state"], "epochs": info["epochs"]}, as_json)


@runs.command("delete")
def run_delete(
    run_names: Annotated[
        list[str], typer.Argument(metavar="RUN…", help="Names or ids of one run or more.")
    ],
    yes: Yes = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Delete runs that are over, with batches, certificates and figures; the audit stays."""
    names = list(dict.fromkeys(run_names))
    confirm(f"Delete {', '.join(names)} with all certificates and figures? That is for good.", yes)
    deleted = [ask.delete(url, f"/runs/{quote(name, safe='')}") for name in names]
    show(deleted, as_json, ["deleted"])


def _change(run: str, action: str, url: str | None, as_json: bool) -> None:
    info: dict[str, Any] = ask.post(url, f"/runs/{run}/{action}", {})
    show({"name": info["name"], "state": info["state"]}, as_json)
