"""Asks before something is destroyed."""

import sys
from typing import Annotated

import typer

from ddlp.cli.output import fail
from ddlp.core.errors import InvalidInput
from ddlp.core.exit_codes import ExitCode

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def confirm(question: str, yes: bool) -> None:
    """Go on only if somebody agrees, here or beforehand with --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidInput(f"{question} Nobody can be asked here: say --yes to do it")
    if not typer.confirm(question, err=True):
        fail("nothing was deleted")
        raise typer.Exit(ExitCode.FAILED)
