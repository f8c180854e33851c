"""Transforms from a file: a list, or an object that holds one; anything else is one line."""

import io
from pathlib import Path
from types import SimpleNamespace

import pytest

from ddlp.cli.pipeline_file import read_transforms
from ddlp.core.errors import InvalidInput


@pytest.mark.parametrize("text", ['[{"name": "flip"}]', '{"transforms": [{"name": "flip"}]}'])
def test_a_list_or_an_object_with_one_is_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.json").write_text(text)
    assert read_transforms(str(tmp_path / "p.json")) == [{"name": "flip"}]


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b'[{"name": "flip"}]')))
    assert read_transforms("-") == [{"name": "flip"}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON"),
        (b"flip", "is not JSON"),
        (b"\xff\xd8\xff\xe0", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b'"flip"', "holds no list of transforms"),
        (b'{"transform": []}', "holds no list of transforms"),
    ],
)
def test_anything_else_is_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "p.json").write_bytes(content)
    with pytest.raises(InvalidInput, match=message) as caught:
        read_transforms(str(tmp_path / "p.json"))
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere.json"):
        with pytest.raises(InvalidInput, match=f"{place} cannot be read"):
            read_transforms(str(place))
