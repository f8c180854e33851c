"""The commands for computational storage devices: one line a command here, the work elsewhere."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ddlp.cli import ask
from ddlp.cli.output import show
from ddlp.core.errors import InvalidInput
from ddlp.core.exit_codes import ExitCode
from ddlp.core.home_lock import server_url
from ddlp.core.settings import Settings, load_settings
from ddlp.core.types import Prong

csd = typer.Typer(help="Computational storage devices.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Url = Annotated[str | None, typer.Option(help="The server's address (DDLP_URL).")]
Driver = Annotated[
    str | None, typer.Option(help="Of a csd: emulated, agent, or one that a package adds.")
]
Profile = Annotated[
    str | None, typer.Option(help="What an emulated csd is like: a name or a TOML file.")
]


def check_prong(prong: Prong, *given: str | None) -> None:
    """Refuse what is said of a csd for another device: it would be ignored in silence."""
    if prong is not Prong.CSD and any(given):
        raise InvalidInput(f"--driver and --profile are for --prong csd, not {prong}")


@csd.command("profiles")
def csd_profiles(as_json: Json = False) -> None:
    """What an emulated device can be like; --json says the source of every figure."""
    from ddlp.workers.csd import find_profile, known_profiles

    found = [find_profile(name).model_dump() for name in known_profiles()]
    rows = [
        {name: field["value"] if isinstance(field, dict) else field for name, field in row.items()}
        for row in found
    ]
    columns = ["name", "cores", "speed", "active_w", "idle_w", "link_bytes_per_s", "about"]
    show(found if as_json else rows, as_json, columns)


@csd.command("conformance")
def csd_conformance(
    name: Annotated[str, typer.Option(help="The device, which is registered and alive.")],
    data: Annotated[
        Path, typer.Option(help="Folder for the reference images; server and device read it.")
    ] = Path("ddlp-conformance"),
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Check a device against the contract; the status is 0 only if all checks were passed."""
    from ddlp.cli.conformance import Outcome, Subject, conform
    from ddlp.cli.up import stop_on_term

    settings = load_settings()
    broker = running_broker(settings)
    say = (lambda _: None) if as_json else (lambda line: print(line, file=sys.stderr, flush=True))
    subject = Subject(name, data, broker, settings.wait_timeout_s, say)
    stop_on_term()  # so that its runs are ended with it
    with ask.client(url) as client:
        findings = conform(client, subject)
    show([vars(finding) for finding in findings], as_json, ["check", "outcome", "found"])
    if any(finding.outcome is not Outcome.PASSED for finding in findings):
        raise typer.Exit(ExitCode.FAILED_CHECK)


def running_broker(settings: Settings) -> str | None:
    """The broker in the settings, or the one that `ddlp up` started at home."""
    socket = settings.home.absolute() / "redis" / "redis.sock"
    return settings.redis_url or (f"unix://{socket}" if socket.exists() else None)


def at_home(settings: Settings) -> Settings:
    """With the server and the broker that `ddlp up` started at home, where none are named."""
    return settings.model_copy(
        update={"redis_url": running_broker(settings), "url": server_url(settings)}
    )
