"""A pipeline's description is checked with helpful words, and its hash names what it makes."""

from typing import Any

import pytest

from ddlp.core.batchfile import TensorSpec, batch_tensors
from ddlp.core.errors import InvalidInput
from ddlp.core.image.arithmetic import ARITHMETIC
from ddlp.core.pipeline import PRESETS, TRANSFORMS, Pipeline, PipelineSpec

CROP = {"name": "random-resized-crop", "size": 64}
VIEW = {"name": "view"}
LABELS = {"name": "label-map", "labels": {"cat": 3, "dog": 1}}
Transforms = list[dict[str, Any]]


def parse(*transforms: dict[str, Any]) -> Pipeline:
    return Pipeline.parse(PipelineSpec(transforms=list(transforms)))


SIZES = {"imagenet-train": 224, "imagenet-val": 224, "cifar-train": 32, "cifar-val": 32}


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_makes_normalised_squares(name: str) -> None:
    pipeline = Pipeline.preset(name)
    assert pipeline.shape == (SIZES[name], SIZES[name], 3)
    assert pipeline.normalize is not None
    assert pipeline.dtype == "uint8"


def test_presets_are_told_apart_by_their_hash() -> None:
    assert len({Pipeline.preset(name).hash for name in PRESETS}) == len(PRESETS)


def test_an_unknown_preset_is_answered_with_the_known_ones() -> None:
    with pytest.raises(
        InvalidInput, match="no pipeline 'cifar'; known presets: cifar-train, cifar"
    ):
        Pipeline.preset("cifar")


MISTAKES: dict[str, tuple[Transforms, str]] = {
    "an unknown transform": (
        [CROP, {"name": "blur"}],
        r"transform 1: there is no transform 'blur'; known transforms: centre-crop, colour-jitter,",
    ),
    "a transform without a name": ([{"size": 3}], "0: there is no transform None; known"),
    "a name that is no text": ([{"name": ["flip"]}], r"no transform \['flip'\]; known"),
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
        "end it with centre-crop, pad-crop or random-resized-crop",
    ),
    "normalising before the crop": (
        [{"name": "normalize"}, CROP],
        "normalize must come last in a pipeline, and only once",
    ),
    "normalising twice": (
        [CROP, {"name": "normalize"}, {"name": "normalize"}],
        "normalize must come last in a pipeline, and only once",
    ),
    "decoding later": (
        [CROP, {"name": "decode"}],
        "decode must come first in a pipeline, and only once",
    ),
    "decoding twice": (
        [{"name": "decode"}, {"name": "decode"}, CROP],
        "decode must come first in a pipeline, and only once",
    ),
    "nothing but decoding": ([{"name": "decode"}], "does not say how large its output is"),
    "no pixels allowed": ([{"name": "decode", "max_pixels": 0}, CROP], r"\(decode\): max_pixels: "),
    "two maps of labels": ([CROP, LABELS, LABELS], "label-map must stand in a pipeline only once"),
    "an extra before geometry": (
        [CROP, VIEW, {"name": "grayscale"}, {"name": "flip"}],
        "view speaks of finished samples; put it after flip and all other geometry",
    ),
    "an extra before all else": ([VIEW, CROP], "view .* put it after random-resized-crop and"),
    "an extra twice": ([CROP, VIEW, VIEW], "view and view both emit a tensor 'view'; leave one"),
    "nothing but an extra": ([VIEW], "does not say how large its output is"),
    "a parameter that an extra has not": ([CROP, {**VIEW, "size": 3}], r"1 \(view\): size: Extra"),
    "no labels": ([CROP, {"name": "label-map", "labels": {}}], "labels: Dictionary should have"),
    "a label beyond 64 bits": (
        [CROP, {"name": "label-map", "labels": {"cat": 2**63}}],
        r"labels\.cat: Input should be less than",
    ),
    "a turn of the hue beyond the circle": (
        [CROP, {"name": "colour-jitter", "hue": 0.6}],
        r"1 \(colour-jitter\): hue: Input should be less than or equal to 0.5",
    ),
    "a colour jitter backwards": (
        [CROP, {"name": "colour-jitter", "contrast": -1}],
        "contrast: Input should be greater than or equal to 0",
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
        ([{"name": "pad-crop", "size": 32}, {"name": "flip"}], 32),
        ([{"name": "decode"}, CROP, {"name": "grayscale"}, {"name": "normalize"}, LABELS], 64),
    ],
)
def test_the_size_of_the_output_is_known_beforehand(transforms: Transforms, size: int) -> None:
    pipeline = parse(*transforms)
    assert (pipeline.width, pipeline.height) == (size, size)


BASE: Transforms = [{"name": "random-resized-crop", "size": 64}, {"name": "flip"}]


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
        [{"name": "decode", "orient": False}, *BASE],
        [{"name": "decode", "dct_scaling": True}, *BASE],
        [*BASE, {"name": "grayscale"}],
        [*BASE, {"name": "normalize", "early": True}],
        [*BASE, LABELS],
        [*BASE, VIEW],
    ],
)
def test_the_hash_changes_with_what_changes_the_bytes(other: Transforms) -> None:
    assert parse(*other).hash != parse(*BASE).hash


@pytest.mark.parametrize(
    "same",
    [
        [{"name": "decode"}, *BASE],
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


def test_early_normalising_is_part_of_what_workers_make() -> None:
    early = {"name": "normalize", "early": True}
    pipeline = parse(*BASE, early)
    assert pipeline.dtype == "float32"
    assert pipeline.hash != parse(*BASE, {**early, "mean": [0.5, 0.5, 0.5]}).hash


def test_the_hash_changes_with_the_labels_and_not_with_their_place() -> None:
    normalize = {"name": "normalize"}
    assert parse(LABELS, *BASE, normalize).hash == parse(*BASE, normalize, LABELS).hash
    other = {"name": "label-map", "labels": {"cat": 3, "dog": 2}}
    assert parse(*BASE, other).hash != parse(*BASE, LABELS).hash
    turned = {"name": "label-map", "labels": {"dog": 1, "cat": 3}}
    assert parse(*BASE, turned).hash == parse(*BASE, LABELS).hash


def test_an_extra_may_stand_anywhere_after_geometry() -> None:
    grey, normalize = {"name": "grayscale"}, {"name": "normalize"}
    first, *others = (
        parse(*BASE, VIEW, grey, normalize, LABELS),
        parse(*BASE, grey, VIEW, LABELS, normalize),
        parse(LABELS, *BASE, grey, normalize, VIEW),
    )
    assert all(other == first and other.hash == first.hash for other in others)
    assert first.normalize is not None
    assert [step.name for step in first.steps] == ["random-resized-crop", "flip", "grayscale"]


def test_extras_are_tensors_of_the_batch() -> None:
    plain, viewing = parse(*BASE), parse(*BASE, VIEW)
    assert plain.extras == ()
    assert viewing.extras == (TensorSpec("view", "<f4", (5,)),)
    assert plain.batch_tensors(9) == batch_tensors(9, (64, 64, 3), "uint8")
    assert viewing.batch_tensors(9) == [
        *plain.batch_tensors(9),
        TensorSpec("view", "<f4", (9, 5)),
    ]


def test_the_hash_changes_with_the_version_of_a_transform(monkeypatch: pytest.MonkeyPatch) -> None:
    before = parse(*BASE).hash
    monkeypatch.setattr(TRANSFORMS["flip"], "version", 2)
    assert parse(*BASE).hash != before


def test_the_hash_changes_with_the_arithmetic_of_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    before = parse(*BASE).hash
    monkeypatch.setattr("ddlp.core.pipeline.spec.ARITHMETIC", ARITHMETIC + 1)
    assert parse(*BASE).hash != before


KNOWN_HASH = "d9c388389b0b1364420e9aec63be39bf3bc1c2cf1f46670310e14ecb00242978"


def test_the_hash_is_the_same_on_every_machine_and_in_every_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A new value here means: batches of older runs cannot be told to be the same any more.
    monkeypatch.setattr("ddlp.core.pipeline.spec.ARITHMETIC", 2)
    assert parse(*BASE).hash == KNOWN_HASH


EVERYTHING: dict[str, Transforms] = {
    **PRESETS,
    "all": [
        {"name": "decode", "orient": False},
        {"name": "resize", "size": 40},
        {"name": "pad-crop", "size": 32},
        {"name": "colour-jitter", "brightness": 0.4},
        {"name": "flip"},
        {"name": "grayscale", "p": 0.2},
        {"name": "normalize", "early": True},
        LABELS,
    ],
}


def test_the_description_names_the_extras() -> None:
    pipeline = parse(*EVERYTHING["all"], VIEW)
    assert [step["name"] for step in pipeline.spec.transforms[-3:]] == [
        "view",
        "normalize",
        "label-map",
    ]
    assert Pipeline.parse(pipeline.spec) == pipeline
    assert Pipeline.parse(pipeline.spec).hash == pipeline.hash


@pytest.mark.parametrize("name", EVERYTHING)
def test_the_description_with_all_defaults_makes_the_same_pipeline(name: str) -> None:
    pipeline = parse(*EVERYTHING[name])
    written = PipelineSpec.model_validate_json(pipeline.spec.model_dump_json())
    assert Pipeline.parse(written) == pipeline
    assert Pipeline.parse(written).hash == pipeline.hash
    assert written.transforms[0]["name"] == "decode", "what is implied is written out"
    assert all(len(transform) > 1 for transform in written.transforms), "defaults are written out"
