"""`DualLoader.local`: a run inside the training process."""

import gc
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ddlp.core.errors import BadSample, Conflict, DdlpError, InvalidInput
from ddlp.core.local_worker import Report
from ddlp.core.mishap import Mishap
from ddlp.core.owned_folder import shared_memory
from ddlp.loader import DualLoader
from ddlp.loader.local import LocalFeed
from ddlp.loader.worker_process import WorkerProcess
from tests.conftest import SMALL_PIPELINE, make_images, wait_until


def local(images: Path, **options: Any) -> DualLoader:
    return DualLoader.local(
        images, **{"pipeline": SMALL_PIPELINE, "batch_size": 8, "workers": 2, **options}
    )


def change(path: Path) -> None:
    """Replace a file behind the loader's back."""
    path.write_bytes(b"something else")


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False


def leftovers() -> list[Path]:
    return list(shared_memory().glob(f"ddlp-local-{os.getpid()}-*"))


@pytest.mark.parametrize(
    ("strategy", "csd_speed"),
    [
        ("cpu", None),
        ("wrr", None),
        ("wrr", 0.5),
        ("mte", None),
        ("mte", 0.5),
        ("bounded", 0.5),
        ("csd", 1.0),
    ],
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
    with local(images, epochs=1) as loader:
        assert sum(1 for _ in loader) == 16
        with pytest.raises(Conflict, match=r"all 1 epochs of run .* were delivered; give it more"):
            next(iter(loader))


def test_leaving_a_pass_early_goes_on_with_the_next_epoch(images: Path) -> None:
    with local(images, epochs=2) as loader:
        for _ in loader:
            break
        assert loader.epoch == 1
        assert sum(1 for _ in loader) == 16


def test_passes_that_are_left_early_do_not_fill_the_stores(images: Path) -> None:
    with local(images, epochs=12, csd_speed=0.5) as loader:
        for _ in range(11):
            for _ in loader:
                break
        assert sum(1 for _ in loader) == 16
        wait_until(lambda: not stored(loader))


def stored(loader: DualLoader) -> list[Path]:
    """Batches in the stores of a local run."""
    feed: Any = loader._feed
    return [p for root in (feed._memory, feed._drive) for p in root.glob("ddlp-run-*/0*-*")]


@pytest.mark.parametrize(("tail", "sizes"), [("drop", [8] * 15), ("pad", [8] * 16)])
def test_the_tail_is_dropped_or_padded_where_asked_for(
    images: Path, tail: str, sizes: list[int]
) -> None:
    with local(images, tail=tail) as loader:
        assert [len(labels) for _, labels in loader] == sizes
        assert len(loader) == len(sizes)


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
    with local(images, on_bad="fail") as loader:
        change(images / "plum" / "0002.jpg")
        with pytest.raises(DdlpError, match=r"plum/0002\.jpg cannot be used: it was changed"):
            list(loader)
    assert loader.bad_samples == []


@pytest.mark.parametrize("on_bad", ["skip", "replace"])
def test_a_bad_sample_is_skipped_or_replaced_and_listed(tmp_path: Path, on_bad: str) -> None:
    images = make_images(tmp_path / "fruit", 20)
    with local(images, on_bad=on_bad, epochs=2) as loader:
        change(images / "plum" / "0002.jpg")
        sizes = [[len(labels) for _, labels in loader] for _ in range(2)]
        first, second = loader.bad_samples
    assert [sum(epoch) for epoch in sizes] == [19, 19] if on_bad == "skip" else [20, 20]
    assert (first.epoch, second.epoch) == (0, 1)
    assert first.sample == second.sample == 14
    assert first.name == str(images / "plum" / "0002.jpg")
    assert (first.substitute is None) == (on_bad == "skip")
    assert first.reason == (
        "it was changed after it was indexed; start the loader again, which scans the folder anew"
    )


def test_by_default_a_changed_file_is_skipped_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    images = make_images(tmp_path / "fruit", 20)
    with local(images, epochs=1) as loader:
        change(images / "plum" / "0002.jpg")
        assert sum(len(labels) for _, labels in loader) == 19
    [told] = [record for record in caplog.records if "bad sample" in record.getMessage()]
    assert told.levelname == "WARNING"
    assert "1 bad sample of epoch 0 was skipped so far, such as" in told.getMessage()
    assert "plum/0002.jpg: it was changed" in told.getMessage()


def test_too_many_bad_samples_end_the_pass(tmp_path: Path) -> None:
    images = make_images(tmp_path / "fruit", 20)
    with local(images, on_bad="skip", max_bad_share=0.05, epochs=1) as loader:
        for number in (2, 5):
            change(images / "plum" / f"{number:04d}.jpg")
        with pytest.raises(DdlpError, match="2 of the 20 samples of epoch 0 are bad"):
            list(loader)
        assert len(loader.bad_samples) == 2


def test_a_batch_of_which_nothing_is_left_ends_the_pass(tmp_path: Path) -> None:
    images = make_images(tmp_path / "fruit", 6)
    with local(images, on_bad="skip", max_bad_share=1.0, batch_size=6) as loader:
        for path in images.glob("*/*.jpg"):
            change(path)
        with pytest.raises(DdlpError, match="none of its 6 samples can be used"):
            list(loader)


def test_files_that_a_scan_rejects_are_left_out(tmp_path: Path) -> None:
    images = make_images(tmp_path / "fruit", 20)
    (images / "plum" / "0002.jpg").write_bytes(b"nothing")
    with (
        pytest.warns(UserWarning, match=r"1 of the files .*plum/0002\.jpg: it is not an image"),
        local(images, on_bad="skip") as loader,
    ):
        assert sum(len(labels) for _, labels in loader) == 19


def test_files_that_a_scan_rejects_stop_a_run_that_takes_no_bad_samples(tmp_path: Path) -> None:
    images = make_images(tmp_path / "fruit", 20)
    (images / "plum" / "0002.jpg").write_bytes(b"nothing")
    with pytest.raises(BadSample, match=r"plum/0002\.jpg: it is not an image .*on_bad='skip'"):
        local(images, on_bad="fail")


def test_arrays_are_a_dataset_too(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (10, 32, 32, 3), dtype=np.uint8)
    np.savez(tmp_path / "small.npz", images=pixels, labels=np.arange(10) % 3)
    pipeline = {"transforms": [{"name": "centre-crop", "size": 32}]}
    with local(tmp_path / "small.npz", pipeline=pipeline, normalize=False) as loader:
        seen = {
            int(sample): image.permute(1, 2, 0).numpy()
            for batch in loader.batches()
            for sample, image in zip(batch.samples, batch.images, strict=True)
        }
    assert all(np.array_equal(seen[number], pixels[number]) for number in range(10))


def test_what_was_normalised_early_arrives_as_it_is(images: Path) -> None:
    early = [*SMALL_PIPELINE["transforms"][:-1], {"name": "normalize", "early": True}]
    options = {"strategy": "cpu", "workers": 1}
    with (
        local(images, pipeline={"transforms": early}, **options) as first,
        local(images, **options) as second,
    ):
        for (made, _), (scaled, _) in zip(first, second, strict=True):
            assert made.dtype == torch.float32
            assert torch.allclose(made, scaled, atol=1e-5)


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
        ({"reorder_window": 3}, "a reorder window of 3 does not fit strategy wrr"),
        ({"tail": "keep"}, "tail='keep' is none of short, drop, pad"),
        ({"csd_speed": 2.0}, "not above 0 and at most 1"),
        ({"pipeline": "magic"}, "no pipeline 'magic'"),
        ({"prefetch": 0}, "prefetch=0 is not from 1 to 256"),
        ({"epochs": 0}, "epochs=0 is too small"),
        ({"on_bad": "hope"}, "on_bad='hope' is none of fail, skip, replace"),
        ({"max_bad_share": 1.5}, "max_bad_share=1.5 is not from 0 to 1"),
    ],
)
def test_what_makes_no_sense_is_refused_and_leaves_nothing(
    images: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        local(images, **options)
    assert leftovers() == []


@pytest.mark.parametrize("kind", [str, Path])
def test_an_address_is_refused_as_one(kind: type[str] | type[Path]) -> None:
    with pytest.raises(InvalidInput, match=r"^s3://bucket/x is an address, not a folder"):
        DualLoader.local(kind("s3://bucket/x"), pipeline="imagenet-val", batch_size=1)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        DualLoader.local(tmp_path / "nowhere")


def test_a_tensor_of_a_pass_that_was_left_early_stays_as_it_is(images: Path) -> None:
    """To look at one batch first is common; its file must not be written over."""
    with local(images, epochs=4, strategy="cpu", normalize=False) as loader:
        first, _ = next(iter(loader))
        before = first.clone()
        while loader.epoch < loader.epochs:
            for _ in loader:
                assert torch.equal(first, before)


def test_a_forked_child_neither_ends_a_run_nor_gives_its_files_back(images: Path) -> None:
    with local(images, epochs=1, strategy="cpu", normalize=False) as loader:
        batches = iter(loader)
        first, _ = next(batches)
        before = first.clone()
        child = os.fork()
        if child == 0:
            del first
            gc.collect()
            loader._feed._end()  # type: ignore[attr-defined]
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert sum(1 for _ in batches) == 15
        assert torch.equal(first, before)


def test_splits_are_refused_with_the_folder_to_give(tmp_path: Path) -> None:
    for split in ("train", "val"):
        make_images(tmp_path / "photos" / split, 9)
    with pytest.raises(InvalidInput, match=rf"holds splits.*'{tmp_path}/photos/train'"):
        local(tmp_path / "photos")
    with local(tmp_path / "photos", as_classes=True, epochs=1) as loader:
        assert {int(label) for _, labels in loader for label in labels} == {0, 1}


def test_what_the_scan_left_out_is_a_warning(tmp_path: Path) -> None:
    images = make_images(tmp_path / "fruit", 20)
    (images / "top.jpg").write_bytes(b"")
    with (
        pytest.warns(UserWarning, match="directly in .*/fruit that were left out"),
        local(images) as loader,
    ):
        assert len(loader) > 0


def test_a_batch_whose_report_cannot_be_so_is_made_again(
    images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_report = LocalFeed._on_report
    bent: list[int] = []

    def bend(feed: LocalFeed, worker: WorkerProcess, report: Report) -> None:
        if not bent and report.problem is None:
            bent.append(report.lease.index)
            stranger = Mishap(10**6, "no sample of this batch", "truncated")
            report = report.model_copy(update={"bad": (stranger,)})
        on_report(feed, worker, report)

    monkeypatch.setattr(LocalFeed, "_on_report", bend)
    with local(images) as loader:
        assert sum(len(labels) for _, labels in loader) == 123
    assert bent
