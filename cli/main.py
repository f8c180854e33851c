"""The command line: one line a command here, the work elsewhere."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from ddlp.cli import ask
from ddlp.cli.csd_commands import Driver, Profile, at_home, check_prong, csd
from ddlp.cli.dataset_commands import datasets
from ddlp.cli.output import fail, show, show_lines
from ddlp.core.errors import DdlpError
from ddlp.core.settings import load_settings
from ddlp.core.tables import Form
from ddlp.core.types import BadPolicy, Prong, RunState, TailPolicy

app = typer.Typer(
    help="Feed accelerators from both ends: CPU workers and computational storage.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
pipelines = typer.Typer(help="Pipelines.", no_args_is_help=True)
devices = typer.Typer(help="Devices.", no_args_is_help=True)
runs = typer.Typer(help="Runs.", no_args_is_help=True)
app.add_typer(datasets, name="dataset")
app.add_typer(pipelines, name="pipeline")
app.add_typer(devices, name="device")
app.add_typer(runs, name="run")
app.add_typer(csd, name="csd")

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Url = Annotated[str | None, typer.Option(help="The server's address (DDLP_URL).")]
Limit = Annotated[int, typer.Option(min=1, max=200, help="How many at most.")]
RunRef = Annotated[str, typer.Argument(help="Name or id of a run.")]


@app.command()
def up(
    home: Annotated[Path | None, typer.Option(help="Folder for everything it keeps.")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 takes a free one.")] = None,
    allow: Annotated[
        list[Path] | None,
        typer.Option(help="Folder below which datasets may be read, and packed ones written."),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="CPU worker processes.")] = None,
) -> None:
    """Run everything on this machine: server, page, broker, CPU workers, an emulated CSD."""
    from ddlp.cli.up import run_stack

    run_stack(load_settings(home=home, port=port, dataset_roots=allow, cpu_workers=workers))


@app.command()
def serve() -> None:
    """Run the server and its page alone; settings come from the environment."""
    from ddlp.cli.serve import run_server

    run_server(load_settings())


@app.command()
def worker(
    prong: Annotated[Prong, typer.Option(help="Which end to work from.")],
    slots: Annotated[int | None, typer.Option(help="Processes.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the device.")] = None,
    driver: Driver = None,
    profile: Profile = None,
) -> None:
    """Run one device's worker; a csd that is emulated says so."""
    from ddlp.workers.device import WorkerDevice
    from ddlp.workers.worker import run_worker

    check_prong(prong, driver, profile)
    settings = at_home(load_settings(device_name=name, csd_driver=driver, csd_profile=profile))
    run_worker(settings, WorkerDevice.from_settings(settings, prong, slots))


@app.command()
def demo(
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the data.")] = 4,
    strategy: Annotated[str, typer.Option(help="wrr, mte, bounded, cpu or csd.")] = "wrr",
) -> None:
    """Make a small dataset, train a small model on it through both prongs, and show the page."""
    from ddlp.cli.demo import run_demo

    run_demo(load_settings(), epochs, strategy, oneshot=os.environ.get("DEMO_ONESHOT") == "1")


@app.command()
def doctor(as_json: Json = False) -> None:
    """Say what is there, what is missing, and what to do about it."""
    from ddlp.cli.doctor import examine

    show(examine(load_settings()), as_json)


@pipelines.command("add")
def pipeline_add(
    name: Annotated[str, typer.Argument(help="A name for it.")],
    file: Annotated[
        str, typer.Argument(help="JSON: a list of transforms; - reads standard input.")
    ],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Name a list of transforms; doing so twice with the same list is harmless."""
    from ddlp.cli.pipeline_file import read_transforms

    body = {"name": name, "transforms": read_transforms(file)}
    show(ask.post(url, "/pipelines", body), as_json)


@pipelines.command("list")
def pipeline_list(url: Url = None, as_json: Json = False) -> None:
    """The presets and all that were added."""
    show(ask.get(url, "/pipelines"), as_json, ["name", "shape", "dtype", "hash"])


@devices.command("list")
def device_list(url: Url = None, as_json: Json = False) -> None:
    """All devices that ever registered, and whether they are alive."""
    columns = ["name", "prong", "kind", "emulated", "slots", "engine", "store", "live"]
    show(ask.get(url, "/devices"), as_json, columns)


@runs.command("create")
def run_create(
    dataset: Annotated[str, typer.Argument(help="Name of a dataset.")],
    name: Annotated[str | None, typer.Option(help="A name for it.")] = None,
    pipeline: Annotated[str, typer.Option(help="Name of a pipeline.")] = "imagenet-train",
    batch_size: Annotated[int, typer.Option(help="Samples a batch.")] = 64,
    epochs: Annotated[int, typer.Option(help="Passes over the data.")] = 1,
    seed: Annotated[int, typer.Option(help="Decides order and augmentation.")] = 0,
    strategy: Annotated[str, typer.Option(help="wrr, mte, bounded, cpu or csd.")] = "wrr",
    reorder_window: Annotated[
        int | None, typer.Option(help="For bounded: how far the order may deviate.")
    ] = None,
    calibration: Annotated[
        int, typer.Option(help="Batches a device makes before its rate is trusted.")
    ] = 10,
    world_size: Annotated[int, typer.Option(help="Processes that train together.")] = 1,
    tail: Annotated[
        TailPolicy, typer.Option(help="Samples that do not fill a batch for each rank.")
    ] = TailPolicy.SHORT,
    on_bad: Annotated[
        BadPolicy, typer.Option(help="What a sample that cannot be used does.")
    ] = BadPolicy.FAIL,
    max_bad_share: Annotated[
        float, typer.Option(help="Share of an epoch's samples that may be bad.")
    ] = 0.01,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Make a run; its first batches are prepared at once."""
    body = {
        "dataset": dataset,
        "name": name,
        "pipeline": pipeline,
        "batch_size": batch_size,
        "epochs": epochs,
        "seed": seed,
        "strategy": strategy,
        "reorder_window": reorder_window,
        "calibration": calibration,
        "world_size": world_size,
        "tail": tail.value,
        "on_bad": on_bad.value,
        "max_bad_share": max_bad_share,
    }
    show(ask.make(url, "/runs", body), as_json)


@runs.command("list")
def run_list(limit: Limit = 50, url: Url = None, as_json: Json = False) -> None:
    """Runs, the newest first."""
    columns = ["name", "state", "dataset", "strategy", "batch_size", "epochs"]
    show(ask.get(url, f"/runs?limit={limit}"), as_json, columns)


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
    period: Annotated[int | None, typer.Option(help="For series: 1, 10 or 60 seconds.")] = None,
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
        raise typer.Exit(1)


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


@runs.command("cancel")
def run_cancel(run: RunRef, url: Url = None, as_json: Json = False) -> None:
    """End a run for good."""
    _change(run, "cancel", url, as_json)


@app.command()
def verify(
    run: Annotated[str, typer.Argument(help="Name or id of a run, or a file of certificates.")],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Prove from its certificates that a run delivered every sample exactly once."""
    from ddlp.cli.verify import check, read, verify_run

    path = Path(run)
    result = check(read(path)) if path.is_file() else verify_run(ask.client(url), run)
    show(result, as_json)
    if not result["exactly_once"]:
        raise typer.Exit(1)


@app.command()
def certificate(
    run: RunRef,
    out: Annotated[Path | None, typer.Option(help="File to write them to.")] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Show the certificates of a run, or write them to a file that `ddlp verify` takes."""
    from ddlp.cli.verify import collect

    with ask.client(url) as client:
        found = collect(client, run)
    if out is not None:
        out.write_text(json.dumps(found, indent=2) + "\n")
    else:
        columns = ["epoch", "state", "exactly_once", "previous", "digest"]
        show(found if as_json else found["certificates"], as_json, columns)


@app.command()
def trace(
    run: RunRef,
    out: Annotated[
        str | None, typer.Option(help="File to write; RUN.trace.json if left out, - prints it.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, help="How far to look back.")] = 120,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Write what each device and trainer did when, for Perfetto or Chrome to show."""
    from ddlp.cli.trace import write_trace

    with ask.client(url) as client:
        written = write_trace(client, run, seconds, out)
    if written is not None:
        show(written, as_json)


@app.command()
def replay(
    run: RunRef,
    name: Annotated[str | None, typer.Option(help="A name for the new run.")] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Make a run that delivers the batches of another one again, in the same order."""
    show(ask.make(url, f"/runs/{run}/replay", {"name": name}), as_json)


def _change(run: str, action: str, url: str | None, as_json: bool) -> None:
    info: dict[str, Any] = ask.post(url, f"/runs/{run}/{action}", {})
    show({"name": info["name"], "state": info["state"]}, as_json)


def run() -> None:
    """The entry point: errors of ours are one line, and a status that says what kind."""
    try:
        app()
    except DdlpError as error:
        fail(str(error))
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("ddlp"):
            raise
        fail(f"{error.name} is not installed; install it with: pip install 'ddlp[server,workers]'")
        sys.exit(3)
