"""`DualLoader.local`: a run inside the training process."""

import gc
import os
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from ddlp.core.errors import Conflict, DdlpError, InvalidInput
from ddlp.core.owned_folder import shared_memory
from ddlp.loader import DualLoader
from tests.conftest import SMALL_PIPELINE, make_images, wait_until


def local(images: Path, **options: Any) -> DualLoader:
    return DualLoader.local(
        images, **{"pipeline": SMALL_PIPELINE, "batch_size": 8, "workers": 2, **options}
    )


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False


def leftovers() -> list[Path]:
    return list(shared_memory().glob(f"ddlp-local-{os.getpid()}-*"))


@pytest.mark.parametrize(
    ("strategy", "csd_speed"),
    [("cpu", None), ("wrr", None), ("wrr", 0.5), ("mte", 0.5), ("csd", 1.0)],
)
def test_each_epoch_delivers_each_sample_once(
    images: Path, strategy: str, csd_speed: float | None
) -> None:
    with local(images, strategy=strategy, csd_speed=csd_speed, epochs=2) as loader:
        assert len(loader) == 16
        for _ in range(2):
            seen: Counter[int] = Counter()
            for batch in loader.batches():
                seen.update(batch.samples.tolist())
            assert seen == Counter(range(123))
    assert leftovers() == []


def test_a_plain_training_loop_gets_normalised_images_and_labels(images: Path) -> None:
    with local(images) as loader:
        for images_, labels in loader:
            assert images_.dtype == torch.float32
            assert images_.shape[1:] == (3, 32, 32)
            assert labels.dtype == torch.int64
            assert set(labels.tolist()) <= {0, 1, 2}
            assert abs(float(images_.mean())) < 3


def test_more_passes_than_epochs_are_refused(images: Path) -> None:
    with local(images) as loader:
        assert sum(1 for _ in loader) == 16
        with pytest.raises(Conflict, match="all 1 epochs of the run were delivered"):
            next(iter(loader))


def test_leaving_a_pass_early_goes_on_with_the_next_epoch(images: Path) -> None:
    with local(images, epochs=2) as loader:
        for _ in loader:
            break
        assert loader.epoch == 1
        assert sum(1 for _ in loader) == 16


def test_a_state_saved_after_an_interruption_still_names_its_step(images: Path) -> None:
    with local(images, epochs=2) as loader:
        with suppress(KeyboardInterrupt):
            for step, _ in enumerate(loader):
                if step == 2:
                    raise KeyboardInterrupt
        state = loader.state_dict()
    assert (state["epoch"], state["step"]) == (0, 3)
    with local(images, epochs=2) as again:
        again.load_state_dict(state)
        assert sum(1 for _ in again) == 13


def test_a_killed_worker_loses_nothing(images: Path) -> None:
    with local(images, batch_size=2) as loader:
        seen: Counter[int] = Counter()
        for step, batch in enumerate(loader.batches()):
            seen.update(batch.samples.tolist())
            if step == 4:
                os.kill(loader._feed.worker_pids[0], signal.SIGKILL)  # type: ignore[attr-defined]
    assert seen == Counter(range(123))


def test_a_batch_that_cannot_be_made_ends_the_pass_with_the_reason(tmp_path: Path) -> None:
    images = make_images(tmp_path / "fruit", 20)
    (images / "plum" / "0002.jpg").write_bytes(b"nothing")
    with (
        local(images) as loader,
        pytest.raises(DdlpError, match=r"plum/0002\.jpg cannot be decoded"),
    ):
        list(loader)


def test_a_state_leads_to_just_the_rest_in_a_new_process(images: Path) -> None:
    for strategy, csd_speed in (("cpu", None), ("wrr", 0.5), ("mte", 0.5), ("csd", 1.0)):
        options = {"strategy": strategy, "csd_speed": csd_speed, "batch_size": 4}
        with local(images, **options) as loader:
            batches = loader.batches()
            before = [next(batches).index for _ in range(17)]
            state = loader.state_dict()
            batches.close()
        with local(images, **options) as again:
            again.load_state_dict(state)
            rest = [batch.index for batch in again.batches()]
        assert sorted(before + rest) == list(range(31)), strategy


def test_a_state_of_another_run_is_refused(images: Path) -> None:
    with local(images) as loader:
        state = loader.state_dict()
    with local(images, seed=9) as other, pytest.raises(InvalidInput, match="of another run"):
        other.load_state_dict(state)


def test_processes_and_files_go_with_the_loader(images: Path) -> None:
    loader = local(images)
    batches = loader.batches()
    next(batches)
    pids = loader._feed.worker_pids  # type: ignore[attr-defined]
    assert all(alive(pid) for pid in pids)
    batches.close()
    del loader, batches
    gc.collect()
    wait_until(lambda: not any(alive(pid) for pid in pids))
    assert leftovers() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size=0 is too small"),
        ({"batch_size": 500}, "is more than the dataset's 123 samples"),
        ({"strategy": "magic"}, "no strategy 'magic'"),
        ({"strategy": "csd"}, "give csd_speed to emulate one"),
        ({"csd_speed": 2.0}, "not above 0 and at most 1"),
        ({"pipeline": "magic"}, "no pipeline 'magic'"),
        ({"prefetch": 0}, "prefetch=0 is not from 1 to 256"),
        ({"epochs": 0}, "epochs=0 is too small"),
    ],
)
def test_what_makes_no_sense_is_refused_and_leaves_nothing(
    images: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        local(images, **options)
    assert leftovers() == []


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        DualLoader.local(tmp_path / "nowhere")
