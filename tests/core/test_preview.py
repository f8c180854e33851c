"""Previews: what a pipeline draws for samples, and how they look."""

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ddlp.core.dataset import DatasetIndex, scan
from ddlp.core.pipeline import Engine, Pipeline, PipelineSpec
from ddlp.core.preview import EXPLAINED, SIDE, PreviewRequest, explain, sheet
from tests.conftest import SMALL_PIPELINE, make_images


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("preview")
    scan(make_images(place / "fruit", 12), place / "index")
    return place / "index"


def request(index: Path, **changes: Any) -> PreviewRequest:
    values = {"index_path": index, "samples": [0, 7], **SMALL_PIPELINE}
    return PreviewRequest(**values | changes)


def test_a_sample_is_told_with_what_is_drawn_for_it(index: Path) -> None:
    first, second = explain(request(index, epoch=3))
    assert first.name.endswith("fruit/apple/0000.jpg")
    assert (first.label, first.class_name, first.width, first.height) == (0, "apple", 40, 40)
    assert (second.sample, second.class_name) == (7, "pear")
    assert [step["transform"] for step in first.steps] == ["random-resized-crop", "flip"]
    assert first.steps != second.steps
    assert explain(request(index, epoch=3)) == [first, second]
    assert explain(request(index, epoch=4))[0].steps != first.steps
    assert EXPLAINED.validate_json(EXPLAINED.dump_json([first])) == [first]


def test_extras_are_told_with_the_steps(index: Path) -> None:
    steps = [*SMALL_PIPELINE["transforms"], {"name": "view"}]
    for sample in explain(request(index, transforms=steps)):
        crop, flip, view = sample.steps
        assert view == {**crop, "transform": "view", "mirrored": flip["mirrored"]}


def test_a_sheet_shows_the_very_pixels(index: Path) -> None:
    with Image.open(io.BytesIO(sheet(request(index, seed=5)))) as shown:
        pixels = np.asarray(shown)
    assert pixels.shape == (40, 76, 3)
    made = np.empty((2, 32, 32, 3), dtype=np.uint8)
    pipeline = Pipeline.parse(PipelineSpec.model_validate(SMALL_PIPELINE))
    Engine(DatasetIndex(index), pipeline, 5).fill(0, np.asarray([0, 7]), made)
    assert np.array_equal(pixels[4:36, 4:36], made[0])
    assert np.array_equal(pixels[4:36, 40:72], made[1])


def test_what_was_normalised_early_is_shown_as_levels(index: Path) -> None:
    early = [*SMALL_PIPELINE["transforms"][:-1], {"name": "normalize", "early": True}]
    with (
        Image.open(io.BytesIO(sheet(request(index, transforms=early)))) as shown,
        Image.open(io.BytesIO(sheet(request(index)))) as plain,
    ):
        difference = np.asarray(shown).astype(int) - np.asarray(plain).astype(int)
    assert np.abs(difference).max() <= 1


def test_a_bad_sample_is_dark(tmp_path: Path) -> None:
    place = make_images(tmp_path / "fruit", 3)
    scan(place, tmp_path / "index")
    (place / "apple" / "0000.jpg").write_bytes(b"changed")
    with Image.open(io.BytesIO(sheet(request(tmp_path / "index", samples=[0, 1])))) as shown:
        pixels = np.asarray(shown)
    assert pixels[4:36, 4:36].max() == 0
    assert pixels[4:36, 40:72].max() > 0


def test_large_samples_are_shown_small(index: Path) -> None:
    large = [{"name": "centre-crop", "size": 1000}, {"name": "normalize"}]
    with Image.open(io.BytesIO(sheet(request(index, transforms=large)))) as shown:
        assert shown.size == (2 * SIDE + 12, SIDE + 8)


SMALL = "from ddlp.core import preview as p; p._MEMORY_BYTES = 160 << 20; p.main()"


def child(
    asked: PreviewRequest, *how: str, parent: int | None = None
) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, *(how or ("-m", "ddlp.core.preview")), str(parent or os.getpid())],
        input=asked.model_dump_json().encode(),
        capture_output=True,
        check=False,
    )


def test_a_process_of_its_own_answers(index: Path) -> None:
    asked = request(index)
    assert EXPLAINED.validate_json(child(asked).stdout) == explain(asked)
    assert child(request(index, draw=True)).stdout == sheet(asked)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can bound and tie a process so")
def test_that_process_is_bounded_and_ends_with_its_parent(index: Path) -> None:
    large = [{"name": "centre-crop", "size": 8192}, {"name": "normalize"}]
    done = child(request(index, transforms=large, draw=True), "-c", SMALL)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"it takes more than 160 MiB of memory; ask for smaller samples\n"
    somebody_else = 1 if os.getpid() != 1 else 2
    assert child(request(index), parent=somebody_else).returncode == -9
