"""A packed dataset is its origin in another form; what is not all of one packing is refused."""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ddlp.core.dataset import DatasetIndex, ScanOptions, scan
from ddlp.core.dataset.relocated import relocate
from ddlp.core.dataset.shards import open_shard
from ddlp.core.errors import InvalidInput
from ddlp.core.image import Kind
from tests.core.dataset.making import index_of, labels, put
from tests.core.records.making import (
    NEEDS_KERNEL,
    RECORDS,
    dataset,
    encoded,
    everything,
    mixed,
    pack,
    packed,
    spoil,
)

pytestmark = NEEDS_KERNEL


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> DatasetIndex:
    return dataset(tmp_path_factory.mktemp("origin"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, origin: DatasetIndex) -> Path:
    """A folder of shards that nobody changes."""
    into = tmp_path_factory.mktemp("whole") / "p"
    pack(origin, into)
    return into


@pytest.fixture
def shards(tmp_path: Path, whole: Path) -> Path:
    """Another one, with the same times."""
    shutil.copytree(whole, tmp_path / "p")
    return tmp_path / "p"


def shard(folder: Path, number: int) -> Path:
    return sorted(folder.iterdir())[number]


def test_it_is_the_same_dataset(origin: DatasetIndex, whole: Path) -> None:
    index = index_of(whole, allowed=())
    assert (index.kind, index.root) == ("packed", whole)
    assert (index.version, index.samples) == (origin.version, origin.samples)
    assert (index.classes, index.rejected) == (origin.classes, 0)
    assert labels(index) == labels(origin)
    ours, theirs = index.heads(everything(index)), origin.heads(everything(origin))
    for field in ("width", "height", "orientation"):
        assert getattr(ours, field).tolist() == getattr(theirs, field).tolist()
    assert ours.kind.tolist().count(Kind.RECORD) == RECORDS
    for sample in range(origin.samples):
        name = shard(whole, sample // 7).name
        relative = origin.name(sample).removeprefix(f"{origin.root}/")
        assert index.name(sample) == f"{whole}/{name}:{relative}"
        if ours.kind[sample] != Kind.RECORD:
            assert index.read(sample) == origin.read(sample)
            assert ours.kind[sample] == theirs.kind[sample]
    assert index.total_bytes == int(index.sizes(everything(index)).sum()) > origin.total_bytes
    for label in range(2):
        assert index.members(label).tolist() == origin.members(label).tolist()


def test_samples_are_read_the_same_whether_expected_or_not(whole: Path) -> None:
    index = index_of(whole)
    alone = [index.read(sample) for sample in range(index.samples)]
    for samples in (everything(index), np.asarray([19, 3, 3, 11]), np.asarray([], np.int64)):
        index.expect(samples)
        assert [index.read(sample) for sample in range(index.samples)] == alone
        index.relax()
    with pytest.raises(InvalidInput, match="there is no sample"):
        index.read(index.samples)


def test_the_version_depends_on_nothing_but_the_origin(
    tmp_path: Path, origin: DatasetIndex
) -> None:
    for number, how in enumerate(({"per_shard": 3}, {"keep_heads": True}, {"on_bad": "skip"})):
        assert packed(origin, tmp_path / str(number), **how).version == origin.version


def test_a_lossy_packing_has_a_version_of_its_own(tmp_path: Path, origin: DatasetIndex) -> None:
    made = [
        packed(origin, tmp_path / str(number), **how).version
        for number, how in enumerate(
            ({"max_side": 40}, {"max_side": 41}, {"quality": 90}, {"max_side": 40, "per_shard": 5})
        )
    ]
    assert len({origin.version, *made}) == 4
    assert made[0] == made[3]


def test_any_of_its_shards_stands_for_all(whole: Path, origin: DatasetIndex) -> None:
    index = index_of(shard(whole, 1), whole.parent / "one.idx")
    assert (index.version, index.root) == (origin.version, whole)


def test_other_files_may_lie_beside_them(shards: Path, origin: DatasetIndex) -> None:
    put(shards, "README.md", ".pack-00000-of-00003.ddlp.0.unfinished", "notes/a.txt", data=b"text")
    assert index_of(shards).version == origin.version


def test_it_can_be_moved(tmp_path: Path, shards: Path, origin: DatasetIndex) -> None:
    index_of(shards)
    shards.rename(tmp_path / "elsewhere")
    with (tmp_path / "p.idx").open("rb") as source:
        relocate(source, tmp_path / "q.idx", {shards: tmp_path / "elsewhere"}, origin.version)
    assert DatasetIndex(tmp_path / "q.idx").read(3)


@pytest.mark.parametrize("missing", [[0], [1], [2], [0, 2]])
def test_missing_shards_are_named(shards: Path, missing: list[int]) -> None:
    for number in missing:
        (shards / f"pack-{number:05d}-of-00003.ddlp").unlink()
    with pytest.raises(InvalidInput, match=f"lacks {len(missing)} of 3 shards") as caught:
        index_of(shards)
    for number in missing:
        assert f"pack-{number:05d}-of-00003.ddlp" in str(caught.value)


def test_many_missing_shards_are_counted(tmp_path: Path) -> None:
    put(tmp_path / "p", "pack-00007-of-99999.ddlp", data=b"")
    with pytest.raises(InvalidInput, match=r"lacks 99,998 of 99,999 shards \(pack-00000-.*, …\)"):
        index_of(tmp_path / "p")


def test_shards_of_two_cuts_are_refused(shards: Path, origin: DatasetIndex) -> None:
    pack(origin, shards.parent / "other", per_shard=100)
    shutil.copy(shard(shards.parent / "other", 0), shards)
    with pytest.raises(InvalidInput, match="more than one packing, of 1 and of 3 shards"):
        index_of(shards)


@pytest.mark.parametrize(
    "other", [{"keep_heads": True}, {"quality": 50}, {"pictures": {"a.jpg": encoded()}}]
)
def test_a_shard_of_another_packing_is_named(
    tmp_path: Path, shards: Path, origin: DatasetIndex, other: dict[str, Any]
) -> None:
    if "pictures" in other:
        origin, other = dataset(tmp_path / "o", {f"{n}.jpg": encoded() for n in range(21)}), {}
    pack(origin, tmp_path / "other", **other)
    shutil.copy(shard(tmp_path / "other", 1), shards)
    with pytest.raises(InvalidInput, match=r"pack-00001-of-00003\.ddlp does not belong to"):
        index_of(shards)


def test_a_shard_with_the_name_of_another_is_named(shards: Path) -> None:
    shutil.copy(shard(shards, 0), shard(shards, 1))
    with pytest.raises(InvalidInput, match=r"00001-of-00003\.ddlp was written as pack-00000-of-"):
        index_of(shards)


@pytest.mark.parametrize("how", ["foot", "cut", "magic", "empty", "pipe"])
def test_a_damaged_shard_is_named(shards: Path, how: str) -> None:
    path = shard(shards, 1)
    if how == "foot":
        spoil(path, path.stat().st_size - 5)
    elif how == "cut":
        os.truncate(path, path.stat().st_size - 5)
    elif how == "magic":
        spoil(path, 0)
    else:
        path.unlink()
        path.touch() if how == "empty" else os.mkfifo(path)
    with pytest.raises(InvalidInput, match=rf"{path} cannot be used as a shard: it.*; remove it"):
        index_of(shards)


def test_only_a_full_check_reads_the_samples(shards: Path) -> None:
    path = shard(shards, 1)
    foot, _ = open_shard(path)
    spoil(path, int(foot.rows["place"][4]) + 30)
    index = index_of(shards)
    assert index.samples == len(mixed())
    name = foot.name(4).decode()
    with pytest.raises(InvalidInput, match=rf"{path}: the bytes of {name} are damaged; remove it"):
        index_of(shards, check="full")
    spoil(path, int(foot.rows["place"][4]) + 30)
    assert index_of(shards, check="full").version == index.version


def test_a_shard_that_was_changed_is_noticed(shards: Path) -> None:
    index = index_of(shards)
    index.expect(everything(index))
    index.read(0)
    os.utime(shard(shards, 0), ns=(7, 7))
    index.relax()
    with pytest.raises(ValueError, match="changed after it was indexed"):
        index.read(0)
    shard(shards, 1).unlink()
    with pytest.raises(FileNotFoundError):
        index.read(7)


def test_nothing_stays_open_when_an_index_is_let_go_of(whole: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    index = index_of(whole)
    index.expect(everything(index))
    index.read(0)
    assert len(os.listdir("/proc/self/fd")) > before + 3
    del index
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_shard_that_is_a_link_out_of_what_is_allowed_is_refused(
    tmp_path: Path, shards: Path
) -> None:
    (tmp_path / "secret").mkdir()
    path = shard(shards, 2)
    path.rename(tmp_path / "secret" / "s")
    path.symlink_to(tmp_path / "secret" / "s")
    with pytest.raises(InvalidInput, match="outside the allowed folders"):
        index_of(shards, allowed=())
    assert index_of(shards, allowed=(tmp_path / "secret",)).samples == len(mixed())


def test_a_scan_reports_shard_by_shard(whole: Path, tmp_path: Path) -> None:
    seen = []
    scan(whole, tmp_path / "i.idx", ScanOptions(), seen.append)
    assert (seen[-1].found, seen[-1].done, seen[-1].rejected) == (len(mixed()), len(mixed()), 0)
    assert seen[-1].current.endswith("pack-00002-of-00003.ddlp")
