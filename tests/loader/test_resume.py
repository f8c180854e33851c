"""Where a pass stands can be saved at any batch, in a few bytes, and taken up from there."""

import json
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ddlp.core.errors import Conflict, InvalidInput
from ddlp.loader import DualLoader
from ddlp.loader.feed import LoaderState
from ddlp.loader.tensors import TensorBatch
from tests.conftest import SMALL_PIPELINE, make_images

BATCHES = 7
STRATEGIES = {"cpu": None, "wrr": 0.5, "mte": 0.5, "bounded": 0.5, "csd": 1.0}
STRICT = ("cpu", "csd")
Print = tuple[tuple[int, ...], int]


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images for seven batches, the last of them short."""
    return make_images(tmp_path_factory.mktemp("data") / "few", BATCHES * 3 - 1)


def local(images: Path, **options: Any) -> DualLoader:
    return DualLoader.local(
        images, **{"pipeline": SMALL_PIPELINE, "batch_size": 3, "workers": 2, **options}
    )


def fingerprint(batch: TensorBatch) -> Print:
    """A batch: its samples and its pixels."""
    return tuple(batch.samples.tolist()), zlib.crc32(batch.images.contiguous().numpy())


@pytest.mark.parametrize(
    "strategy",
    [name if name == "wrr" else pytest.param(name, marks=pytest.mark.long) for name in STRATEGIES],
)
def test_a_pass_that_is_stopped_anywhere_is_finished_by_other_workers(
    few: Path, strategy: str
) -> None:
    options = {"strategy": strategy, "csd_speed": STRATEGIES[strategy]}
    with local(few, **options) as loader:
        states = [loader.state_dict()]
        whole: list[Print] = []
        for batch in loader.batches():
            whole.append(fingerprint(batch))
            states.append(loader.state_dict())
    assert sorted(sample for samples, _ in whole for sample in samples) == list(range(20))
    for stop, state in enumerate(states[:BATCHES]):
        with local(few, **options, workers=1 + stop % 3) as again:
            again.load_state_dict(json.loads(json.dumps(state)))
            rest = [fingerprint(batch) for batch in again.batches()]
        assert sorted(whole[:stop] + rest) == sorted(whole), f"stopped after {stop}"
        if strategy in STRICT:
            assert whole[:stop] + rest == whole


def test_a_state_taken_with_the_last_batch_at_hand_goes_on_with_the_next_epoch(few: Path) -> None:
    with local(few, epochs=2) as loader:
        for _ in loader:
            state = loader.state_dict()
    with local(few, epochs=2) as again:
        again.load_state_dict(state)
        assert again.epoch == 1
        assert sum(1 for _ in again) == BATCHES


def test_the_split_of_mte_is_kept_over_a_stop(few: Path) -> None:
    options: dict[str, Any] = {"strategy": "mte", "csd_speed": 0.5, "batch_size": 1}
    with local(few, **options) as loader:
        for _ in loader:
            state = loader.state_dict()
            if "split" in state["settled"]:
                break
    with local(few, **options) as again:
        again.load_state_dict(state)
        rest = [int(batch.samples[0]) for batch in again.batches()]
    with local(few, batch_size=1, workers=1, strategy="cpu") as plain:
        place = {int(batch.samples[0]): index for index, batch in enumerate(plain.batches())}
    order = [place[sample] for sample in rest]
    split, heads = int(state["settled"]["split"]), state["heads"]
    tails = state["position"] - heads
    assert order == [*range(heads, split), *range(19 - tails, split - 1, -1)]


def test_a_state_saved_after_an_interruption_still_names_its_step(few: Path) -> None:
    with local(few, epochs=2) as loader:
        with suppress(KeyboardInterrupt):
            for step, _ in enumerate(loader):
                if step == 2:
                    raise KeyboardInterrupt
        state = loader.state_dict()
    assert (state["epoch"], state["position"]) == (0, 3)
    with local(few, epochs=2) as again:
        again.load_state_dict(state)
        assert sum(1 for _ in again) == BATCHES - 3


def test_a_state_is_small_and_does_not_grow(few: Path) -> None:
    with local(few, batch_size=1, strategy="bounded", csd_speed=1.0) as loader:
        sizes = [len(json.dumps(loader.state_dict())) for _ in loader]
    assert len(sizes) == 20
    assert max(sizes) < 1024
    assert max(sizes) - min(sizes) < 100, "digits, and what the strategy has fixed"


def test_the_state_of_a_huge_run_is_small_too() -> None:
    run = {"samples": 10**12, "dataset": "d" * 64, "pipeline": "e" * 64, "seed": 2**63 - 1}
    state = LoaderState(10**6, 10**10, run, 10**10, {"split": 1e10, "share": 1 / 3})
    assert len(json.dumps(vars(state))) < 4096


def test_a_state_of_another_run_is_refused(few: Path) -> None:
    with local(few) as loader:
        state = loader.state_dict()
    for name, value in ({"seed": 9, "batch_size": 4, "reshuffle": False}).items():
        with (
            local(few, **{name: value}) as loader,
            pytest.raises(InvalidInput, match=f"does not fit this run: it is of {name} .*, not"),
        ):
            loader.load_state_dict(state)


def test_a_state_fits_runs_that_treat_the_same_batches_otherwise(few: Path) -> None:
    with local(few) as loader:
        next(iter(loader))
        state = loader.state_dict()
    for other in ({"tail": "drop"}, {"on_bad": "replace"}, {"epochs": 7}, {"strategy": "cpu"}):
        with local(few, **other) as loader:
            loader.load_state_dict(state)
            assert loader.epoch == 0
            assert sum(len(labels) for _, labels in loader) in {17, 15}


@pytest.mark.parametrize("state", [{}, {"step": 3}, {"epoch": 0, "position": 1, "run": {}, "x": 1}])
def test_what_is_no_state_is_refused(few: Path, state: dict[str, Any]) -> None:
    with local(few) as loader, pytest.raises(InvalidInput, match="no state of a DualLoader"):
        loader.load_state_dict(state)


def test_a_state_that_is_loaded_during_a_pass_ends_it(few: Path) -> None:
    with local(few) as loader:
        state = loader.state_dict()
        batches = loader.batches()
        next(batches)
        loader.load_state_dict(state)
        with pytest.raises(Conflict, match="this pass was ended by a later one"):
            next(batches)
        assert sum(1 for _ in loader) == BATCHES


def test_a_state_that_is_loaded_between_passes_leads_back(few: Path) -> None:
    with local(few, epochs=2) as loader:
        batches = loader.batches()
        before = [fingerprint(next(batches)) for _ in range(2)]
        state = loader.state_dict()
        first = [*before, *(fingerprint(batch) for batch in batches)]
        next(loader.batches())
        loader.load_state_dict(state)
        again = [*before, *(fingerprint(batch) for batch in loader.batches())]
        assert sorted(again) == sorted(first)
        assert loader.epoch == 1


def test_a_state_that_does_not_say_all_is_refused(few: Path) -> None:
    with local(few) as loader:
        state = {**loader.state_dict(), "heads": None}
        with pytest.raises(InvalidInput, match="before all was known that another run needs"):
            loader.load_state_dict(state)


# set_epoch


def test_the_usual_loop_with_set_epoch_gets_every_epoch(few: Path) -> None:
    with local(few, epochs=3) as loader, local(few, epochs=3) as plain:
        for epoch in range(3):
            loader.set_epoch(epoch)
            found = sorted(fingerprint(batch) for batch in loader.batches())
            assert found == sorted(fingerprint(batch) for batch in plain.batches())


def test_the_usual_loop_with_set_epoch_goes_on_in_the_middle_of_an_epoch(few: Path) -> None:
    with local(few, epochs=2) as loader:
        batches = loader.batches()
        before = [fingerprint(next(batches)) for _ in range(3)]
        state = loader.state_dict()
    with local(few, epochs=2) as loader:
        loader.load_state_dict(state)
        passes: list[list[Print]] = []
        for epoch in range(loader.epoch, 2):
            loader.set_epoch(epoch)
            passes.append([fingerprint(batch) for batch in loader.batches()])
    first = [sample for samples, _ in before + passes[0] for sample in samples]
    assert sorted(first) == list(range(20))
    assert len(passes) == 2


def test_a_state_before_a_pass_is_of_the_epoch_that_was_set(few: Path) -> None:
    with local(few, epochs=3) as loader:
        loader.set_epoch(2)
        state = loader.state_dict()
        wanted = sorted(fingerprint(batch) for batch in loader.batches())
    assert (state["epoch"], state["position"]) == (2, 0)
    with local(few, epochs=3) as loader:
        loader.load_state_dict(state)
        assert loader.epoch == 2
        assert sorted(fingerprint(batch) for batch in loader.batches()) == wanted


def test_a_state_that_is_refused_leaves_the_pass_as_it_was(few: Path) -> None:
    with local(few) as loader:
        batches = loader.batches()
        next(batches)
        with pytest.raises(InvalidInput, match="no state of a DualLoader"):
            loader.load_state_dict({"epoch": 0, "position": 0, "run": "photos-1"})
        assert len(list(batches)) == BATCHES - 1


def test_an_epoch_may_be_skipped(few: Path) -> None:
    with local(few, epochs=4) as loader:
        loader.set_epoch(2)
        skipped = sorted(fingerprint(batch) for batch in loader.batches())
        assert loader.epoch == 3
    with local(few, epochs=4) as loader:
        passes = [sorted(fingerprint(batch) for batch in loader.batches()) for _ in range(3)]
    assert skipped == passes[2]


def test_after_a_pass_that_was_left_early_the_next_epoch_can_be_set(few: Path) -> None:
    with local(few, epochs=3) as loader:
        for _ in loader:
            break
        loader.set_epoch(1)
        assert sum(1 for _ in loader) == BATCHES
        assert loader.epoch == 2


@pytest.mark.parametrize("epoch", [-1, 4])
def test_an_epoch_that_the_run_does_not_have_is_refused(few: Path, epoch: int) -> None:
    with (
        local(few, epochs=3) as loader,
        pytest.raises(InvalidInput, match=f"epoch {epoch} is not one of the run's 3"),
    ):
        loader.set_epoch(epoch)


def test_the_epoch_after_the_last_one_is_one_more(few: Path) -> None:
    with local(few, epochs=1) as loader:
        assert sum(1 for _ in loader) == BATCHES
        loader.set_epoch(1)
        assert sum(1 for _ in loader) == BATCHES
        assert loader.epochs == 2


def test_an_epoch_that_is_set_during_a_pass_ends_it(few: Path) -> None:
    with local(few, epochs=2) as loader:
        batches = loader.batches()
        next(batches)
        loader.set_epoch(1)
        with pytest.raises(Conflict, match="this pass was ended by a later one"):
            next(batches)
        assert loader.epoch == 1
