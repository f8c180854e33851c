"""A batch as its file has it: labels, samples and extras stand beside their images."""

import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ddlp.core.batchfile import Array, unseal
from ddlp.core.dataset import DatasetIndex
from ddlp.core.errors import SystemFault
from ddlp.core.messages import Lease, WorkSpec
from ddlp.core.mishap import Mishap
from ddlp.core.pipeline import Engine, Pipeline, PipelineSpec
from ddlp.core.plan import RunPlan
from ddlp.core.produce import Producer
from ddlp.core.schedule.reports import Made
from ddlp.core.store import FolderStore, path_of
from ddlp.core.types import BadPolicy
from tests.core.pipeline.making import CROP, dataset, encoded, replace_unseen, smooth

SAMPLES, SEED = 10, 4
PIPELINE = Pipeline.parse(PipelineSpec(transforms=[CROP, {"name": "flip"}, {"name": "view"}]))


@pytest.fixture
def spoilt(tmp_path: Path) -> DatasetIndex:
    """Ten images, two of which are damaged."""
    index = dataset(tmp_path, *(encoded(smooth(30 + n, 60 - n), "JPEG") for n in range(SAMPLES)))
    for sample in (3, 7):
        replace_unseen(Path(index.name(sample)), b"nothing")
    return index


def make(
    index: DatasetIndex, folder: Path, on_bad: BadPolicy, **lease: Any
) -> tuple[Made, dict[str, Array]]:
    spec = WorkSpec(
        run=uuid.UUID(int=1),
        index_path=folder / "images.idx",
        dataset_version=index.version,
        transforms=PIPELINE.spec.transforms,
        pipeline_hash=PIPELINE.hash,
        plan=RunPlan(SAMPLES, SAMPLES, 2, SEED),
        on_bad=on_bad,
    )
    store = folder / f"store-{len(lease)}"
    store.mkdir()
    producer = Producer(spec, FolderStore(store), "host")
    made = producer.make(
        Lease(run=spec.run, epoch=1, index=0, token=1, places=((0, SAMPLES),), **lease)
    )
    return made, unseal(memoryview(path_of(made.location).read_bytes()))[1]


@pytest.mark.parametrize(("on_bad", "left"), [(BadPolicy.SKIP, 8), (BadPolicy.REPLACE, 10)])
def test_every_place_has_the_extras_of_the_sample_that_lies_there(
    tmp_path: Path, spoilt: DatasetIndex, on_bad: BadPolicy, left: int
) -> None:
    made, tensors = make(spoilt, tmp_path, on_bad)
    assert {bad.sample for bad in made.bad} == {3, 7}
    assert tensors["view"].shape == (left, 5)
    assert not {3, 7} & set(tensors["samples"].tolist())
    alone = Engine(spoilt, PIPELINE, SEED)
    for place, sample in enumerate(tensors["samples"]):
        pixels = np.zeros((1, 16, 16, 3), np.uint8)
        alone.fill(1, np.asarray([sample]), pixels)
        np.testing.assert_array_equal(tensors["images"][place], pixels[0])
        view = alone.extras(1, np.asarray([sample]))["view"]
        np.testing.assert_array_equal(tensors["view"][place], view[0])
    assert len(np.unique(tensors["view"], axis=0)) == len(set(tensors["samples"].tolist()))


def test_a_batch_that_is_made_with_care_has_the_same_extras(
    tmp_path: Path, spoilt: DatasetIndex
) -> None:
    quick, tensors = make(spoilt, tmp_path, BadPolicy.REPLACE)
    careful, same = make(spoilt, tmp_path, BadPolicy.REPLACE, losses=1)
    np.testing.assert_array_equal(same["view"], tensors["view"])
    assert careful.checksum == quick.checksum


def test_memory_that_cannot_be_had_for_a_moment_costs_nothing(
    tmp_path: Path, spoilt: DatasetIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, _ = make(spoilt, tmp_path, BadPolicy.SKIP)
    real, left = Engine.fill, [1] * 3

    def refuse(*arguments: Any) -> list[Mishap]:
        found = real(*arguments)
        if left:
            raise MemoryError(left.pop())
        return found

    monkeypatch.setattr(Engine, "fill", refuse)
    (tmp_path / "store-0").rename(tmp_path / "before")
    made, _ = make(spoilt, tmp_path, BadPolicy.SKIP)
    assert (made.checksum, made.bad) == (quick.checksum, quick.bad)


def test_memory_that_cannot_be_had_at_all_is_said(
    impatient: None, tmp_path: Path, spoilt: DatasetIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> list[Mishap]:
        raise MemoryError("unable to allocate 5 GiB")

    monkeypatch.setattr(Engine, "fill", refuse)
    with pytest.raises(SystemFault, match=r"memory for a batch failed with ENOMEM \(unable to all"):
        make(spoilt, tmp_path, BadPolicy.SKIP)


def test_the_seconds_of_a_batch_are_divided_into_stages(
    tmp_path: Path, spoilt: DatasetIndex
) -> None:
    made, _ = make(spoilt, tmp_path, BadPolicy.SKIP)
    stages = made.times.seconds
    assert all(seconds > 0 for seconds in stages.values())
    assert sum(stages.values()) <= made.seconds
    assert made.times.fetched_bytes > 0
    assert made.times.peak_bytes > 1 << 20


def test_what_is_slow_is_found_in_its_stage(
    tmp_path: Path, spoilt: DatasetIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded = DatasetIndex.encoded

    def slow(self: DatasetIndex, sample: int) -> Any:
        time.sleep(0.01)
        return encoded(self, sample)

    monkeypatch.setattr(DatasetIndex, "encoded", slow)
    made, _ = make(spoilt, tmp_path, BadPolicy.SKIP)
    assert made.times.fetch_s >= SAMPLES * 0.01
    assert made.times.decode_s < made.times.fetch_s


def test_a_slower_processor_takes_longer_at_every_stage(
    tmp_path: Path, spoilt: DatasetIndex
) -> None:
    spec_made, _ = make(spoilt, tmp_path, BadPolicy.SKIP)
    slower = spec_made.times.stretched(3.0)
    for stage, seconds in spec_made.times.seconds.items():
        assert slower.seconds[stage] == pytest.approx(3 * seconds)
    assert slower.fetched_bytes == spec_made.times.fetched_bytes
