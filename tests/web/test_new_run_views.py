"""The form for a run, its problems and its forecast, as the page shows them."""

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ddlp.core.messages import DatasetInfo, PreviewSample, RunCreate, ScanInfo
from ddlp.core.messages.demo import DemoInfo, DemoState
from ddlp.core.messages.outlook import FieldProblem, ProngForecast, RunForecast
from ddlp.core.pipeline import PRESETS, Pipeline
from ddlp.core.schedule import CHOICES
from ddlp.core.settings import Settings
from ddlp.core.types import DatasetState, Prong, Provenance
from ddlp.server.pipelines import info as pipeline_info
from ddlp.server.run_checks import RunDraft
from ddlp.web.first_start_views import demo_view
from ddlp.web.new_run_views import (
    DEFAULTS,
    FormView,
    body_of,
    command_of,
    drawn_rows,
    form_view,
    preview_view,
    values_of,
)
from ddlp.web.outlook_views import check_view, forecast_view
from ddlp.web.training_views import training_view

PIPELINES = [pipeline_info(name, Pipeline.preset(name)) for name in PRESETS]


def dataset(name: str, state: DatasetState = DatasetState.READY, **fields: Any) -> DatasetInfo:
    usual: dict[str, Any] = {
        "uri": "/data",
        "reason": None,
        "kind": "folder",
        "check": "quick",
        "version": "v",
        "samples": 1234,
        "classes": [],
        "total_bytes": 5_600_000,
        "rejected": 0,
        "progress": ScanInfo(),
        "created_at": 0.0,
    }
    return DatasetInfo(name=name, state=state, **{**usual, **fields})


def form(*datasets: DatasetInfo, **given: str) -> FormView:
    return form_view(values_of(given), list(datasets), PIPELINES, Settings())


def test_every_field_of_a_run_can_be_given_by_the_address() -> None:
    assert set(DEFAULTS) == set(RunCreate.model_fields)
    values = values_of({"batch_size": " 7 ", "seed": "3", "nothing": "x"})
    assert (values["batch_size"], values["seed"]) == ("7", "3")
    assert "nothing" not in values


def test_what_is_given_wins_over_what_is_copied_and_that_over_what_is_usual() -> None:
    values = values_of({"epochs": "5"}, {"epochs": "9", "batch_size": "32"})
    assert (values["epochs"], values["batch_size"], values["strategy"]) == ("5", "32", "wrr")


def test_the_form_as_it_comes_is_a_body_that_a_run_takes() -> None:
    body = body_of(values_of({"dataset": "fruit"}))
    assert RunDraft.model_validate(body) == RunDraft(dataset="fruit")


def test_datasets_that_cannot_be_used_say_why_and_cannot_be_chosen() -> None:
    found = form(
        dataset("fruit"),
        dataset("late", DatasetState.SCANNING),
        dataset("broken", DatasetState.FAILED, reason="no images"),
        dataset="late",
    )
    ready, late, broken = found.datasets
    assert ready.usable
    assert "1,234 samples, 5.6 MB, folder" in ready.label
    assert not late.usable
    assert not late.chosen
    assert "scanning" in late.label
    assert "failed: no images" in broken.label


def test_pipelines_are_told_by_their_steps_their_output_and_their_chance() -> None:
    found = {pipeline.name: pipeline for pipeline in form(pipeline="imagenet-val").pipelines}
    train, validate = found["imagenet-train"], found["imagenet-val"]
    assert train.output == "224 × 224, uint8"
    assert train.steps == "decode → random-resized-crop → flip → normalize"
    assert "Random: random-resized-crop and flip." in train.sentence
    assert "Nothing is random." in validate.sentence
    assert validate.chosen
    assert not train.chosen


def test_every_strategy_says_when_to_use_it() -> None:
    found = form().strategies
    assert [strategy.name for strategy in found] == list(CHOICES)
    assert all(strategy.when and strategy.summary for strategy in found)


def test_presets_keep_what_was_chosen_and_can_be_followed_as_links() -> None:
    for preset in form(dataset="fruit", batch_size="8", reorder_window="2").presets:
        given = {key: value for key, [value] in parse_qs(urlsplit(preset.address).query).items()}
        assert (given["dataset"], given["batch_size"]) == ("fruit", "8")
        RunDraft.model_validate(body_of(values_of(given)))
        fields = json.loads(preset.fields)
        assert fields["strategy"] in CHOICES
        assert bool(fields["reorder_window"]) == (fields["strategy"] == "bounded")


def test_the_preset_for_validation_takes_the_twin_of_the_pipeline() -> None:
    def pipeline(name: str) -> str:
        [preset] = [p for p in form(pipeline=name).presets if p.name == "Validation pass"]
        return str(json.loads(preset.fields)["pipeline"])

    assert pipeline("cifar-train") == "cifar-val"
    assert pipeline("mine") == "mine"


def test_what_was_changed_below_more_is_to_be_seen() -> None:
    assert not form(batch_size="3").is_advanced
    assert form(on_bad="fail").is_advanced


def test_the_command_names_only_what_is_not_as_usual() -> None:
    values = values_of({"dataset": "fruit", "batch_size": "8", "on_bad": "fail", "epochs": "1"})
    assert command_of(values) == "ddlp run create fruit --batch-size 8 --on-bad fail"
    assert command_of(values_of({})) == "ddlp run create DATASET"
    assert "'a b'" in command_of(values_of({"name": "a b"}))


def test_a_preview_shows_samples_from_all_over_in_two_epochs() -> None:
    found = preview_view(values_of({"dataset": "fruit", "seed": "5"}), 123, 2)
    assert [epoch for epoch, _ in found.pictures] == [2, 3]
    query = parse_qs(urlsplit(found.pictures[0][1]).query)
    numbers = [int(number) for number in query["samples"][0].split(",")]
    assert (len(numbers), numbers[0], query["seed"], query["epoch"]) == (9, 0, ["5"], ["2"])
    assert numbers == sorted(set(numbers))
    assert numbers[-1] < 123
    few = parse_qs(urlsplit(preview_view(values_of({"dataset": "d"}), 2, 0).pictures[0][1]).query)
    assert few["samples"] == ["0,1"]


def test_what_was_drawn_is_told_step_by_step() -> None:
    steps = [
        {"transform": "random-resized-crop", "left": 3, "scale": 0.123456},
        {"transform": "flip", "mirrored": True},
        {"transform": "normalize"},
    ]
    sample = PreviewSample(
        sample=4, name="/a/b/c.jpg", label=1, class_name="b", width=8, height=6, steps=steps
    )
    still = sample.model_copy(update={"steps": [{"transform": "resize"}]})
    first, second = drawn_rows([sample, still])
    assert first.steps == "random-resized-crop: left 3, scale 0.1235; flip: mirrored yes"
    assert first.name == "b/c.jpg (8 × 6)"
    assert "nothing" in second.steps


def prong(which: Prong, **fields: Any) -> ProngForecast:
    usual: dict[str, Any] = {
        "devices": [which.value],
        "slots": 2,
        "emulated": which is Prong.CSD,
        "images_per_s": 1500.0,
        "known_from": [],
        "images": 600,
        "joules_per_image": 0.5,
        "provenance": Provenance.MODELLED,
        "method": "declared",
        "held_batches": 12,
        "held_bytes": 12_000_000,
    }
    return ProngForecast(prong=which, **{**usual, **fields})


def foretold(**fields: Any) -> RunForecast:
    usual: dict[str, Any] = {
        "problems": [],
        "batches": 10,
        "images": 1000,
        "batch_bytes": 1_000_000,
        "prongs": [prong(Prong.CPU), prong(Prong.CSD)],
        "images_per_s": 3000.0,
        "meeting_point": 6,
        "epoch_s": 75.0,
        "run_s": 7500.0,
        "joules": 1500.0,
        "joules_per_image": 0.5,
        "provenance": Provenance.MODELLED,
    }
    return RunForecast(**{**usual, **fields})


def test_a_forecast_is_told_in_figures_with_their_units() -> None:
    found = forecast_view(foretold())
    told = [(figure.figure, figure.caption, figure.mark) for figure in found.figures]
    assert told == [
        ("3,000", "images/s", None),
        ("1 min 15 s", "an epoch", None),
        ("2 h 5 min", "the run", None),
        ("0.5 J", "energy an image", "modelled"),
        ("1,500 J", "energy of the run", "modelled"),
    ]
    assert (found.meeting, found.cpu_width) == ("They would meet near batch 6.", 600)
    assert [row.emulated for row in found.prongs] == [False, True]
    assert found.prongs[0].held == "12 (12.0 MB)"


def test_what_is_not_known_is_a_dash_and_never_a_zero() -> None:
    nothing = dict.fromkeys(
        ["images_per_s", "meeting_point", "epoch_s", "run_s", "joules", "joules_per_image"]
    )
    unknown = {"images_per_s": None, "images": None, "joules_per_image": None}
    prongs = [prong(Prong.CPU, **unknown, provenance=Provenance.UNAVAILABLE)]
    found = forecast_view(
        foretold(**nothing, provenance=Provenance.UNAVAILABLE, prongs=prongs, trainer_per_s=5.0)
    )
    assert {figure.figure for figure in found.figures} == {"—"}
    assert found.cpu_width is found.meeting is None
    [row] = found.prongs
    assert (row.rate, row.images, row.joules, row.provenance) == ("—", "—", "—", "unavailable")


def test_a_trainer_that_is_the_limit_is_named_with_the_rate() -> None:
    found = forecast_view(foretold(trainer_per_s=3000.0, made_per_s=9000.0))
    assert found.figures[0].caption == "images/s, as the trainer takes"


def test_the_first_problem_of_each_field_is_shown_beside_it() -> None:
    problems = [
        FieldProblem(field="batch_size", problem="it must be at least 1"),
        FieldProblem(field="batch_size", problem="another"),
        FieldProblem(field="colour", problem="a run has no such field"),
    ]
    found = check_view(RunForecast(problems=problems), "ddlp", {"batch_size"})
    assert found.problems == {"batch_size": "It must be at least 1"}
    assert found.elsewhere == ["colour: a run has no such field"]
    assert found.forecast is None
    assert not found.usable
    assert check_view(foretold(), "ddlp", set()).usable


@pytest.mark.parametrize("ranks", [1, 4])
def test_the_lines_that_train_are_python_and_name_the_run(ranks: int) -> None:
    found = training_view("r50", "http://control:8000/", ranks)
    compile(found.code, "training", "exec")
    assert 'DualLoader(run="r50", url="http://control:8000"' in found.code
    assert ("world_size=4" in found.code) == (ranks == 4)
    assert ("import os" in found.code) == (ranks == 4)
    assert "DDLP_KEY" not in found.words
    assert "DDLP_KEY" in training_view("r50", "http://control:8000/", ranks, keys=True).words


def test_a_demo_that_failed_says_why_and_one_under_way_is_followed() -> None:
    failed = demo_view(DemoInfo(state=DemoState.FAILED, words="no room", percent=3))
    assert failed.problem == "The demo did not work: no room"
    assert not failed.following
    assert demo_view(DemoInfo(state=DemoState.SCANNING, words="…", percent=85)).following
    there = DemoInfo(state=DemoState.RUNNING, words="w", percent=100, run="demo", note="no torch")
    assert (demo_view(there).following, demo_view(there).words) == (False, "no torch")


def test_empty_epochs_are_open_ended_and_empty_ranks_are_left_to_trainers() -> None:
    values = values_of({"dataset": "fruit", "epochs": "", "world_size": "", "reshuffle": "false"})
    run = RunDraft.model_validate(body_of(values))
    assert (run.epochs, run.world_size, run.reshuffle) == (None, None, False)
    assert command_of(values) == "ddlp run create fruit --no-reshuffle --endless"
    assert "epochs=&" in preview_view(values, 9, 0).following + "&", "it stays so on the next page"
