"""`ddlp run export` writes a table whole or not at all."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from ddlp.cli.export import chosen_form, export, export_path
from ddlp.core.errors import InvalidInput
from ddlp.core.tables import Form

BODY = b"epoch,index\r\n0,1\r\n"


class Broken(io.BytesIO):
    """An answer that breaks off."""

    def read(self, nbytes: int | None = -1, /) -> bytes:
        found = super().read(nbytes)
        if not found:
            raise ConnectionError("gone")
        return found


class Server:
    """A client of a server that gives out one file."""

    def __init__(self, answer: BinaryIO) -> None:
        self._answer = answer

    @contextmanager
    def stream(self, path: str) -> Iterator[BinaryIO]:
        assert path == "/runs/r50/export?what=batches&format=csv"
        yield self._answer


def fetch(answer: BinaryIO, out: Path | None) -> None:
    server: Any = Server(answer)
    export(server, export_path("r50", "batches", Form.CSV, None), out, Form.CSV)


def test_a_file_is_written(tmp_path: Path) -> None:
    fetch(io.BytesIO(BODY), tmp_path / "r50.csv")
    assert (tmp_path / "r50.csv").read_bytes() == BODY
    assert len(list(tmp_path.iterdir())) == 1


def test_what_breaks_off_leaves_what_was_there(tmp_path: Path) -> None:
    out = tmp_path / "r50.csv"
    out.write_text("before")
    with pytest.raises(ConnectionError):
        fetch(Broken(BODY), out)
    assert out.read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 1


def test_without_a_file_it_is_printed(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    fetch(io.BytesIO(BODY), None)
    assert capfdbinary.readouterr().out == BODY


@pytest.mark.parametrize("name", ["missing/r50.csv", ""])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match=str(tmp_path)):
        fetch(io.BytesIO(BODY), tmp_path / name)


def test_parquet_is_not_printed_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    server: Any = Server(io.BytesIO())
    with pytest.raises(InvalidInput, match="--out"):
        export(server, "", None, Form.PARQUET)


@pytest.mark.parametrize(
    ("given", "out", "expected"),
    [
        (None, None, Form.CSV),
        (None, "a.parquet", Form.PARQUET),
        (None, "a.JSON", Form.JSON),
        (None, "a.txt", Form.CSV),
        (None, "a", Form.CSV),
        (Form.JSON, "a.parquet", Form.JSON),
    ],
)
def test_the_form_follows_from_the_name(
    given: Form | None, out: str | None, expected: Form
) -> None:
    assert chosen_form(given, None if out is None else Path(out)) is expected


def test_the_path_names_what_is_wanted() -> None:
    assert export_path("r50", "series", Form.JSON, 10) == (
        "/runs/r50/export?what=series&format=json&period=10"
    )
