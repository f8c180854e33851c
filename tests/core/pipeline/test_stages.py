"""Which steps are done in one go, and that each stage knows the size of what it makes."""

from typing import Any

import numpy as np
import pytest

from ddlp.core.errors import InvalidInput
from ddlp.core.pipeline import Pipeline, PipelineSpec, Views

CROP = {"name": "random-resized-crop", "size": 64}
PAD = {"name": "pad-crop", "size": 32}
MIDDLE = {"name": "centre-crop", "size": 24}
RESIZE = {"name": "resize", "size": 40}
FLIP = {"name": "flip"}
GREY = {"name": "grayscale"}
JITTER = {"name": "colour-jitter", "hue": 0.1}


def stages(*transforms: dict[str, Any]) -> list[tuple[str, str]]:
    """Each stage as the names of its geometry and of its pixel steps."""
    pipeline = Pipeline.parse(PipelineSpec(transforms=list(transforms)))
    return [
        (
            " ".join(step.name for step in stage.geometry),
            " ".join(step.name for step in stage.pixels),
        )
        for stage in pipeline.stages
    ]


def test_geometry_and_the_pixel_steps_after_it_are_one_stage() -> None:
    assert stages(RESIZE, MIDDLE, FLIP) == [("resize centre-crop flip", "")]
    assert stages(CROP, FLIP, JITTER, GREY) == [
        ("random-resized-crop flip", "colour-jitter grayscale")
    ]
    assert stages(PAD, FLIP, {"name": "normalize"}) == [("pad-crop flip", "")]


def test_geometry_after_a_pixel_step_begins_a_stage() -> None:
    assert stages(CROP, GREY, FLIP, JITTER, MIDDLE) == [
        ("random-resized-crop", "grayscale"),
        ("flip", "colour-jitter"),
        ("centre-crop", ""),
    ]


def test_resizing_what_was_padded_begins_a_stage() -> None:
    assert stages(PAD, FLIP, RESIZE, MIDDLE) == [("pad-crop flip", ""), ("resize centre-crop", "")]
    assert stages(PAD, PAD, FLIP) == [("pad-crop pad-crop flip", "")]
    assert stages(RESIZE, PAD) == [("resize pad-crop", "")]


def test_a_stage_knows_the_size_at_which_it_is_rendered() -> None:
    pipeline = Pipeline.parse(PipelineSpec(transforms=[CROP, GREY, MIDDLE, JITTER, RESIZE]))
    assert [(stage.width, stage.height) for stage in pipeline.stages] == [
        (64, 64),
        (24, 24),
        (40, 40),
    ]
    assert (pipeline.width, pipeline.height) == (40, 40)


def test_a_step_keeps_its_place_whatever_stage_it_is_in() -> None:
    transforms = [{"name": "decode"}, CROP, GREY, FLIP, {"name": "label-map", "labels": {"a": 0}}]
    pipeline = Pipeline.parse(PipelineSpec(transforms=transforms))
    assert pipeline.places == ("0:random-resized-crop", "1:grayscale", "2:flip")


@pytest.mark.parametrize("before", [[], [RESIZE], [FLIP]])
def test_pixel_steps_need_images_of_one_size(before: list[dict[str, Any]]) -> None:
    with pytest.raises(InvalidInput, match="grayscale needs images of one size; put centre-crop"):
        stages(*before, GREY, MIDDLE)


def test_a_batch_of_nothing_stays_one() -> None:
    nobody = np.empty(0, dtype=np.int64)
    for transforms in ([CROP, FLIP, JITTER, GREY], [RESIZE, MIDDLE], [PAD, FLIP]):
        [stage] = Pipeline.parse(PipelineSpec(transforms=transforms)).stages
        views = Views.whole(nobody, nobody)
        for step in stage.geometry:
            assert step.explain(views, np.empty((0, step.draws))) == []
            views = step.apply(views, np.empty((0, step.draws)))
        pixels = np.empty((len(views), 8, 8, 3), dtype=np.uint8)
        for colour in stage.pixels:
            assert colour.explain(np.empty((0, colour.draws))) == []
            assert len(colour.apply(pixels, np.empty((0, colour.draws)))) == 0
