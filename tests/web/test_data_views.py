"""View models of datasets and of bad samples."""

from typing import Any

import pytest

from ddlp.core.messages import (
    BadSampleInfo,
    DatasetInfo,
    PackChoice,
    PackingInfo,
    RejectedInfo,
    RescanInfo,
    ScanInfo,
)
from ddlp.core.types import BadPolicy, DatasetState, Prong
from ddlp.server.run_list import Delivered
from ddlp.web.data_views import DatasetView, bad_view, dataset_view, rejected_rows
from ddlp.web.run_list_views import run_row
from tests.web.examples import page, run_info


def bad_sample(**changes: Any) -> BadSampleInfo:
    values: dict[str, Any] = {
        "id": 7,
        "epoch": 1,
        "batch": 1234,
        "sample": 42,
        "name": "/data/a.jpg",
        "reason": "it is truncated",
        "substitute": None,
        "action": "skipped",
    }
    return BadSampleInfo(**values | changes)


def dataset_info(**changes: Any) -> DatasetInfo:
    values: dict[str, Any] = {
        "name": "fruit",
        "uri": "/data/fruit",
        "state": DatasetState.READY,
        "reason": None,
        "kind": "folder",
        "check": "quick",
        "version": "d" * 64,
        "samples": 1234,
        "classes": [f"class-{number}" for number in range(20)],
        "total_bytes": 2_500_000_000,
        "rejected": 3,
        "progress": ScanInfo(found=1237, done=1237, rejected=3, bytes=2_500_000_000),
        "created_at": 0.0,
    }
    return DatasetInfo(**values | changes)


@pytest.mark.parametrize(
    ("policy", "words", "limited"),
    [
        (BadPolicy.FAIL, "ends the run", False),
        (BadPolicy.SKIP, "is left out of its batch", True),
        (BadPolicy.REPLACE, "is replaced by another of its class", True),
    ],
)
def test_the_policy_is_said_in_words(policy: BadPolicy, words: str, limited: bool) -> None:
    view = bad_view(run_info(on_bad=policy), [])
    assert words in view.policy
    assert ("more than 10 of the 1,000 samples of an epoch" in view.limit) == limited
    assert (view.count, view.rows, view.more) == (0, [], None)


def test_a_bad_sample_is_a_row_with_a_picture() -> None:
    newest = [bad_sample(), bad_sample(substitute=9)]
    view = bad_view(run_info(on_bad=BadPolicy.SKIP, bad_samples=5), newest)
    first, second = view.rows
    assert first.thumbnail == (
        "/api/v1/datasets/fruit/samples/42/thumbnail?version=dddddddddddd&placeholder=true"
    )
    assert (first.name, first.reason) == ("/data/a.jpg", "it is truncated")
    assert (first.done, second.done) == ("skipped", "replaced by sample 9")
    assert first.where == "epoch 1, batch 1,234"
    assert view.more == "3 earlier ones: ddlp run bad r50 --all"


@pytest.mark.parametrize(
    ("count", "chips", "cell"),
    [(0, [], "0"), (1, ["1 bad sample"], "1"), (1200, ["1,200 bad samples"], "1,200")],
)
def test_bad_samples_are_seen_at_a_glance(count: int, chips: list[str], cell: str) -> None:
    info = run_info(bad_samples=count)
    assert page(info).chips[4:] == chips
    assert run_row(info, Delivered(), None).bad == cell


def test_a_ready_dataset_is_described() -> None:
    view = dataset_view(dataset_info())
    assert (view.samples, view.classes, view.size, view.rejected) == ("1,234", "20", "2.5 GB", 3)
    assert (view.work, view.storage, view.waiting) == (None, "folder", None)
    facts = dict(view.facts)
    assert facts["storage form"] == "folder"
    assert "packed from" not in facts
    assert facts["check"] == "quick: the head of each image"
    assert facts["classes"].startswith("20: class-0, ")
    assert facts["classes"].endswith("class-11 …")
    assert facts["version"] == "d" * 64


def test_a_scan_says_how_far_it_is() -> None:
    seen = ScanInfo(found=2000, done=500, rejected=2, bytes=1_500_000)
    view = dataset_view(dataset_info(state=DatasetState.SCANNING, kind=None, progress=seen))
    assert (view.work, view.storage) == ("Scan", "—")
    assert view.progress == "500 of 2,000 looked at · 2 rejected · 1.5 MB"
    assert view.percent == 25
    assert "storage form" not in dict(view.facts)
    assert (view.samples, view.classes, view.size) == ("—", "—", "—")
    nothing = dataset_view(dataset_info(state=DatasetState.SCANNING, progress=ScanInfo()))
    assert nothing.percent == 0


def packing_info(**changes: Any) -> PackingInfo:
    """A quarter of two thousand samples is packed."""
    values: dict[str, Any] = {
        "origin": "fruit",
        "on": Prong.CSD,
        "options": PackChoice(),
        "lossy": False,
        "shards": 2,
        "shards_done": 0,
        "samples": 2000,
        "samples_done": 500,
        "records": 480,
        "kept": 20,
        "skipped": 0,
        "bytes": 1_500_000,
        "origin_bytes": 5_000_000,
        "ratio": None,
        "images_per_s": None,
        "seconds_left": None,
        "waiting": None,
        "emulated": False,
    }
    return PackingInfo(**values | changes)


def packing_view(**changes: Any) -> DatasetView:
    info = dataset_info(state=DatasetState.PACKING, kind="packed", packing=packing_info(**changes))
    return dataset_view(info)


def test_a_packing_says_how_far_it_is_and_what_it_waits_for() -> None:
    view = packing_view()
    assert (view.work, view.storage, view.percent) == ("Packing", "packed", 25)
    assert view.progress == "500 of 2,000 samples · 0 of 2 shards · 1.5 MB"
    fast = packing_view(images_per_s=812.0, seconds_left=125.0)
    assert fast.progress.endswith("1.5 MB · 812 images/s on csd · 2 min 5 s left")
    emulated = packing_view(images_per_s=812.0, seconds_left=125.0, emulated=True)
    assert "812 images/s on csd (emulated) · " in emulated.progress
    assert packing_view(waiting="no csd device is alive").waiting == "no csd device is alive"


def test_a_packed_dataset_says_what_it_was_made_from_and_what_was_lost() -> None:
    done = packing_info(ratio=1.2104, on=Prong.CPU)
    info = dataset_info(kind="packed", packing=done, lossy=False, pixels="the origin's")
    facts = dict(dataset_view(info).facts)
    assert facts["packed from"] == "fruit, by the host's workers (cpu)"
    assert facts["pixels"] == "the origin's"
    assert facts["packed samples"] == "480 as records · 20 as they were"
    assert facts["packed size"] == "1.5 MB, 1.21 times the origin's"
    for emulated, who in ((False, "(csd)"), (None, "(csd)"), (True, "(csd, emulated)")):
        facts = dict(packing_view(emulated=emulated).facts)
        assert facts["packed from"] == f"fruit, by the drives {who}"


def test_a_lossy_dataset_is_marked_wherever_it_was_packed() -> None:
    lossy = dataset_info(kind="packed", lossy=True, pixels="lossy: longest side 400, quality 90")
    view = dataset_view(lossy)
    assert view.storage == "packed, lossy"
    assert dict(view.facts)["pixels"] == "lossy: longest side 400, quality 90"
    assert "pixels" not in dict(dataset_view(dataset_info()).facts)


def test_rejected_files_are_rows() -> None:
    assert rejected_rows([RejectedInfo(name="a", reason="b")]) == [("a", "b")]


@pytest.mark.parametrize(
    ("said", "words", "failed"),
    [
        ({"state": "failed", "reason": "it is gone"}, "as it was: it is gone", True),
        ({"state": "unchanged"}, "nothing has changed", False),
        ({"state": "done", "earlier": "fruit@1234abcd"}, "kept for its runs as fruit@1234", False),
        ({"state": "done"}, "made a new version.", False),
    ],
)
def test_what_came_of_a_rescan_is_said(said: dict[str, Any], words: str, failed: bool) -> None:
    view = dataset_view(dataset_info(rescan=RescanInfo(**said)))
    assert words in view.rescan
    assert (view.rescan_failed, view.work, view.can_rescan) == (failed, None, True)


def test_a_rescan_is_followed_on_the_page_of_a_dataset_that_is_ready() -> None:
    now = ScanInfo(found=10, done=5, rejected=0, bytes=0)
    view = dataset_view(dataset_info(rescan=RescanInfo(state="scanning", progress=now)))
    assert (view.work, view.percent, view.rescan, view.state) == ("Rescan", 50, "", "ready")


def test_an_earlier_version_is_not_rescanned() -> None:
    assert not dataset_view(dataset_info(name="fruit@1234abcd")).can_rescan
