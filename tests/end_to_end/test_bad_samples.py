"""Samples that cannot be used, that crash their decoder or keep it for ever, and how runs go on."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from ddlp.core.client import Client
from ddlp.core.errors import DdlpError
from ddlp.core.plan import RunPlan
from ddlp.loader import DualLoader
from tests.cli.test_up import ddlp
from tests.conftest import UpProcess, add_dataset, make_images, wait_until
from tests.end_to_end.trainer import Account, new_run, take, train

COUNT = 60
BATCH = 4
STRANGE = {"crash": (91, 37), "hang": (93, 37), "poison": (95, 37)}
"""Images of these sizes are what the transforms below cannot stand."""
PACKAGE = """
import os
import signal
import sys
import time
from typing import ClassVar

from ddlp.core.pipeline import Geometric


class Crash(Geometric):
    name: ClassVar[str] = "crash"

    def apply(self, views, drawn):
        if (views.limit_right == 91).any():
            os.kill(os.getpid(), signal.SIGSEGV)
        return views


class Hang(Geometric):
    name: ClassVar[str] = "hang"

    def apply(self, views, drawn):
        if (views.limit_right == 93).any():
            time.sleep(3600)
        return views


class Poison(Geometric):
    name: ClassVar[str] = "poison"

    def apply(self, views, drawn):
        if (views.limit_right == 95).any():
            apart = "ddlp.core.pipeline.isolated" in sys.orig_argv
            os.kill(os.getppid() if apart else os.getpid(), signal.SIGSEGV)
            time.sleep(3600)
        return views
"""
ENTRY_POINTS = """
[ddlp.transforms]
crash = strange_transforms:Crash
hang = strange_transforms:Hang
poison = strange_transforms:Poison
"""
END = [{"name": "random-resized-crop", "size": 32}, {"name": "normalize"}]


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A package of transforms, installed for this process and for all that it starts."""
    site = tmp_path_factory.mktemp("site")
    (site / "strange_transforms.py").write_text(PACKAGE)
    info = site / "strange_transforms-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strange-transforms\nVersion: 1.0")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        patch.setenv("PYTHONPATH", str(site))
        yield site


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images among which a few are of strange sizes."""
    root = make_images(tmp_path_factory.mktemp("spoilt") / "fruit", COUNT)
    for number, size in enumerate(STRANGE.values()):
        path = root / "pear" / f"{number * 3 + 1:04d}.jpg"
        Image.new("RGB", size, (9, 9, 9)).save(path)
    return root


@pytest.fixture(scope="module")
def stack(
    tmp_path_factory: pytest.TempPathFactory, spoilt: Path, strange: Path
) -> Iterator[UpProcess]:
    with UpProcess(tmp_path_factory.mktemp("home"), [spoilt], cpu_workers="2") as running:
        with running.client() as client:
            add_dataset(client, spoilt, "spoilt")
            client.post("/pipelines", {"name": "plain", "transforms": END})
            for name in STRANGE:
                steps = [{"name": "decode", "max_seconds": 1}, {"name": name}, *END]
                client.post("/pipelines", {"name": name, "transforms": steps})
        yield running


@pytest.fixture
def client(stack: UpProcess) -> Iterator[Client]:
    with stack.client() as found:
        yield found


def strange_sample(case: str) -> int:
    """Its number: apples come first, then pears, each class by name."""
    return COUNT // 3 + list(STRANGE).index(case)


def seed_with(sample: int, least: int) -> int:
    """A seed that puts a sample into a batch that is not among the first few."""
    for seed in range(1000):
        plan = RunPlan(COUNT, BATCH, 1, seed)
        batches = range(least, plan.batches)
        if any(sample in plan.batch_samples(0, index) for index in batches):
            return seed
    raise AssertionError


def spoil(path: Path) -> None:
    """Make a file undecodable in a way that no scan after the first would know of."""
    status = path.stat()
    path.write_bytes(b"\xff\xd8" + b"\0" * (status.st_size - 4) + b"\xff\xd9")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def bad_run(client: Client, **fields: Any) -> str:
    body = {"dataset": "spoilt", "batch_size": BATCH, "strategy": "cpu", "max_bad_share": 0.5}
    return new_run(client, **body | fields)


@pytest.mark.parametrize(
    ("case", "on_bad"),
    [
        ("crash", "replace"),
        ("crash", "skip"),
        pytest.param("hang", "replace", marks=pytest.mark.long),
        pytest.param("hang", "skip", marks=pytest.mark.long),
    ],
)
def test_a_crash_or_an_endless_loop_costs_one_sample(
    stack: UpProcess, client: Client, case: str, on_bad: str
) -> None:
    sample = strange_sample(case)
    run = bad_run(client, pipeline=case, on_bad=on_bad, seed=seed_with(sample, 6))
    [account] = train(stack, run)
    wait_until(lambda: client.get(f"/runs/{run}")["state"] == "completed")
    [bad] = client.get(f"/runs/{run}/bad-samples")
    assert bad["sample"] == sample
    assert bad["name"].endswith(f"pear/{list(STRANGE).index(case) * 3 + 1:04d}.jpg")
    expected = Counter(range(COUNT)) - Counter([sample])
    if on_bad == "replace":
        assert 20 <= bad["substitute"] < 40
        assert account.labels[bad["substitute"]] == 1
        expected[bad["substitute"]] += 1
    else:
        assert bad["substitute"] is None
    assert account.samples == expected
    assert ("crashed (SIGSEGV)" if case == "crash" else "longer than 1 s") in bad["reason"]
    verified = ddlp("verify", run, url=stack.url)
    assert verified.returncode == 0, verified.stdout
    assert bad["name"] in verified.stdout
    assert all(device["live"] for device in client.get("/devices"))


def test_a_crash_ends_a_run_that_is_to_fail_with_the_file_named(
    stack: UpProcess, client: Client
) -> None:
    run = bad_run(client, pipeline="crash", on_bad="fail")
    with pytest.raises(DdlpError, match=r"pear/0001\.jpg cannot be used: its decoder crashed"):
        train(stack, run)


@pytest.mark.parametrize("on_bad", ["replace", "skip"])
def test_a_batch_that_crashes_its_workers_even_in_care_is_isolated(
    stack: UpProcess, client: Client, on_bad: str
) -> None:
    sample = strange_sample("poison")
    run = bad_run(client, pipeline="poison", on_bad=on_bad, seed=seed_with(sample, 6))
    [account] = train(stack, run)
    wait_until(lambda: client.get(f"/runs/{run}")["state"] == "completed")
    certificate = client.get(f"/runs/{run}/epochs/0/certificate")
    [batch] = certificate["isolated"]
    plan = RunPlan(COUNT, BATCH, 1, client.get(f"/runs/{run}")["seed"])
    lost = plan.batch_samples(0, batch).tolist()
    assert sample in lost
    assert account.samples == Counter(range(COUNT)) - Counter(lost)
    listed = client.get(f"/runs/{run}/bad-samples")
    assert sorted(bad["sample"] for bad in listed) == sorted(lost)
    assert all("crashed (SIGSEGV) while making it, 3 times" in bad["reason"] for bad in listed)
    verified = ddlp("verify", run, url=stack.url)
    assert verified.returncode == 0, verified.stdout
    assert f"batch {batch}" in verified.stdout


def test_a_batch_that_crashes_its_workers_ends_a_run_that_is_to_fail(
    stack: UpProcess, client: Client
) -> None:
    run = bad_run(client, pipeline="poison", on_bad="fail")
    with pytest.raises(
        DdlpError, match=r"was isolated: a worker process of .* crashed \(SIGSEGV\)"
    ):
        train(stack, run)
    info = client.get(f"/runs/{run}")
    assert info["state"] == "failed"
    assert "3 times" in info["reason"]


@pytest.mark.parametrize("on_bad", ["replace", "skip"])
def test_a_crash_costs_one_sample_without_a_server_too(
    spoilt: Path, strange: Path, on_bad: str
) -> None:
    pipeline = {"transforms": [{"name": "crash"}, *END]}
    options: dict[str, Any] = {"pipeline": pipeline, "batch_size": BATCH, "workers": 2}
    with DualLoader.local(
        spoilt, on_bad=on_bad, max_bad_share=0.5, epochs=1, normalize=False, **options
    ) as loader:
        account = Account()
        for batch in loader.batches():
            take(account, batch)
        [bad] = loader.bad_samples
    assert (bad.sample, bad.action) == (20, "skipped" if on_bad == "skip" else "replaced")
    assert sum(account.samples.values()) == COUNT - (on_bad == "skip")
    assert account.samples[20] == 0


@pytest.fixture
def undecodable(tmp_path: Path, stack: UpProcess, client: Client, spoilt: Path) -> Iterator[str]:
    """A dataset of which six samples were spoilt after it was registered."""
    root = make_images(spoilt / "later", 30)
    info = add_dataset(client, root, f"later-{tmp_path.name}"[:60])
    for path in sorted(root.glob("*/*.jpg"))[:24:4]:
        spoil(path)
    yield info["name"]
    for path in root.rglob("*.jpg"):
        path.unlink()


def test_the_same_samples_are_replaced_by_the_same_whoever_makes_the_batch(
    stack: UpProcess, client: Client, undecodable: str
) -> None:
    lists = []
    accounts = []
    for strategy, size in (("cpu", 4), ("csd", 5)):
        run = bad_run(
            client,
            dataset=undecodable,
            pipeline="plain",
            on_bad="replace",
            strategy=strategy,
            batch_size=size,
            seed=3,
        )
        accounts += train(stack, run)
        wait_until(lambda run=run: client.get(f"/runs/{run}")["state"] == "completed")
        found = client.get(f"/runs/{run}/bad-samples")
        lists.append(sorted((bad["sample"], bad["substitute"], bad["reason"]) for bad in found))
        assert client.get(f"/runs/{run}")["bad_samples"] == 6
    assert [bad[0] for bad in lists[0]] == [0, 4, 8, 12, 16, 20]
    assert lists[0] == lists[1]
    assert accounts[0].pixels == accounts[1].pixels
    assert accounts[0].samples == accounts[1].samples


def test_too_many_bad_samples_end_the_run_and_are_still_listed(
    stack: UpProcess, client: Client, undecodable: str
) -> None:
    run = bad_run(client, dataset=undecodable, pipeline="plain", on_bad="skip", max_bad_share=0.1)
    with pytest.raises(DdlpError, match=r"of the 30 samples of epoch 0 are bad, more than max_bad"):
        train(stack, run)
    info = client.get(f"/runs/{run}")
    assert info["state"] == "failed"
    assert info["bad_samples"] > 3
    listed = ddlp("run", "bad", run, "--limit", "2", url=stack.url)
    assert "skipped" in listed.stdout
    assert listed.stdout.count("\n") == 3
    everything = json.loads(ddlp("run", "bad", run, "--all", "--json", url=stack.url).stdout)
    assert len(everything) == info["bad_samples"]
    last = str(everything[-2]["id"])
    rest = json.loads(ddlp("run", "bad", run, "--before", last, "--json", url=stack.url).stdout)
    assert rest == everything[-1:]


def test_a_dataset_that_changed_under_a_run_is_noticed(
    stack: UpProcess, client: Client, spoilt: Path, undecodable: str
) -> None:
    root = spoilt / "later"
    changed = sorted(root.glob("apple/*.jpg"))[1]
    Image.new("RGB", (50, 50)).save(changed)
    run = bad_run(client, dataset=undecodable, pipeline="plain", on_bad="skip")
    with DualLoader(run=run, url=stack.url) as loader:
        assert sum(len(labels) for _, labels in loader) == 30 - 7
        reasons = {bad.name: bad.reason for bad in loader.bad_samples}
    assert len(reasons) == 7
    assert "changed after it was indexed" in reasons[str(changed)]


def test_a_file_that_was_changed_fails_the_run_with_its_name(
    stack: UpProcess, client: Client, spoilt: Path
) -> None:
    root = make_images(spoilt / "changed", 30)
    add_dataset(client, root, "changed")
    (root / "pear" / "0001.jpg").write_bytes(b"this is not an image")
    run = bad_run(client, dataset="changed", pipeline="plain", on_bad="fail")
    with pytest.raises(DdlpError, match=r"pear/0001\.jpg cannot be used"):
        train(stack, run)
    info = client.get(f"/runs/{run}")
    assert info["state"] == "failed"
    assert "it was changed after it was indexed" in info["reason"]
    with pytest.raises(DdlpError, match=r"is failed: .*pear/0001\.jpg cannot be used"):
        train(stack, run)


def test_pictures_of_bad_samples_are_made_where_possible(
    stack: UpProcess, client: Client, undecodable: str
) -> None:
    picture = client.download(f"/datasets/{undecodable}/samples/1/thumbnail")
    assert picture[:2] == b"\xff\xd8"
    with pytest.raises(DdlpError, match="no picture can be made of"):
        client.download(f"/datasets/{undecodable}/samples/0/thumbnail")
    with pytest.raises(DdlpError, match="has no sample 30"):
        client.download(f"/datasets/{undecodable}/samples/30/thumbnail")
