"""What lies at a path is told by its ending, or by what the folder holds."""

from pathlib import Path

import pytest

from ddlp.core.dataset import ScanOptions
from ddlp.core.dataset.index import KINDS
from ddlp.core.dataset.sources import SOURCES, recognise
from ddlp.core.errors import InvalidInput
from tests.core.dataset.making import put

RECORD = b"\0" * 3073


def kind(path: Path) -> str:
    return recognise(path, ScanOptions()).kind


def test_every_kind_has_its_source() -> None:
    assert tuple(SOURCES) == KINDS


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("a.csv", "manifest"),
        ("a.JSONL", "manifest"),
        ("a.ndjson", "manifest"),
        ("a.parquet", "manifest"),
        ("a.tar", "tar"),
        ("a.npz", "array"),
        ("a.npy", "array"),
        ("a.bin", "array"),
        ("pack-00000-of-00001.ddlp", "packed"),
    ],
)
def test_a_file_is_known_by_its_ending(tmp_path: Path, name: str, wanted: str) -> None:
    put(tmp_path, name)
    assert kind(tmp_path / name) == wanted


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["cat/1.jpg"], "folder"),
        (["cat/1.jpg", "all.tar", "a.bin", "notes.txt"], "folder"),
        (["0.tar"], "tar"),
        (["0.TAR", "more/notes.txt", "a.bin"], "tar"),
        (["data_batch_1.bin"], "array"),
        (["train.bin", "more/notes.txt"], "array"),
        (["pack-00001-of-00003.ddlp", "0.tar", "data_batch_1.bin", "more/notes.txt"], "packed"),
        (["cat/1.jpg", "pack-00000-of-00001.ddlp"], "folder"),
        (["pack-1-of-1.ddlp", ".pack-00000-of-00001.ddlp"], "folder"),
        ([], "folder"),
    ],
)
def test_a_folder_is_known_by_what_it_holds(tmp_path: Path, given: list[str], wanted: str) -> None:
    put(tmp_path, *given, data=RECORD)
    assert kind(tmp_path) == wanted


def test_binary_files_of_another_sort_are_not_cifar(tmp_path: Path) -> None:
    put(tmp_path, "weights.bin", data=b"x" * 1000)
    assert kind(tmp_path) == "folder"
    with pytest.raises(InvalidInput, match="does not exist; give a folder with one subfolder a"):
        kind(tmp_path / "none")


@pytest.mark.parametrize("name", ["data.zip", "1.jpg", "data"])
def test_another_file_is_named_with_what_could_be_given(tmp_path: Path, name: str) -> None:
    put(tmp_path, name)
    with pytest.raises(
        InvalidInput, match=rf"{name} is not a dataset of a known kind; give a.*csv"
    ):
        kind(tmp_path / name)


def test_a_path_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        kind(tmp_path / ("x" * 300))
