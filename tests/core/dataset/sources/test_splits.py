"""Folders of train, val and the like are several datasets, unless they are classes."""

from pathlib import Path

import pytest

from ddlp.core.dataset.sources.splits import HoldsSplits, find_splits
from ddlp.core.errors import InvalidInput
from tests.core.dataset.making import index_of, put


def image_net(root: Path, train: str = "train", val: str = "val") -> Path:
    put(root, *(f"{split}/{label}/1.jpg" for split in (train, val) for label in ("cat", "dog")))
    return root


@pytest.mark.parametrize(
    ("train", "val"), [("train", "val"), ("Train", "VALID"), ("test", "validation")]
)
def test_splits_are_refused_with_what_to_add_instead(tmp_path: Path, train: str, val: str) -> None:
    root = image_net(tmp_path / "image net", train, val)
    put(root, ".cache/1.jpg", "devkit/readme.txt", "readme.txt")
    with pytest.raises(HoldsSplits) as found:
        index_of(root)
    said = str(found.value)
    assert f"ddlp dataset add '{root}/{train}' --name image-net-{train.lower()}" in said
    assert f"ddlp dataset add '{root}/{val}' --name image-net-{val.lower()}" in said
    assert "--splits" in said
    assert [split.is_flat for split in found.value.splits] == [False, False]
    assert index_of(root / train).classes == ("cat", "dog")


def test_a_flat_split_has_no_labels(tmp_path: Path) -> None:
    put(tmp_path / "d", "train/cat/1.jpg", "val/1.jpg", "val/2.jpg")
    with pytest.raises(HoldsSplits, match=r"add \S+/d/train --name d-train; or all.*val holds im"):
        index_of(tmp_path / "d")


def test_flat_splits_may_be_classes(tmp_path: Path) -> None:
    put(tmp_path / "d", "train/1.jpg", "test/2.jpg")
    with pytest.raises(HoldsSplits, match=r"holds splits, not classes: test, train.*--as-classes"):
        index_of(tmp_path / "d")
    assert index_of(tmp_path / "d", as_classes=True).classes == ("test", "train")


@pytest.mark.parametrize(
    "given",
    [("train/1.jpg", "bus/1.jpg", "car/1.jpg"), ("train/1.jpg", "test/1.jpg", "bus/deep/1.jpg")],
)
def test_vehicles_may_be_trains(tmp_path: Path, given: tuple[str, ...]) -> None:
    put(tmp_path / "d", *given)
    assert find_splits(tmp_path / "d") == []
    assert "train" in index_of(tmp_path / "d").classes


def test_one_class_with_folders_in_it_is_announced(tmp_path: Path) -> None:
    put(tmp_path / "d", "train/cat/1.jpg", "train/dog/1.jpg")
    [note] = index_of(tmp_path / "d").notes
    assert "one class only, train" in note
    assert f"add {tmp_path}/d/train instead" in note


def test_splits_of_tar_files_are_refused_too(tmp_path: Path) -> None:
    for split in ("train", "val"):
        put(tmp_path / "d", f"{split}/0.tar", data=b"")
    with pytest.raises(HoldsSplits, match="d-train"):
        index_of(tmp_path / "d")
    put(tmp_path / "one", "train-000.tar", "train-001.tar", "val-000.tar", data=b"")
    with pytest.raises(InvalidInput, match=r"shards of several splits \(train, val\)"):
        index_of(tmp_path / "one")
