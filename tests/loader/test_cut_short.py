"""Files of batches are cut short while a process trains: it lives, and the epoch is exact."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ddlp.core.errors import DamagedBatch
from ddlp.core.maps import OUTLIVES_LOSS
from ddlp.core.owned_folder import shared_memory
from ddlp.loader import DualLoader
from ddlp.loader.readers.base import Loaded
from ddlp.loader.tensors import TensorBatch, ToTensors
from tests.conftest import SMALL_PIPELINE, make_images, wait_until
from tests.loops import Loop, counts

SAMPLES, AHEAD = 40, 4
OPTIONS: dict[str, Any] = {"pipeline": SMALL_PIPELINE, "batch_size": 2, "workers": 1}

pytestmark = pytest.mark.skipif(not OUTLIVES_LOSS, reason="the module in C was not built")


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_images(tmp_path_factory.mktemp("data") / "few", SAMPLES)


def batch_files(pid: int) -> list[Path]:
    """The finished batches in the memory of a process's local run."""
    return sorted(shared_memory().glob(f"ddlp-local-{pid}-*/ddlp-run-*/0*"))


@pytest.mark.parametrize("normalize", [False, True])
def test_a_trainer_lives_and_its_epoch_is_exact(few: Path, normalize: bool) -> None:
    with Loop() as loop:
        loop.open(data=few, normalize=normalize, prefetch=AHEAD, **OPTIONS)
        got, cut = [], set()
        for _ in range(2):  # a third damage to one batch would end the run
            got += loop.take(3)
            wait_until(lambda: set(batch_files(loop.pid)) - cut, 10)
            for path in set(batch_files(loop.pid)) - cut:
                os.truncate(path, 0)
                cut.add(path)
        got += loop.take()
        assert cut
        assert counts(got) == dict.fromkeys(range(SAMPLES), 1)
        assert any("is made again" in line for line in loop.ask("said"))


@pytest.fixture
def loader(few: Path) -> Iterator[DualLoader]:
    with DualLoader.local(few, normalize=False, prefetch=AHEAD, **OPTIONS) as opened:
        yield opened


def cut_short(batch: TensorBatch) -> None:
    assert batch.file is not None
    os.truncate(batch.file.location, 0)


def test_a_batch_that_is_cut_short_while_training_uses_it_is_an_error(loader: DualLoader) -> None:
    batches = loader.batches()
    batch = next(batches)
    cut_short(batch)
    assert not batch.images.any()
    with pytest.raises(DamagedBatch, match=r"batch 0: .* images read as zeros .* last checkpoint"):
        next(batches)


def test_a_batch_that_is_cut_short_after_it_was_used_does_no_harm(loader: DualLoader) -> None:
    batches = loader.batches()
    batch = next(batches)
    batch.images.sum()
    cut_short(batch)
    samples = [batch.samples, *(batch.samples for batch in batches)]
    assert sorted(np.concatenate(samples).tolist()) == list(range(SAMPLES))


def test_a_batch_that_is_cut_short_before_it_is_converted_is_made_again(
    few: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert, cut = ToTensors.__call__, []

    def cut_first(self: ToTensors, index: int, loaded: Loaded, from_tail: bool) -> TensorBatch:
        if not cut:
            assert loaded.file is not None
            os.truncate(loaded.file.location, 0)
            cut.append(index)
        return convert(self, index, loaded, from_tail)

    monkeypatch.setattr(ToTensors, "__call__", cut_first)
    with DualLoader.local(few, **OPTIONS) as loader:
        found = list(loader.batches())
    assert cut
    assert all(batch.images.abs().sum() > 0 for batch in found)
    samples = np.concatenate([batch.samples for batch in found])
    assert sorted(samples.tolist()) == list(range(SAMPLES))


def test_files_that_others_may_write_to_are_copied(few: Path) -> None:
    with DualLoader.local(few, normalize=False, prefetch=AHEAD, **OPTIONS) as loader:
        batches = loader.batches()
        next(batches)
        wait_until(lambda: batch_files(os.getpid()), 10)
        found = []
        for batch in batches:
            found.append(batch)
            for path in batch_files(os.getpid()):
                path.chmod(0o666)
        reads = {(str(read.path), read.reason) for read in loader.reads}
        assert ("copy", "others may write to its files (mode 0666)") in reads
        assert any(batch.file is None for batch in found)
