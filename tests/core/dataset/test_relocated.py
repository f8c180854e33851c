"""An index is copied for a host that sees the same dataset under another path."""

import io
from pathlib import Path

import numpy as np
import pytest

from ddlp.core.dataset import DatasetIndex, scan
from ddlp.core.dataset.relocated import moved, relocate
from ddlp.core.errors import InvalidInput


@pytest.fixture
def index(tmp_path: Path, images: Path) -> Path:
    scan(images, tmp_path / "index")
    return tmp_path / "index"


def test_a_copy_has_the_same_version_and_finds_its_samples_elsewhere(
    index: Path, images: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "mnt" / "a much longer name than before"
    elsewhere.parent.mkdir()
    elsewhere.symlink_to(images.parent)
    with index.open("rb") as source:
        relocate(
            source,
            tmp_path / "cache" / "copy",
            {images.parent: elsewhere},
            DatasetIndex(index).version,
        )
    original, copy = DatasetIndex(index), DatasetIndex(tmp_path / "cache" / "copy")
    assert copy.version == original.version
    assert copy.root == elsewhere / images.name
    samples = np.arange(original.samples)
    assert (copy.labels(samples) == original.labels(samples)).all()
    assert [Path(copy.name(s)).name for s in range(3)] == ["0000.jpg", "0003.jpg", "0006.jpg"]
    assert copy.read(7) == original.read(7)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["copy"]


def test_what_is_below_no_folder_named_stays_where_it_is() -> None:
    folders = {Path("/data"): Path("/mnt/flash")}
    assert moved(Path("/data/a/b"), folders) == Path("/mnt/flash/a/b")
    assert moved(Path("/database"), folders) == Path("/database")


@pytest.mark.parametrize("raw", [b"", b"<html>", b"DDLPIDX2" + b"\xff" * 8])
def test_what_is_no_index_is_refused_and_leaves_nothing(tmp_path: Path, raw: bytes) -> None:
    with pytest.raises(InvalidInput):
        relocate(io.BytesIO(raw), tmp_path / "cache" / "copy", {}, "v")
    assert not (tmp_path / "cache").exists()


def test_pixels_that_lie_beside_an_index_cannot_come_along(tmp_path: Path) -> None:
    data = tmp_path / "small.npz"
    pixels = np.zeros((4, 8, 8, 3), np.uint8)
    np.savez_compressed(data, x=pixels, y=np.arange(4))
    scan(data, tmp_path / "index")
    with (
        (tmp_path / "index").open("rb") as source,
        pytest.raises(InvalidInput, match="uncompressed"),
    ):
        relocate(source, tmp_path / "copy", {}, "v")


@pytest.mark.parametrize("kept", [1000, 0.5, -1])
def test_an_index_that_is_cut_short_or_another_one_is_not_kept(
    index: Path, tmp_path: Path, kept: float
) -> None:
    raw, version = index.read_bytes(), DatasetIndex(index).version
    part = raw[: int(kept if kept > 1 else len(raw) * kept)] if kept > 0 else raw
    wanted = version if kept > 0 else "another"
    with pytest.raises(InvalidInput):
        relocate(io.BytesIO(part), tmp_path / "cache" / "copy", {}, wanted)
    assert list((tmp_path / "cache").iterdir()) == []
