"""A shard is packed once: whole, the same whoever packs it, and never over another's."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ddlp.core.dataset import DatasetIndex, scan
from ddlp.core.dataset.shards import open_shard
from ddlp.core.errors import BadSample, Conflict, InvalidInput, Unavailable
from ddlp.core.image import Kind, backend
from ddlp.core.pipeline import Engine, Pipeline, PipelineSpec
from ddlp.core.records import PackOptions, PackProgress, pack_shard, plan_shards
from ddlp.core.types import BadPolicy
from tests.core.records.making import (
    NEEDS_KERNEL,
    PER_SHARD,
    RECORDS,
    contents,
    dataset,
    encoded,
    mixed,
    pack,
    packed,
    spoil,
)


@pytest.mark.parametrize(
    ("samples", "per_shard", "lengths"),
    [(1, 1024, [1]), (1024, 1024, [1024]), (1025, 1024, [1024, 1]), (7, 2, [2, 2, 2, 1])],
)
def test_every_sample_has_its_shard(samples: int, per_shard: int, lengths: list[int]) -> None:
    plan = plan_shards(samples, per_shard)
    assert [len(shard) for shard in plan] == lengths
    assert [sample for shard in plan for sample in shard] == list(range(samples))


@pytest.mark.parametrize(("samples", "per_shard"), [(0, 5), (5, 0), (5, -1)])
def test_a_plan_that_cannot_be_is_refused(samples: int, per_shard: int) -> None:
    with pytest.raises(InvalidInput, match=f"{samples} samples cannot be packed {per_shard} to a"):
        plan_shards(samples, per_shard)


@NEEDS_KERNEL
def test_a_shard_says_what_it_holds(tmp_path: Path) -> None:
    index = dataset(tmp_path)
    made = pack(index, tmp_path / "p")
    assert [shard.number for shard in made] == [0, 1, 2]
    assert [shard.samples for shard in made] == [7, 7, 6]
    assert sum(shard.records for shard in made) == RECORDS
    assert sum(shard.origin_bytes for shard in made) == index.total_bytes
    assert [shard.bytes for shard in made] == [
        path.stat().st_size for path in sorted((tmp_path / "p").iterdir())
    ]
    assert not any(shard.found or shard.skipped for shard in made)
    foot, _ = open_shard(tmp_path / "p" / "pack-00001-of-00003.ddlp")
    assert (foot.part.first, foot.part.samples) == (7, 7)
    assert foot.origin.version == index.version
    assert foot.origin.total_bytes == index.total_bytes
    for place in range(7):
        row, name = index.row(7 + place)
        assert foot.name(place) == name
        data = index.read(7 + place)
        record = backend().pack_record(data, False) if row.kind == Kind.JPEG else None
        stored = data if record is None else record
        start, size = int(foot.rows["place"][place]), int(foot.rows["size"][place])
        raw = (tmp_path / "p" / "pack-00001-of-00003.ddlp").read_bytes()
        assert raw[start : start + size] == stored


@NEEDS_KERNEL
def test_what_is_there_is_not_packed_again(tmp_path: Path) -> None:
    index = dataset(tmp_path)
    first = pack(index, tmp_path / "p")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "p").iterdir()}
    again = pack(index, tmp_path / "p", on_bad="skip")
    assert all(shard.found for shard in again)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "p").iterdir()} == before
    assert [(s.records, s.bytes) for s in again] == [(s.records, s.bytes) for s in first]


@NEEDS_KERNEL
def test_the_bytes_do_not_depend_on_when_and_where(tmp_path: Path) -> None:
    index = dataset(tmp_path)
    pack(index, tmp_path / "p")
    pack(index, tmp_path / "q")
    assert contents(tmp_path / "p") == contents(tmp_path / "q")


@NEEDS_KERNEL
@pytest.mark.parametrize("how", ["cut", "foot", "empty"])
def test_a_damaged_shard_is_packed_again(tmp_path: Path, how: str) -> None:
    index = dataset(tmp_path)
    pack(index, tmp_path / "p")
    before = contents(tmp_path / "p")
    path = tmp_path / "p" / "pack-00001-of-00003.ddlp"
    if how == "foot":
        spoil(path, path.stat().st_size - 9)
    else:
        os.truncate(path, 0 if how == "empty" else path.stat().st_size - 100)
    assert [shard.found for shard in pack(index, tmp_path / "p")] == [True, False, True]
    assert contents(tmp_path / "p") == before


@NEEDS_KERNEL
@pytest.mark.parametrize("other", [{"keep_heads": True}, {"quality": 80}, {"max_side": 9}])
def test_a_shard_packed_in_another_way_is_not_touched(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    index = dataset(tmp_path)
    pack(index, tmp_path / "p")
    before = contents(tmp_path / "p")
    with pytest.raises(InvalidInput, match=r"00-of-00003\.ddlp is a shard of another dataset, or"):
        pack(index, tmp_path / "p", **other)
    assert contents(tmp_path / "p") == before


@NEEDS_KERNEL
def test_a_shard_of_another_dataset_is_not_touched(tmp_path: Path) -> None:
    pack(dataset(tmp_path / "a"), tmp_path / "p")
    with pytest.raises(InvalidInput, match="is a shard of another dataset"):
        pack(dataset(tmp_path / "b", mixed() | {"grey.jpg": encoded("L")}), tmp_path / "p")


@NEEDS_KERNEL
def test_it_reports_and_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddlp.core.records.progress._REPORT_EVERY_S", 0)
    index = dataset(tmp_path)
    plan = plan_shards(index.samples, PER_SHARD)
    seen: list[PackProgress] = []
    pack_shard(index, plan, 0, PackOptions(), tmp_path / "p", seen.append)
    assert [now.samples for now in seen] == sorted(now.samples for now in seen)
    assert seen[-1].samples == 7
    assert seen[0].current == index.row(0)[1].decode()
    before = contents(tmp_path / "p")
    with pytest.raises(Conflict, match=r"pack-00001-of-00003\.ddlp was stopped"):
        pack_shard(index, plan, 1, PackOptions(), tmp_path / "p", stop=lambda: True)
    assert contents(tmp_path / "p") == before


@NEEDS_KERNEL
@pytest.mark.parametrize("how", ["gone", "changed", "folder"])
def test_a_sample_that_cannot_be_read_fails_or_is_skipped(tmp_path: Path, how: str) -> None:
    index = dataset(tmp_path)
    path = Path(index.name(9))
    if how == "changed":
        os.utime(path, ns=(5, 5))
    else:
        path.unlink()
    if how == "folder":
        path.mkdir()
    reason = {"gone": "it is gone", "changed": "it was changed", "folder": "it "}[how]
    with pytest.raises(BadSample, match=f"{path} cannot be packed: {reason}.*--on-bad skip"):
        pack(index, tmp_path / "p")
    assert sorted(contents(tmp_path / "p")) == ["pack-00000-of-00003.ddlp"]
    made = pack(index, tmp_path / "p", on_bad="skip")
    assert [shard.found for shard in made] == [True, False, False]
    assert [shard.skipped for shard in made] == [0, 1, 0]
    foot, _ = open_shard(tmp_path / "p" / "pack-00001-of-00003.ddlp")
    [(sample, name, why)] = foot.skipped
    assert (sample, name) == (9, str(path.relative_to(index.root)))
    assert why.startswith(reason)
    assert foot.rows["size"][2] == 0
    scan(tmp_path / "p", tmp_path / "p.idx")
    twin = DatasetIndex(tmp_path / "p.idx")
    assert twin.version != index.version  # it lacks something: it is not the same dataset
    assert twin.read(9) == b""


@NEEDS_KERNEL
def test_a_dataset_that_is_not_mounted_is_no_bad_sample(tmp_path: Path) -> None:
    index = dataset(tmp_path)
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    with pytest.raises(Unavailable, match="is it mounted"):
        pack(index, tmp_path / "p", on_bad="skip")


@NEEDS_KERNEL
def test_what_could_not_be_read_is_no_record_of_a_packed_dataset_either(tmp_path: Path) -> None:
    index = dataset(tmp_path)
    for sample in range(7):
        os.unlink(index.name(sample))
    twin = packed(index, tmp_path / "p", on_bad="skip")
    made = pack(twin, tmp_path / "q", on_bad="skip", quality=80)
    assert (made[0].skipped, made[0].records) == (7, 0)
    (tmp_path / "p" / "pack-00001-of-00003.ddlp").unlink()
    [_, again, _] = pack(DatasetIndex(tmp_path / "p.idx"), tmp_path / "r", on_bad="skip", quality=8)
    assert (again.skipped, again.records) == (7, 0)


@NEEDS_KERNEL
def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match=r"file/p cannot be written to \(Not a directory\)"):
        pack(dataset(tmp_path), tmp_path / "file" / "p")


@NEEDS_KERNEL
def test_a_damaged_jpeg_is_kept_as_it_is(tmp_path: Path) -> None:
    index = dataset(tmp_path, {"a.jpg": encoded(side=300), "b.jpg": encoded()})
    sample = next(n for n in range(2) if index.name(n).endswith("a.jpg"))
    path = Path(index.name(sample))
    for at in range(4000, 4040):
        spoil(path, at)
    twin = packed(index, tmp_path / "p")
    assert twin.read(sample) == path.read_bytes()
    assert twin.heads(np.asarray([sample])).kind[0] == Kind.JPEG


def test_raw_pixels_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.zeros((3, 8, 8, 3), np.uint8), y=np.zeros(3, np.int64))
    scan(tmp_path / "d.npz", tmp_path / "d.idx")
    with pytest.raises(InvalidInput, match="holds raw pixels, which need no decoding"):
        pack(DatasetIndex(tmp_path / "d.idx"), tmp_path / "p")


@NEEDS_KERNEL
def test_what_is_packed_is_not_packed_again_but_for_loss(tmp_path: Path) -> None:
    index = dataset(tmp_path)
    twin = packed(index, tmp_path / "p")
    with pytest.raises(InvalidInput, match="is packed already"):
        pack(twin, tmp_path / "q")
    small = packed(twin, tmp_path / "q", max_side=50, quality=80)
    direct = packed(index, tmp_path / "r", max_side=50, quality=80)
    for sample in range(index.samples):
        assert small.read(sample) == direct.read(sample)


def test_without_the_kernel_nothing_is_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ddlp.core.image.reference import Reference
    from ddlp.core.records import sample

    monkeypatch.setattr(sample, "backend", Reference)
    with pytest.raises(InvalidInput, match="kernel"):
        pack(dataset(tmp_path), tmp_path / "p")
    assert contents(tmp_path / "p") == {}


@NEEDS_KERNEL
def test_a_shard_that_two_make_at_once_is_the_first_ones(tmp_path: Path) -> None:
    """An index may rely on it by now: not even its time of change is another."""
    index = dataset(tmp_path)
    plan = plan_shards(index.samples, PER_SHARD)
    into, states = tmp_path / "p", []

    def another_is_faster(now: PackProgress) -> None:
        if now.samples == 3 and not states:
            pack_shard(index, plan, 0, PackOptions(), into)
            states.append(os.stat(into / "pack-00000-of-00003.ddlp"))

    monotonic = iter(range(10**6))
    with pytest.MonkeyPatch.context() as patch:  # reports at every step
        patch.setattr("ddlp.core.records.progress.time.monotonic", lambda: float(next(monotonic)))
        pack_shard(index, plan, 0, PackOptions(), into, another_is_faster)
    [before] = states
    after = os.stat(into / "pack-00000-of-00003.ddlp")
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert sorted(os.listdir(into)) == ["pack-00000-of-00003.ddlp"]


@NEEDS_KERNEL
def test_samples_that_were_skipped_are_tried_again(tmp_path: Path) -> None:
    index = dataset(tmp_path)
    path = Path(index.name(9))
    data, state = path.read_bytes(), path.stat()
    path.unlink()
    assert sum(shard.skipped for shard in pack(index, tmp_path / "p", on_bad="skip")) == 1
    with pytest.raises(BadSample, match="it is gone"):
        pack(index, tmp_path / "p")
    path.write_bytes(data)
    os.utime(path, ns=(state.st_mtime_ns, state.st_mtime_ns))
    again = pack(index, tmp_path / "p")
    assert [shard.found for shard in again] == [True, False, True]
    assert sum(shard.skipped for shard in again) == 0
    scan(tmp_path / "p", tmp_path / "p.idx")
    assert DatasetIndex(tmp_path / "p.idx").version == index.version


@NEEDS_KERNEL
def test_what_is_still_missing_leaves_the_shard_as_it_is(tmp_path: Path) -> None:
    index = dataset(tmp_path)
    Path(index.name(9)).unlink()
    pack(index, tmp_path / "p", on_bad="skip")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "p").iterdir()}
    pack(index, tmp_path / "p", on_bad="skip")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "p").iterdir()} == before


@NEEDS_KERNEL
def test_the_limit_of_bytes_counts_those_of_the_original(tmp_path: Path) -> None:
    index = dataset(tmp_path)
    pack(index, tmp_path / "p")
    scan(tmp_path / "p", tmp_path / "p.idx")
    twin = DatasetIndex(tmp_path / "p.idx")
    samples = np.arange(index.samples)
    np.testing.assert_array_equal(twin.heads(samples).nbytes, index.heads(samples).nbytes)
    assert (twin.sizes(samples) > index.sizes(samples)).any()
    limit = int(np.median(index.sizes(samples)))
    steps = [{"name": "decode", "max_bytes": limit}, {"name": "random-resized-crop", "size": 16}]
    pipeline = Pipeline.parse(PipelineSpec(transforms=steps))
    bad = []
    for one in (index, twin):
        engine = Engine(one, pipeline, 3, BadPolicy.SKIP)
        out = np.zeros((len(samples), *pipeline.shape), pipeline.dtype)
        bad.append([(m.sample, m.reason) for m in engine.fill(0, samples, out)])
    assert bad[0] == bad[1]
    assert 0 < len(bad[0]) < len(samples)


@NEEDS_KERNEL
def test_an_index_says_how_its_samples_were_packed(tmp_path: Path) -> None:
    index = dataset(tmp_path)
    assert index.packing is None
    pack(index, tmp_path / "p", max_side=40)
    scan(tmp_path / "p", tmp_path / "p.idx")
    wanted = {"max_side": 40, "quality": None, "keep_heads": False}
    assert DatasetIndex(tmp_path / "p.idx").packing == wanted
