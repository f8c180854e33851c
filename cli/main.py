"""The command line: one line a command here, the work elsewhere."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, urlencode

import typer

from ddlp.cli import ask
from ddlp.cli.csd_commands import Driver, Profile, at_home, check_prong, csd
from ddlp.cli.dataset_commands import datasets
from ddlp.cli.key_commands import keys
from ddlp.cli.output import fail, show
from ddlp.cli.run_commands import RunRef, runs
from ddlp.core.errors import DdlpError
from ddlp.core.settings import load_settings
from ddlp.core.types import Prong

app = typer.Typer(
    help="Feed accelerators from both ends: CPU workers and computational storage.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
pipelines = typer.Typer(help="Pipelines.", no_args_is_help=True)
devices = typer.Typer(help="Devices.", no_args_is_help=True)
app.add_typer(datasets, name="dataset")
app.add_typer(pipelines, name="pipeline")
app.add_typer(devices, name="device")
app.add_typer(runs, name="run")
app.add_typer(csd, name="csd")
app.add_typer(keys, name="keys")

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DeviceName = Annotated[str, typer.Argument(help="Name of a device.")]
Url = Annotated[str | None, typer.Option(help="The server's address (DDLP_URL).")]
Limit = Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")]


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
    columns = ["name", "prong", "kind", "emulated", "slots", "engine", "store", "live", "health"]
    show(ask.get(url, "/devices"), as_json, columns)


@devices.command("drain")
def device_drain(name: DeviceName, url: Url = None, as_json: Json = False) -> None:
    """Let a device finish what it holds, and give it nothing new."""
    ask.post(url, f"/devices/{quote(name, safe='')}/drain", {})
    show({"name": name, "drained": True}, as_json)


@devices.command("resume")
def device_resume(name: DeviceName, url: Url = None, as_json: Json = False) -> None:
    """Give a drained device work again."""
    ask.post(url, f"/devices/{quote(name, safe='')}/resume", {})
    show({"name": name, "drained": False}, as_json)


@devices.command("remove")
def device_remove(name: DeviceName, url: Url = None, as_json: Json = False) -> None:
    """Forget a device that has fallen silent."""
    ask.delete(url, f"/devices/{quote(name, safe='')}")
    show({"name": name, "removed": True}, as_json)


@app.command()
def verify(
    run: Annotated[str, typer.Argument(help="Name or id of a run, or a file of certificates.")],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Prove from its certificates that a run delivered every sample exactly once."""
    from ddlp.cli.verify import read, verify_run
    from ddlp.core.proof import check

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


@app.command()
def audit(
    subject: Annotated[
        str | None, typer.Option(help="Only of the run, dataset, device … so named.")
    ] = None,
    action: Annotated[
        str | None, typer.Option(help="Only this action (run.paused), or its group (run).")
    ] = None,
    before: Annotated[int | None, typer.Option(help="Only events with a lower id.")] = None,
    limit: Limit = 50,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Who did what, the newest first."""
    from ddlp.cli.audit import COLUMNS, dated

    asked = {"subject": subject, "action": action, "before": before, "limit": limit}
    given = urlencode({name: value for name, value in asked.items() if value is not None})
    found = ask.get(url, f"/audit?{given}")
    show(found if as_json else dated(found), as_json, COLUMNS)


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
