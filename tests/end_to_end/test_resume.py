"""Training stops at every step and goes on, with as many ranks and workers or with others."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import pytest

from ddlp.core.client import Client
from ddlp.core.plan import RunPlan
from ddlp.loader import DualLoader
from tests.conftest import SMALL_PIPELINE, UpProcess, add_dataset, make_images
from tests.end_to_end.trainer import new_run, train

SAMPLES = 30
BATCH = 4
BEYOND = 2
"""Steps that were made after the state was taken, and are made again."""
RANKS = ((1, 1), (2, 2), (2, 1), (1, 2), (2, 3))


class Case(NamedTuple):
    """Where training stops, and who stops and goes on."""

    strategy: str
    before: int
    after: int
    step: int


class Got(NamedTuple):
    """One batch as a rank got it."""

    index: int
    samples: tuple[int, ...]
    pixels: bytes


def rounds(world_size: int) -> int:
    return RunPlan(SAMPLES, BATCH, 1, 0, world_size).rank_batches


CASES = [
    Case(strategy, before, after, step)
    for strategy in ("wrr", "mte")
    for before, after in RANKS
    for step in range(rounds(before) + 1)
]
AT_EACH_STEP = pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.strategy}-{case.before}to{case.after}-at{case.step}"
)


def prepare(stack: UpProcess, seeds: Path) -> dict[int, bytes]:
    """Register a few images; gives their bytes in an epoch that nothing happened to."""
    with stack.client() as client:
        add_dataset(client, make_images(seeds, SAMPLES), "seeds")
        client.post("/pipelines", {"name": "small", **SMALL_PIPELINE})
        [account] = train(stack, new_run(client, dataset="seeds", batch_size=BATCH))
    return account.pixels


@pytest.fixture(scope="module")
def pixels(up: UpProcess, scratch: Path) -> dict[int, bytes]:
    return prepare(up, scratch / "seeds")


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpProcess]:
    """A stack with one CPU worker."""
    seeds = tmp_path_factory.mktemp("data") / "seeds"
    with UpProcess(tmp_path_factory.mktemp("single"), [seeds.parent], cpu_workers="1") as running:
        prepare(running, seeds)
        yield running


def steps(loaders: list[DualLoader]) -> Iterator[list[Got]]:
    """What all ranks get, step by step; each gets as many."""
    passes = [loader.batches() for loader in loaders]
    try:
        for together in zip(*passes, strict=True):
            yield [
                Got(batch.index, tuple(batch.samples.tolist()), batch.images.numpy().tobytes())
                for batch in together
            ]
    finally:
        for each in passes:
            each.close()


def join(stack: UpProcess, run: str, world_size: int, until: ExitStack) -> list[DualLoader]:
    return [
        until.enter_context(
            DualLoader(run, stack.url, rank=rank, world_size=world_size, normalize=False)
        )
        for rank in range(world_size)
    ]


def check(stack: UpProcess, client: Client, case: Case, pixels: dict[int, bytes]) -> None:
    """What is delivered before the stop and after it is the epoch that nothing happened to."""
    options = {"dataset": "seeds", "batch_size": BATCH, "epochs": 2, "calibration": 1}
    run = new_run(client, strategy=case.strategy, world_size=None, **options)
    with ExitStack() as until:
        loaders = join(stack, run, case.before, until)
        under_way = steps(loaders)
        before = list(islice(under_way, case.step))
        states = [loader.state_dict() for loader in loaders]
        beyond = list(islice(under_way, BEYOND)) if case.step < rounds(case.before) else []
        under_way.close()
    assert all(state == states[0] for state in states)
    with ExitStack() as until:
        loaders = join(stack, run, case.after, until)
        for loader in loaders:
            loader.load_state_dict(states[0])
        at_the_end = case.step == rounds(case.before)
        assert {loader.epoch for loader in loaders} == {int(at_the_end)}
        after = [] if at_the_end else list(steps(loaders))
    batches = list(chain(*before, *after))
    assert Counter(chain(*(got.samples for got in batches))) == dict.fromkeys(range(SAMPLES), 1)
    assert all(got.pixels == b"".join(pixels[sample] for sample in got.samples) for got in batches)
    if case.before == case.after:
        assert after[: len(beyond)] == beyond
        check_order(client, run, case, [got.index for got in batches])
    assert client.get(f"/runs/{run}/epochs/0/certificate")["exactly_once"]
    client.post(f"/runs/{run}/cancel")


def check_order(client: Client, run: str, case: Case, order: list[int]) -> None:
    """The same ranks get all batches of the one plan; with mte, in the order of its split."""
    plan = RunPlan(SAMPLES, BATCH, 1, 0, case.before)
    count, full = plan.batches, plan.whole.full
    assert sorted(order) == list(range(count))
    if case.strategy == "mte":
        split = client.get(f"/runs/{run}/epochs")[0]["split"]
        last = [*range(full, count)]
        assert order == [*range(split), *range(full - 1, split - 1, -1), *last]


@AT_EACH_STEP
def test_an_epoch_goes_on_after_a_stop(
    up: UpProcess, api: Client, pixels: dict[int, bytes], case: Case
) -> None:
    check(up, api, case, pixels)


@pytest.mark.long
@AT_EACH_STEP
def test_an_epoch_goes_on_after_a_stop_with_one_worker(
    single: UpProcess, pixels: dict[int, bytes], case: Case
) -> None:
    with single.client() as client:
        check(single, client, case, pixels)
