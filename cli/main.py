"""The command line: one line a command here, the work elsewhere."""

import json
import os
import sys
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, urlencode

import typer
from typer.completion import completion_init, get_completion_script  # type: ignore[attr-defined]

from ddlp.cli import ask
from ddlp.cli.confirm import Yes, confirm
from ddlp.cli.csd_commands import Driver, Profile, at_home, check_prong, csd
from ddlp.cli.dataset_commands import datasets
from ddlp.cli.key_commands import keys
from ddlp.cli.output import JSON_OPTION, fail_with, show
from ddlp.cli.root_commands import roots
from ddlp.cli.run_commands import runs
from ddlp.cli.run_making import RunRef, replay
from ddlp.cli.stack_commands import down, logs, status
from ddlp.core.errors import DdlpError
from ddlp.core.exit_codes import ExitCode
from ddlp.core.settings import load_settings
from ddlp.core.types import Prong

app = typer.Typer(
    help="Feed accelerators from both ends: CPU workers and computational storage.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
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
app.add_typer(roots, name="roots")

_COMPLETE = "_DDLP_COMPLETE"


class Shell(StrEnum):
    """A shell whose completion is known."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def _say_version(asked: bool) -> None:
    if asked:
        print(f"ddlp {version('ddlp')}")
        raise typer.Exit


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
    csd_devices: Annotated[
        int | None,
        typer.Option("--csd", help="CSDs to start, emulated by default; none unless given."),
    ] = None,
) -> None:
    """Run everything on this machine: server, page, broker, CPU workers, and CSDs if asked for."""
    from ddlp.cli.up import run_stack

    given = {"home": home, "port": port, "dataset_roots": allow}
    run_stack(load_settings(**given, cpu_workers=workers, csd_devices=csd_devices))


app.command("down")(down)
app.command("status")(status)
app.command("logs")(logs)


@app.command()
def serve(
    checked: Annotated[
        bool, typer.Option("--checked", hidden=True, help="Folders were checked by `ddlp up`.")
    ] = False,
) -> None:
    """Run the server and its page alone; settings come from the environment."""
    from ddlp.cli.serve import run_server

    run_server(load_settings(), checked=checked)


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
    show(ask.make(url, "/pipelines", body), as_json)


@pipelines.command("delete")
def pipeline_delete(
    name: Annotated[str, typer.Argument(help="Name of a pipeline that was added.")],
    keep_runs: Annotated[
        bool, typer.Option("--keep-runs", help="Although there are runs with it; they stay.")
    ] = False,
    yes: Yes = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Delete a pipeline's name; runs keep the transforms that they were made with."""
    confirm(f"Delete pipeline {name}?", yes)
    ask.delete(url, f"/pipelines/{quote(name, safe='')}" + ("?keep_runs=true" if keep_runs else ""))
    show({"deleted": name}, as_json)


@pipelines.command("list")
def pipeline_list(url: Url = None, as_json: Json = False) -> None:
    """The presets and all that were added."""
    show(ask.get(url, "/pipelines"), as_json, ["name", "shape", "dtype", "hash"])


@devices.command("list")
def device_list(url: Url = None, as_json: Json = False) -> None:
    """All devices that ever registered, and whether they are alive."""
    columns = [
        "name",
        "prong",
        "kind",
        "emulated",
        "slots",
        "engine",
        "store",
        "live",
        "health",
        "clock_ahead_s",
        "dropped_messages",
    ]
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
    """Prove that a run delivered every sample exactly once, to one unbroken line of sessions."""
    from ddlp.cli.verify import read, verify_run
    from ddlp.core.proof import check

    path = Path(run)
    result = check(read(path)) if path.is_file() else verify_run(ask.client(url), run)
    show(result, as_json)
    if not result["exactly_once"] or not result["unbroken"]:
        raise typer.Exit(ExitCode.FAILED_CHECK)


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


app.command("replay")(replay)


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
    known = {name: value for name, value in asked.items() if value is not None}
    given = urlencode(known, quote_via=quote)
    found = ask.get(url, f"/audit?{given}")
    show(found if as_json else dated(found), as_json, COLUMNS)


@app.command()
def completions(
    shell: Annotated[Shell, typer.Argument(help="The shell to complete commands in.")],
) -> None:
    """Print a script that completes commands; `source <(ddlp completions bash)` uses it now."""
    print(get_completion_script(prog_name="ddlp", complete_var=_COMPLETE, shell=shell.value))


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Show it.")
    ] = False,
) -> None:
    """Feed accelerators from both ends: CPU workers and computational storage."""


def run() -> None:
    """The entry point: an error is one line, or JSON, and a status that says what kind."""
    as_json = JSON_OPTION in sys.argv[1:]
    if _COMPLETE in os.environ:
        completion_init()  # typer does so only where it adds options of its own
    try:
        sys.exit(app(prog_name="ddlp", standalone_mode=not as_json, complete_var=_COMPLETE))
    except DdlpError as error:
        fail_with(error, str(error), error.exit_code, as_json)
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("ddlp"):
            raise
        said = f"{error.name} is not installed; install it with: pip install 'ddlp[server,workers]'"
        fail_with(error, said, ExitCode.UNREACHABLE, as_json)
        sys.exit(ExitCode.UNREACHABLE)
    except typer.Abort:  # nobody answered a question
        sys.exit(ExitCode.FAILED)
    except Exception as error:
        usage = getattr(error, "format_message", None)  # of click, in the copy that typer brings
        if usage is None:
            raise
        fail_with(error, usage(), ExitCode.USAGE, as_json)
        sys.exit(ExitCode.USAGE)
