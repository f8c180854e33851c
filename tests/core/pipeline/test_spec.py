"""A pipeline's description is checked with helpful words, and its hash names what it makes."""

from typing import Any

import pytest

from ddlp.core.errors import InvalidInput
from ddlp.core.pipeline import PRESETS, Pipeline, PipelineSpec

CROP = {"name": "random-resized-crop", "size": 64}
Transforms = list[dict[str, Any]]


def parse(*transforms: dict[str, Any]) -> Pipeline:
    return Pipeline.parse(PipelineSpec(transforms=list(transforms)))


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_makes_normalised_squares_of_224(name: str) -> None:
    pipeline = Pipeline.preset(name)
    assert (pipeline.width, pipeline.height) == (224, 224)
    assert pipeline.normalize is not None


def test_presets_are_told_apart_by_their_hash() -> None:
    assert len({Pipeline.preset(name).hash for name in PRESETS}) == len(PRESETS)


def test_an_unknown_preset_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="no pipeline 'cifar'; known presets: imagenet-train"):
        Pipeline.preset("cifar")


MISTAKES: dict[str, tuple[Transforms, str]] = {
    "an unknown transform": (
        [CROP, {"name": "blur"}],
        r"transform 1 is 'blur'; known transforms: centre-crop, flip, normalize,",
    ),
    "a transform without a name": ([{"size": 3}], "transform 0 is None; known transforms"),
    "a name that is no text": ([{"name": ["flip"]}], r"transform 0 is \['flip'\]; known"),
    "a parameter that does not exist": (
        [{**CROP, "sise": 3}],
        r"transform 0 \(random-resized-crop\): sise: Extra inputs",
    ),
    "a parameter that is missing": ([{"name": "resize"}], r"\(resize\): size: Field required"),
    "a size of nothing": ([{**CROP, "size": 0}], "size: Input should be greater than or equal"),
    "a size beyond reason": ([{**CROP, "size": 9000}], "size: Input should be less than or equal"),
    "a size that is no number": ([{**CROP, "size": "large"}], "size: Input should be a valid int"),
    "a probability above one": (
        [CROP, {"name": "flip", "p": 1.5}],
        r"1 \(flip\): p: .* equal to 1",
    ),
    "a probability that is none": ([CROP, {"name": "flip", "p": float("nan")}], r"\(flip\): p: "),
    "areas the wrong way round": (
        [{**CROP, "min_area": 0.9, "max_area": 0.1}],
        "min_area must not exceed max_area",
    ),
    "two channels": ([CROP, {"name": "normalize", "mean": [0, 0]}], r"\(normalize\): mean"),
    "a spread of nothing": ([CROP, {"name": "normalize", "std": [1, 0, 1]}], r"std\.1: "),
    "no size at all": ([{"name": "flip"}], "does not say how large its output is; end it with"),
    "nothing but normalising": ([{"name": "normalize"}], "does not say how large its output is"),
    "a size that depends on the image": (
        [{"name": "resize", "size": 256}],
        "end it with centre-crop or random-resized-crop",
    ),
    "normalising before the crop": (
        [{"name": "normalize"}, CROP],
        "normalize must come last in a pipeline, and only once",
    ),
    "normalising twice": (
        [CROP, {"name": "normalize"}, {"name": "normalize"}],
        "normalize must come last in a pipeline, and only once",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_explained_in_one_line(mistake: str) -> None:
    transforms, words = MISTAKES[mistake]
    with pytest.raises(InvalidInput, match=words) as caught:
        parse(*transforms)
    assert "\n" not in str(caught.value)


def test_a_pipeline_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 item"):
        PipelineSpec(transforms=[])


@pytest.mark.parametrize(
    ("transforms", "size"),
    [
        ([CROP], 64),
        ([CROP, {"name": "flip"}], 64),
        ([{"name": "resize", "size": 40}, {"name": "centre-crop", "size": 32}], 32),
        ([CROP, {"name": "centre-crop", "size": 16}, {"name": "flip"}], 16),
        ([{"name": "flip"}, CROP, {"name": "normalize"}], 64),
        ([CROP, {"name": "resize", "size": 40}], 40),
    ],
)
def test_the_size_of_the_output_is_known_beforehand(transforms: Transforms, size: int) -> None:
    pipeline = parse(*transforms)
    assert (pipeline.width, pipeline.height) == (size, size)


BASE = [{"name": "random-resized-crop", "size": 64}, {"name": "flip"}]


@pytest.mark.parametrize(
    "other",
    [
        [{"name": "random-resized-crop", "size": 65}, {"name": "flip"}],
        [{"name": "random-resized-crop", "size": 64, "min_area": 0.09}, {"name": "flip"}],
        [{"name": "random-resized-crop", "size": 64, "max_stretch": 1.5}, {"name": "flip"}],
        [{"name": "random-resized-crop", "size": 64}, {"name": "flip", "p": 0.25}],
        [{"name": "flip"}, {"name": "random-resized-crop", "size": 64}],
        [{"name": "random-resized-crop", "size": 64}],
        [{"name": "centre-crop", "size": 64}, {"name": "flip"}],
    ],
)
def test_the_hash_changes_with_what_changes_the_bytes(other: Transforms) -> None:
    assert parse(*other).hash != parse(*BASE).hash


@pytest.mark.parametrize(
    "same",
    [
        [*BASE, {"name": "normalize"}],
        [*BASE, {"name": "normalize", "mean": [0.5, 0.5, 0.5], "std": [1, 2, 3]}],
        [{"size": 64.0, "name": "random-resized-crop"}, {"name": "flip"}],
        [{"name": "random-resized-crop", "size": 64, "min_area": 0.08}, {"name": "flip", "p": 0.5}],
        [{"name": "random-resized-crop", "size": 64, "max_area": 1}, {"name": "flip"}],
    ],
)
def test_the_hash_stays_with_late_normalising_and_with_defaults_written_out(
    same: Transforms,
) -> None:
    assert parse(*same).hash == parse(*BASE).hash


KNOWN_HASH = "984b0cc4bda40263ae9a8d6c74595defc7d43be4dc0a74d836f817d4bc55df18"


def test_the_hash_is_the_same_on_every_machine_and_in_every_release() -> None:
    # A new value here means: batches of older runs cannot be told to be the same any more.
    assert parse(*BASE).hash == KNOWN_HASH


@pytest.mark.parametrize("name", PRESETS)
def test_the_description_with_all_defaults_makes_the_same_pipeline(name: str) -> None:
    pipeline = Pipeline.preset(name)
    written = PipelineSpec.model_validate_json(pipeline.spec.model_dump_json())
    assert Pipeline.parse(written) == pipeline
    assert all(len(transform) > 1 for transform in written.transforms), "defaults are written out"
