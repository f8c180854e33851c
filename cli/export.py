"""Fetches a table of a run as a file; it is there whole, or not at all."""

import os
import shutil
import sys
from pathlib import Path
from typing import BinaryIO

from ddlp.core.client import Client
from ddlp.core.errors import InvalidInput
from ddlp.core.tables import Form

_CHUNK_BYTES = 1 << 20


def chosen_form(given: Form | None, out: Path | None) -> Form:
    """The form that was asked for, or the one that the file's name ends in, or CSV."""
    if given is not None:
        return given
    ending = "" if out is None else out.suffix.removeprefix(".").lower()
    return Form(ending) if ending in set(Form) else Form.CSV


def export_path(run: str, what: str, form: Form, period_s: int | None) -> str:
    """Where the server gives it out."""
    period = "" if period_s is None else f"&period={period_s}"
    return f"/runs/{run}/export?what={what}&format={form}{period}"


def export(client: Client, path: str, out: Path | None, form: Form) -> None:
    """Write it to a file, or to standard output."""
    if out is None and form is Form.PARQUET and sys.stdout.isatty():
        raise InvalidInput("Parquet is not for a terminal; name a file with --out")
    with client.stream(path) as answer:
        if out is None:
            _copy(answer, sys.stdout.buffer)
        else:
            _write(answer, out)


def _write(answer: BinaryIO, out: Path) -> None:
    part = out.with_name(f"{out.name}.part")
    with _opened(part, out) as file:
        try:
            _copy(answer, file)
            os.replace(part, out)
        finally:
            part.unlink(missing_ok=True)


def _opened(part: Path, out: Path) -> BinaryIO:
    if out.is_dir():
        raise InvalidInput(f"{out} is a folder; name a file")
    try:
        return part.open("wb")
    except OSError as error:
        raise InvalidInput(f"{out} cannot be written ({error.strerror}); name another") from error


def _copy(answer: BinaryIO, file: BinaryIO) -> None:
    shutil.copyfileobj(answer, file, _CHUNK_BYTES)
    file.flush()
