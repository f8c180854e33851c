"""Prints what a run would come to."""

from typing import Any

import typer

from ddlp.cli import ask
from ddlp.cli.output import show_lines
from ddlp.core.exit_codes import ExitCode
from ddlp.core.units import duration, joules, size


def foretell(url: str | None, body: dict[str, Any], as_json: bool) -> None:
    """Ask what a run would come to and print it; status 2 if it could not be made."""
    found = ask.post(url, "/runs/forecast", body)
    show_lines(found, outlook_lines, as_json)
    if found["problems"]:
        raise typer.Exit(ExitCode.USAGE)


def outlook_lines(found: dict[str, Any]) -> list[str]:
    """A forecast in lines; what stands in the run's way comes first."""
    lines = [f"problem        {entry['field']}: {entry['problem']}" for entry in found["problems"]]
    if found["batches"] is None:
        return lines
    lines.append(
        f"an epoch       {found['images']:,} images in {found['batches']:,} batches "
        f"of {size(found['batch_bytes'])}"
    )
    lines += [_prong_line(entry) for entry in found["prongs"]]
    lines.append(f"delivered      {_rate(found['images_per_s'])}")
    if found["meeting_point"] is not None:
        lines.append(f"ends meet      near batch {found['meeting_point']:,}")
    lines.append(
        f"time           {_time(found['epoch_s'])} an epoch, {_time(found['run_s'])} in all"
    )
    lines.append(_energy_line(found))
    return lines + [f"note           {note}" for note in found["notes"]]


def _prong_line(entry: dict[str, Any]) -> str:
    mark = " (emulated)" if entry["emulated"] else ""
    return (
        f"{entry['prong'] + mark:<14} {_rate(entry['images_per_s'])} on {entry['slots']} slots; "
        f"up to {entry['held_batches']:,} batches ({size(entry['held_bytes'])}) lie ready"
    )


def _energy_line(found: dict[str, Any]) -> str:
    each = found["joules_per_image"]
    if each is None:
        return "energy         not known"
    return f"energy         {joules(found['joules'])}, {joules(each)}/image ({found['provenance']})"


def _rate(value: float | None) -> str:
    return "not known yet" if value is None else f"{value:,.0f} images/s"


def _time(seconds: float | None) -> str:
    return "not known" if seconds is None else duration(seconds)
