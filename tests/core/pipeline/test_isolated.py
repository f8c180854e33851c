"""Samples that crash or stall their decoder: each costs one child and nobody else."""

import os
from pathlib import Path

import numpy as np
import pytest

from ddlp.core.dataset import DatasetIndex
from ddlp.core.errors import BadSample, DdlpError
from ddlp.core.pipeline import Engine, Pipeline, PipelineSpec
from ddlp.core.pipeline.isolated import IsolatedRenderer
from ddlp.core.types import BadPolicy
from tests.core.pipeline.making import MIDDLE, dataset, encoded, fill, replace_unseen, smooth

# A picture's first pixel says what becomes of whoever touches it.
FRAGILE = """
import os, signal, time
from typing import ClassVar
from ddlp.core.pipeline import PixelTransform

class Fragile(PixelTransform):
    name: ClassVar[str] = "fragile"

    def apply(self, pixels, drawn):
        print("a transform may print")
        for picture in pixels:
            if picture[0, 0, 0] == 150:
                raise ValueError("it does not like this one")
            if picture[0, 0, 0] == 170:
                os.kill(os.getpid(), signal.SIGKILL)
            if picture[0, 0, 0] == 190 and not os.path.exists(__file__ + ".killed"):
                open(__file__ + ".killed", "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            if 210 <= picture[0, 0, 0] <= 211:
                os._exit(int(picture[0, 0, 0]) - 210)
            if picture[0, 0, 0] == 250:
                os.kill(os.getpid(), signal.SIGSEGV)
            if picture[0, 0, 0] == 200:
                time.sleep(60)
        return pixels
"""


@pytest.fixture
def fragile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    about = tmp_path / "fragile-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fragile\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[ddlp.transforms]\nfragile = fragile:Fragile\n")
    (tmp_path / "fragile.py").write_text(FRAGILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    steps = [{"name": "decode", "max_seconds": 1.0}, MIDDLE, {"name": "fragile"}]
    return Pipeline.parse(PipelineSpec(transforms=steps))


def flat(tmp_path: Path, *levels: int) -> DatasetIndex:
    pictures = (np.full((20, 20, 3), level, dtype=np.uint8) for level in levels)
    from PIL import Image

    return dataset(tmp_path / "data", *(encoded(Image.fromarray(p)) for p in pictures))


def test_what_is_made_apart_is_what_is_made_here(tmp_path: Path) -> None:
    index = dataset(tmp_path, *(encoded(smooth(30 + n, 40), "JPEG") for n in range(6)))
    pipeline = Pipeline.preset("cifar-train")
    direct = Engine(index, pipeline, 3)
    with IsolatedRenderer(tmp_path / "images.idx", pipeline, 3) as apart:
        careful = Engine(index, pipeline, 3, renderer=apart)
        for epoch in range(2):
            np.testing.assert_array_equal(
                fill(careful, *range(6), epoch=epoch, size=32),
                fill(direct, *range(6), epoch=epoch, size=32),
            )


def test_crashes_and_stalls_are_laid_at_their_samples(tmp_path: Path, fragile: Pipeline) -> None:
    index = flat(tmp_path, 10, 250, 30, 200, 50)
    with IsolatedRenderer(tmp_path / "data/images.idx", fragile, 0) as apart:
        out = np.zeros((5, 16, 16, 3), dtype=np.uint8)
        engine = Engine(index, fragile, 0, BadPolicy.SKIP, apart)
        mishaps = engine.fill(0, np.arange(5), out)
    # The dataset puts even ones into one class and odd ones into the other: 10, 30, 50, 250, 200.
    assert {mishap.reason for mishap in mishaps} == {
        "its decoder crashed (SIGSEGV)",
        "decoding it took longer than 1 s",
    }
    assert out[:3, 0, 0, 0].tolist() == [10, 30, 50]


def test_a_sample_whose_child_is_killed_is_repeated_alone_in_another(
    tmp_path: Path, fragile: Pipeline
) -> None:
    flat(tmp_path, 10, 190, 30)
    out = np.zeros((3, 16, 16, 3), dtype=np.uint8)
    with IsolatedRenderer(tmp_path / "data/images.idx", fragile, 0) as apart:
        assert apart.render(0, np.arange(3), out) == {}
    assert (tmp_path / "fragile.py.killed").exists()
    assert sorted(out[:, 0, 0, 0].tolist()) == [10, 30, 190]


def test_a_sample_whose_child_is_killed_every_time_is_named(
    tmp_path: Path, fragile: Pipeline
) -> None:
    index = flat(tmp_path, 10, 170)
    out = np.zeros((2, 16, 16, 3), dtype=np.uint8)
    with IsolatedRenderer(tmp_path / "data/images.idx", fragile, 0) as apart:
        engine = Engine(index, fragile, 0, BadPolicy.SKIP, apart)
        [mishap] = engine.fill(0, np.arange(2), out)
    assert mishap.reason == (
        "decoding it was ended 3 times in a row, each time alone in a process of its own: "
        "SIGKILL from outside"
    )
    assert (out[0] == 10).all()


@pytest.mark.parametrize("status", [0, 1])
def test_a_sample_whose_decoder_ends_its_process_is_named(
    tmp_path: Path, fragile: Pipeline, status: int
) -> None:
    index = flat(tmp_path, 10, 210 + status)
    out = np.zeros((2, 16, 16, 3), dtype=np.uint8)
    with IsolatedRenderer(tmp_path / "data/images.idx", fragile, 0) as apart:
        engine = Engine(index, fragile, 0, BadPolicy.SKIP, apart)
        [mishap] = engine.fill(0, np.arange(2), out)
    assert mishap.reason == f"its decoder ended the process (status {status})"
    assert (out[0] == 10).all()


def test_what_is_not_the_samples_fault_is_not_laid_to_it(tmp_path: Path, fragile: Pipeline) -> None:
    flat(tmp_path, 10, 150)
    out = np.zeros((2, 16, 16, 3), dtype=np.uint8)
    with IsolatedRenderer(tmp_path / "data/images.idx", fragile, 0) as apart:
        with pytest.raises(DdlpError, match="ValueError: it does not like this one") as caught:
            apart.render(0, np.arange(2), out)
        assert not isinstance(caught.value, BadSample)
        assert apart.render(0, np.arange(1), out[:1]) == {}
    assert (out[0] == 10).all()


def test_a_bad_file_is_told_as_such(tmp_path: Path) -> None:
    index = dataset(tmp_path, *(encoded(smooth(30, 40), "JPEG") for _ in range(3)))
    replace_unseen(Path(index.name(1)), b"nothing")
    pipeline = Pipeline.preset("cifar-val")
    out = np.zeros((3, 32, 32, 3), dtype=np.uint8)
    with IsolatedRenderer(tmp_path / "images.idx", pipeline, 0) as apart:
        problems = apart.render(0, np.arange(3), out)
    assert problems == {1: "it does not begin as a JPEG does"}


def test_a_file_that_cannot_be_read_now_is_no_bad_sample(tmp_path: Path) -> None:
    index = dataset(tmp_path, encoded(smooth(30, 40), "JPEG"))
    path = Path(index.name(0))
    path.unlink()
    path.symlink_to(path)
    pipeline = Pipeline.preset("cifar-val")
    out = np.zeros((1, 32, 32, 3), dtype=np.uint8)
    with (
        IsolatedRenderer(tmp_path / "images.idx", pipeline, 0) as apart,
        pytest.raises(DdlpError, match=os.strerror(40)),
    ):
        apart.render(0, np.arange(1), out)
