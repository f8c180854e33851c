"""From outside, over the real stack: an epoch delivers each sample once, from both prongs."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from ddlp.core.client import Client
from ddlp.core.store import path_of
from ddlp.loader import DualLoader
from tests.conftest import SMALL_PIPELINE, UpProcess, wait_until
from tests.end_to_end.trainer import Account, new_run, take, train

ONCE = Counter(dict.fromkeys(range(123), 1))


@pytest.mark.parametrize("strategy", ["mte", "wrr"])
def test_each_sample_comes_once_and_both_prongs_made_some(
    up: UpProcess, api: Client, images: Path, strategy: str
) -> None:
    run = new_run(api, strategy=strategy, epochs=2, batch_size=4)
    accounts = train(up, run)
    labels = [
        label for label, folder in enumerate(sorted(images.iterdir())) for _ in folder.iterdir()
    ]
    assert [account.samples for account in accounts] == [ONCE, ONCE]
    assert all(account.labels == dict(enumerate(labels)) for account in accounts)
    wait_until(lambda: api.get(f"/runs/{run}")["state"] == "completed")
    for epoch in api.get(f"/runs/{run}/epochs"):
        assert epoch["made"]["cpu"] > 0
        assert epoch["made"]["csd"] > 0
        assert epoch["made"]["cpu"] + epoch["made"]["csd"] == epoch["batches"] == 31
        certificate = api.get(f"/runs/{run}/epochs/{epoch['number']}/certificate")
        assert certificate["exactly_once"]


@pytest.mark.parametrize(
    ("strategy", "order"), [("cpu", range(16)), ("csd", [*range(14, -1, -1), 15])]
)
def test_the_baselines_use_one_prong_in_strict_order(
    up: UpProcess, api: Client, strategy: str, order: Sequence[int]
) -> None:
    run = new_run(api, strategy=strategy)
    [account] = train(up, run)
    assert account.samples == ONCE
    assert account.order == list(order)
    made = api.get(f"/runs/{run}/epochs")[0]["made"]
    assert made == {"cpu": 0, "csd": 0, strategy: 16}


def test_mte_delivers_the_head_share_then_the_tail_share(up: UpProcess, api: Client) -> None:
    run = new_run(api, strategy="mte")
    [account] = train(up, run)
    split = api.get(f"/runs/{run}/epochs")[0]["split"]
    assert account.order == [*range(split), *range(14, split - 1, -1), 15], "the short one last"


def test_the_bytes_depend_on_seed_and_epoch_and_not_on_who_made_them(
    up: UpProcess, api: Client, images: Path
) -> None:
    by_cpu = train(up, new_run(api, strategy="cpu", seed=3, epochs=2))
    by_csd = train(up, new_run(api, strategy="csd", seed=3, epochs=2, batch_size=5))
    other = train(up, new_run(api, strategy="wrr", seed=4))
    assert by_cpu[0].pixels == by_csd[0].pixels
    assert by_cpu[1].pixels == by_csd[1].pixels
    assert by_cpu[0].pixels != by_cpu[1].pixels
    assert by_cpu[0].pixels != other[0].pixels
    with DualLoader.local(
        images, pipeline=SMALL_PIPELINE, batch_size=9, seed=3, workers=1, normalize=False
    ) as local:
        account = Account()
        for batch in local.batches():
            take(account, batch)
    assert account.pixels == by_cpu[0].pixels


def test_two_ranks_share_an_epoch(up: UpProcess, api: Client) -> None:
    run = new_run(api, world_size=2)
    ranks = [DualLoader(run=run, url=up.url, rank=rank, world_size=2) for rank in (0, 1)]
    accounts = [Account(), Account()]
    passes = [rank.batches() for rank in ranks]
    for _ in range(8):
        for account, batches in zip(accounts, passes, strict=True):
            take(account, next(batches))
    assert [next(batches, None) for batches in passes] == [None, None]
    assert accounts[0].samples + accounts[1].samples == ONCE
    for rank in ranks:
        rank.close()


def test_a_trainer_that_comes_back_goes_on_after_what_it_acknowledged(
    up: UpProcess, api: Client
) -> None:
    run = new_run(api, strategy="cpu")
    first = DualLoader(run=run, url=up.url, prefetch=1)
    batches = first.batches()
    order = [next(batches).index for _ in range(5)]
    batches.close()
    first.close()
    with DualLoader(run=run, url=up.url, start="continue") as second:
        order += [batch.index for batch in second.batches()]
    assert sorted(set(order)) == list(range(16))
    assert order.count(0) == 1


def test_a_state_leads_back_to_its_step(up: UpProcess, api: Client) -> None:
    run = new_run(api, strategy="wrr")
    with DualLoader(run=run, url=up.url) as loader:
        batches = loader.batches()
        before = [next(batches).index for _ in range(6)]
        state = loader.state_dict()
        after = [next(batches).index for _ in range(4)]
        batches.close()
    with DualLoader(run=run, url=up.url) as again:
        again.load_state_dict(state)
        rest = [batch.index for batch in again.batches()]
    assert rest[:4] == after
    assert sorted(before + rest) == list(range(16))


def test_consumed_batches_are_gone_from_the_store(up: UpProcess, api: Client) -> None:
    run = new_run(api)
    info = api.get(f"/runs/{run}")
    train(up, run)
    wait_until(lambda: api.get(f"/runs/{run}")["state"] == "completed")
    stores = [path_of(device["store"]) for device in api.get("/devices")]
    assert all(store.is_dir() for store in stores)
    wait_until(lambda: not any(list(store.glob(f"*{info['id']}*")) for store in stores))


def test_the_figures_of_a_run_say_how_they_were_obtained(up: UpProcess, api: Client) -> None:
    run = new_run(api, strategy="mte")
    train(up, run)
    wait_until(lambda: api.get(f"/runs/{run}")["state"] == "completed")
    info = api.get(f"/runs/{run}")
    assert info["images"]["cpu"] + info["images"]["csd"] == 123
    assert 0 <= info["wait_share"] <= 1
    assert {entry["provenance"] for entry in info["energy"]} == {"modelled"}
    assert all(entry["joules"] > 0 for entry in info["energy"])
    kinds = {device["name"]: device["emulated"] for device in api.get("/devices")}
    assert kinds["csd0"] is True
