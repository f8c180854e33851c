"""A record that somebody crafted, in a shard whose checksums are right, is refused by its name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ddlp.core.dataset import DatasetIndex, scan
from ddlp.core.dataset.layout import SampleRow
from ddlp.core.dataset.shards import Origin, Part, shard_name
from ddlp.core.image import Kind, backend
from ddlp.core.records.shard import ShardWriter
from tests.core.image.mutations import greedy_end
from tests.core.records.making import NEEDS_KERNEL, encoded

pytestmark = NEEDS_KERNEL
CRAFTED = 1
"""Its number in the shard."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shard of three records: the second fails once its head, which is long, was written."""
    jpeg = encoded(side=120, icc_profile=bytes(150_000))
    good = backend().pack_record(jpeg, True)
    assert good is not None
    assert len(good) > 150_000
    made = tmp_path_factory.mktemp("crafted") / "shards"
    made.mkdir()
    row = SampleRow(len(jpeg), 0, width=129, height=120, kind=Kind.RECORD, orientation=1)
    with (made / shard_name(0, 1)).open("xb") as file:
        shard = ShardWriter(file)
        for number in range(3):
            data = greedy_end(good) if number == CRAFTED else good
            shard.add(f"cat/{number}.jpg".encode(), row, data)
        origin = Origin("0" * 64, "folder", 3, ("cat",), 3 * len(jpeg))
        shard.finish(Part(0, 1, 0, 3), origin, {})
    return made


def ddlp(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "ddlp.cli", "dataset", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_unpacking_leaves_it_out_by_name(folder: Path, tmp_path: Path) -> None:
    done = ddlp("unpack", folder, "--into", tmp_path / "u")
    assert done.returncode == 0, done.stderr
    assert "cat/1.jpg: tile" in done.stdout
    assert sorted(path.name for path in (tmp_path / "u" / "cat").iterdir()) == ["0.jpg", "2.jpg"]


def test_packing_it_smaller_ends_with_its_name(folder: Path, tmp_path: Path) -> None:
    words = ("pack", folder, "--local", "--into", tmp_path / "p", "--max-side", "50")
    done = ddlp(*words, "--processes", "1")
    assert done.returncode == 2
    assert "cat/1.jpg cannot be packed: tile" in done.stderr
    assert "Traceback" not in done.stderr
    done = ddlp(*words, "--processes", "1", "--on-bad", "skip")
    assert done.returncode == 0, done.stderr
    scan(tmp_path / "p", tmp_path / "index")
    index = DatasetIndex(tmp_path / "index")
    assert [len(index.read(sample)) > 0 for sample in range(3)] == [True, False, True]


def test_its_thumbnail_is_refused(folder: Path, tmp_path: Path) -> None:
    scan(folder, tmp_path / "index")
    words = (str(os.getpid()), str(tmp_path / "index"))
    command = [sys.executable, "-m", "ddlp.core.image.thumbnail", *words, str(CRAFTED)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("BadSample: tile")
    assert done.stderr.count("\n") == 1
