"""A run over a packed dataset makes the same bytes as over its origin, bad samples included."""

import os
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ddlp.core.dataset import DatasetIndex
from ddlp.core.errors import BadSample
from ddlp.core.image import Kind
from ddlp.core.image.reference import Reference
from ddlp.core.mishap import Mishap
from ddlp.core.pipeline import PRESETS, Engine, Pipeline, PipelineSpec, kept, pictures
from ddlp.core.pipeline.isolated import IsolatedRenderer
from ddlp.core.types import BadPolicy
from tests.core.records.making import (
    NEEDS_KERNEL,
    dataset,
    encoded,
    everything,
    mixed,
    packed,
    undecodable,
)

pytestmark = NEEDS_KERNEL

SCALED = {"name": "decode", "dct_scaling": True}
PIPELINES = {
    "imagenet-train": PRESETS["imagenet-train"],
    "imagenet-val": PRESETS["imagenet-val"],
    "train-scaled": [SCALED, {"name": "random-resized-crop", "size": 32}, {"name": "flip"}],
    "val-scaled": [SCALED, {"name": "resize", "size": 40}, {"name": "centre-crop", "size": 32}],
    "as-stored": [{"name": "decode", "orient": False}, {"name": "random-resized-crop", "size": 64}],
    "floats": [
        {"name": "random-resized-crop", "size": 48},
        {"name": "flip"},
        {"name": "normalize", "early": True},
    ],
    "padded": [{"name": "pad-crop", "size": 96, "padding": 8}],
}

Batch = npt.NDArray[Any]


def epoch(
    index: DatasetIndex, steps: list[dict[str, Any]], on_bad: BadPolicy = BadPolicy.FAIL
) -> tuple[Batch, list[Mishap]]:
    """All samples in a shuffled order, as one batch of what is kept."""
    pipeline = Pipeline.parse(PipelineSpec(transforms=steps))
    samples = np.random.default_rng(5).permutation(everything(index))
    out = np.zeros((index.samples, *pipeline.shape), dtype=pipeline.dtype)
    mishaps = Engine(index, pipeline, 11, on_bad).fill(2, samples, out)
    return out[: len(kept(samples, mishaps))], mishaps


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> DatasetIndex:
    return dataset(tmp_path_factory.mktemp("origin"))


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory, origin: DatasetIndex) -> DatasetIndex:
    return packed(origin, tmp_path_factory.mktemp("twin") / "p")


@pytest.mark.parametrize("name", PIPELINES)
def test_an_epoch_is_the_same(name: str, origin: DatasetIndex, twin: DatasetIndex) -> None:
    expected, _ = epoch(origin, PIPELINES[name])
    found, _ = epoch(twin, PIPELINES[name])
    assert expected.any()
    np.testing.assert_array_equal(found, expected)


def test_a_sample_apart_is_the_same(origin: DatasetIndex, twin: DatasetIndex) -> None:
    pipeline = Pipeline.parse(PipelineSpec(transforms=PRESETS["imagenet-train"]))
    out = np.zeros((2, 3, *pipeline.shape), dtype=pipeline.dtype)
    with IsolatedRenderer(twin.path, pipeline, 11) as apart:
        assert apart.render(2, np.asarray([0, 7, 19]), out[0]) == {}
    Engine(origin, pipeline, 11).fill(2, np.asarray([0, 7, 19]), out[1])
    np.testing.assert_array_equal(out[0], out[1])


@pytest.mark.parametrize("name", ["imagenet-val", "train-scaled"])
def test_the_reference_reads_records_to_the_same_end(
    name: str, origin: DatasetIndex, twin: DatasetIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, _ = epoch(origin, PIPELINES[name])
    monkeypatch.setattr(pictures, "backend", Reference)
    found, _ = epoch(twin, PIPELINES[name])
    np.testing.assert_array_equal(found, expected)


def damaged() -> dict[str, bytes]:
    """Pictures of which some only turn out bad when they are decoded."""
    good = encoded(side=150)
    middle = bytearray(good)
    middle[len(good) // 2 : len(good) // 2 + 40] = bytes(40)
    return mixed() | {"middle.jpg": bytes(middle), "tables.jpg": undecodable()}


@pytest.mark.parametrize("on_bad", [BadPolicy.SKIP, BadPolicy.REPLACE])
@pytest.mark.parametrize("name", ["imagenet-train", "val-scaled"])
def test_bad_samples_are_bad_in_the_same_way(tmp_path: Path, name: str, on_bad: BadPolicy) -> None:
    origin = dataset(tmp_path, damaged())
    twin = packed(origin, tmp_path / "p")
    expected, theirs = epoch(origin, PIPELINES[name], on_bad)
    found, ours = epoch(twin, PIPELINES[name], on_bad)
    assert theirs
    assert [(m.sample, m.reason, m.substitute) for m in ours] == [
        (m.sample, m.reason, m.substitute) for m in theirs
    ]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["imagenet-train", "val-scaled"])
def test_what_could_not_be_read_is_met_again_as_empty(tmp_path: Path, name: str) -> None:
    origin = dataset(tmp_path)
    os.unlink(origin.name(4))
    twin = packed(origin, tmp_path / "p", on_bad="skip")
    found, [mishap] = epoch(twin, PIPELINES[name], BadPolicy.SKIP)
    expected, [theirs] = epoch(origin, PIPELINES[name], BadPolicy.SKIP)
    assert (mishap.sample, mishap.reason) == (4, "it is empty")
    assert (theirs.sample, theirs.reason) == (4, "it is gone")
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"max_pixels": 399}, "pixels, more than 399"),
        ({"max_bytes": 100}, "bytes, more than 100"),
        ({"max_seconds": 1e-9}, "decoding it took longer than"),
    ],
)
def test_limits_hold_for_records(twin: DatasetIndex, limits: dict[str, float], reason: str) -> None:
    steps = [{"name": "decode", **limits}, *PRESETS["imagenet-val"]]
    records = np.flatnonzero(twin.heads(everything(twin)).kind == Kind.RECORD)
    pipeline = Pipeline.parse(PipelineSpec(transforms=steps))
    for sample in records[:3]:
        with pytest.raises(BadSample, match=reason):
            Engine(twin, pipeline, 0).fill(
                0, np.asarray([sample]), np.zeros((1, *pipeline.shape), pipeline.dtype)
            )


@pytest.mark.parametrize("at", [0, 8, 400])
def test_a_damaged_record_is_a_bad_sample(tmp_path: Path, at: int) -> None:
    origin = dataset(tmp_path, {"a.jpg": encoded(side=200), "b.jpg": encoded(side=201)})
    twin = packed(origin, tmp_path / "p", per_shard=1)
    path = tmp_path / "p" / "pack-00000-of-00002.ddlp"
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(64 + at)
        file.write(b"\xff" * 24)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    _, [mishap] = epoch(twin, PIPELINES["imagenet-val"], BadPolicy.SKIP)
    assert mishap.sample == 0


def test_shards_that_are_gone_are_bad_samples_and_a_lost_folder_is_not(tmp_path: Path) -> None:
    twin = packed(dataset(tmp_path, {"a.jpg": encoded(), "b.jpg": encoded()}), tmp_path / "p")
    (tmp_path / "p" / "pack-00000-of-00001.ddlp").rename(tmp_path / "shard")
    with pytest.raises(BadSample, match="it is gone"):
        epoch(twin, PIPELINES["imagenet-val"])
    (tmp_path / "p").rmdir()
    with pytest.raises(Exception, match="is it mounted") as caught:
        epoch(twin, PIPELINES["imagenet-val"])
    assert not isinstance(caught.value, BadSample)


def open_shards() -> Counter[str]:
    """Shards that this process has open; what other tests left may be closed at any time."""
    found: Counter[str] = Counter()
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the folder's own entry, for one
            found[os.readlink(f"/proc/self/fd/{name}")] += 1
    return Counter({path: count for path, count in found.items() if path.endswith(".ddlp")})


def test_a_batch_leaves_no_shard_open(twin: DatasetIndex) -> None:
    before = open_shards()
    epoch(twin, PIPELINES["imagenet-val"])
    assert open_shards() - before == Counter()
