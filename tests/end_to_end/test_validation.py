"""Training and validation in turns, with as many passes as training asks for."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pytest
import torch

from ddlp.core.client import Client
from ddlp.loader import DualLoader
from tests.conftest import SMALL_PIPELINE, UpProcess, wait_until
from tests.end_to_end.test_epoch import ONCE
from tests.end_to_end.trainer import new_run
from tests.loops import Got, Loop, counts, together

PLAIN = [{"name": "resize", "size": 40}, {"name": "centre-crop", "size": 32}]
EPOCHS = 2


def plain(client: Client) -> str:
    """A pipeline in which nothing is random."""
    if "plain" not in {known["name"] for known in client.get("/pipelines")}:
        client.post("/pipelines", {"name": "plain", "transforms": PLAIN})
    return "plain"


@pytest.fixture(params=["server", "local"])
def places(
    request: pytest.FixtureRequest, up: UpProcess, api: Client, images: Path
) -> dict[str, dict[str, Any]]:
    """Arguments of a training and of a validation loader, with a server and without."""
    if request.param == "server":
        train = new_run(api, epochs=EPOCHS, world_size=None)
        check = new_run(api, pipeline=plain(api), epochs=None, world_size=None)
        runs = {"train": train, "val": check}
        return {name: {"run": run, "url": up.url, "start": 0} for name, run in runs.items()}
    common = {"data": str(images), "batch_size": 8, "workers": 1}
    return {
        "train": {**common, "pipeline": SMALL_PIPELINE, "epochs": EPOCHS},
        "val": {**common, "pipeline": {"transforms": PLAIN}},
    }


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[list[Loop]]:
    """Two ranks of a job on this host."""
    with ExitStack() as until:
        yield [until.enter_context(Loop(rank, 2, str(tmp_path))) for rank in range(2)]


def in_order(received: list[list[Got]]) -> list[tuple[tuple[int, ...], int]]:
    """The samples and pixels of all ranks, step by step."""
    steps = zip(*received, strict=True)
    return [(got.samples, got.pixels) for together in steps for got in together]


def test_training_and_validation_take_turns_and_each_pass_has_every_sample_once(
    ranks: list[Loop], places: dict[str, dict[str, Any]]
) -> None:
    for name, arguments in places.items():
        together(ranks, "open", arguments, name)
    passes = []
    for epoch in range(EPOCHS):
        trained = together(ranks, "take", None, "train")
        assert counts(got for mine in trained for got in mine) == ONCE
        assert {got.epoch for mine in trained for got in mine} == {epoch}
        checked = together(ranks, "take", None, "val")
        assert counts(got for mine in checked for got in mine) == ONCE
        assert len(checked[0]) == len(checked[1]) == 8
        sizes = [len(got.samples) for mine in zip(*checked, strict=True) for got in mine]
        assert sizes == sorted(sizes, reverse=True), "short batches come last"
        passes.append(checked)
    assert ranks[0].stand("val").epochs is None
    assert ranks[0].stand("train").epoch == EPOCHS
    first, second = (sorted(in_order(checked)) for checked in passes)
    assert first == second, "the same batches in each pass"


@pytest.mark.parametrize("strategy", ["cpu", "wrr"])
def test_where_nothing_is_random_each_pass_has_the_same_batches(
    up: UpProcess, api: Client, strategy: str
) -> None:
    """With one prong in the same order, too; an adaptive strategy chooses that as it goes."""
    run = new_run(api, pipeline=plain(api), epochs=None, world_size=None, strategy=strategy)
    with Loop() as loop:
        loop.open(run=run, url=up.url)
        passes = [in_order([loop.take()]) for _ in range(3)]
    assert sorted(passes[0]) == sorted(passes[1]) == sorted(passes[2])
    if strategy == "cpu":
        assert passes[0] == passes[1] == passes[2]


def test_passes_of_a_random_pipeline_differ_unless_told_otherwise(
    up: UpProcess, api: Client
) -> None:
    run = new_run(api, epochs=None, world_size=None, strategy="cpu")
    fixed = new_run(api, epochs=None, world_size=None, strategy="cpu", reshuffle=False)
    with Loop() as loop:
        loop.open(run=run, url=up.url)
        loop.ask("open", {"run": fixed, "url": up.url}, "fixed")
        first, second = (loop.take() for _ in range(2))
        one, other = (loop.ask("take", None, "fixed") for _ in range(2))
    assert [got.samples for got in first] != [got.samples for got in second]
    assert [got.samples for got in one] == [got.samples for got in other]
    assert [got.pixels for got in one] != [got.pixels for got in other], "augmentation goes on"
    assert counts(second) == counts(other) == ONCE


def test_a_pass_that_is_left_is_followed_by_a_new_one_and_recorded_as_left(
    up: UpProcess, api: Client
) -> None:
    run = new_run(api, epochs=None, world_size=None)
    with Loop() as loop:
        loop.open(run=run, url=up.url)
        for epoch in range(3):  # what `next(iter(loader))` does
            assert loop.stand().epoch == epoch
            [got] = loop.take(1)
            assert got.epoch == epoch
            loop.ask("leave")
        assert loop.stand().epoch == 3
        assert counts(loop.take()) == ONCE
        last = loop.take(2)
        assert {got.epoch for got in last} == {4}

    def states() -> list[str]:
        return [epoch["state"] for epoch in api.get(f"/runs/{run}/epochs")][:4]

    wait_until(lambda: states() == ["abandoned"] * 3 + ["complete"])
    left = api.get(f"/runs/{run}/epochs/0/certificate")
    assert (left["state"], left["exactly_once"]) == ("abandoned", False)
    assert api.get(f"/runs/{run}/epochs/3/certificate")["exactly_once"]


def test_a_local_loader_gives_a_new_pass_each_time_like_a_data_loader(images: Path) -> None:
    with DualLoader.local(images, pipeline=SMALL_PIPELINE, batch_size=8, workers=1) as loader:
        assert loader.epochs is None
        assert len(loader) == 16
        firsts = [next(iter(loader))[0] for _ in range(3)]
        assert loader.epoch == 3
        for one, other in combinations(firsts, 2):
            assert not torch.equal(one, other)
        for epoch in (3, 4):
            assert loader.epoch == epoch
            received = chain.from_iterable(batch.samples.tolist() for batch in loader.batches())
            assert Counter(received) == ONCE
