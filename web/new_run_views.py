"""View models of the page on which runs are made: the form, what is wrong with it, the forecast."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from urllib.parse import quote, urlencode

from ddlp.core.messages import DatasetInfo, PipelineInfo, PreviewSample, RunCreate
from ddlp.core.pipeline import PRESETS
from ddlp.core.pipeline.entry_points import find_transform
from ddlp.core.schedule import CHOICES, STRATEGIES
from ddlp.core.settings import Settings
from ddlp.core.types import BadPolicy, DatasetState, TailPolicy
from ddlp.core.units import size

Values = Mapping[str, str]
"""What stands in the form's fields, by name; empty where nothing does."""

SHOWN = 9
"""Samples of a preview: a square of them."""


def text_of(value: object) -> str:
    """A value as it stands in its field."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value.value if isinstance(value, Enum) else value)


DEFAULTS: dict[str, str] = {
    name: "" if field.is_required() else text_of(field.default)
    for name, field in RunCreate.model_fields.items()
}

_NULLS = ("epochs",)
"""Fields that say something where they are empty."""

_RESHUFFLE = {
    "": "unless nothing in the pipeline is random",
    "true": "yes: every epoch has an order of its own",
    "false": "no: every epoch has the same order",
}

_WHEN = {
    "mte": "When the order must be the same however fast the devices are.",
    "wrr": "For most training: the trainer never waits for one side while the other is ready.",
    "bounded": "When both sides are to be mixed evenly; a window of 0 keeps one strict order.",
    "cpu": "To compare with, or where no drive takes part.",
    "csd": "To compare with, or to leave the host's processors to others.",
}

_SENTENCES = {
    "imagenet-train": "The usual recipe for training on photographs.",
    "imagenet-val": "The usual recipe for validating on photographs.",
    "cifar-train": "For training on small images of 32 × 32.",
    "cifar-val": "For validating on small images of 32 × 32.",
}

_TAILS = {
    TailPolicy.SHORT: "short: the last batches are shorter, every sample once",
    TailPolicy.DROP: "drop: every batch is full, the rest is left out this epoch",
    TailPolicy.PAD: "pad: every batch is full, filled up from the epoch's beginning",
}

_BAD = {
    BadPolicy.FAIL: "fail: it ends the run",
    BadPolicy.SKIP: "skip: it is left out of its batch",
    BadPolicy.REPLACE: "replace: another of its class takes its place",
}

_VALIDATION = "the chosen pipeline's twin"
_PRESETS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("Train, efficient", "wrr: whatever is ready", {"strategy": "wrr"}),
    ("Train, reproducible order", "mte: split once, then strict", {"strategy": "mte"}),
    ("Even mix, strict", "bounded, window 0", {"strategy": "bounded", "reorder_window": "0"}),
    ("CPU only baseline", "no drive takes part", {"strategy": "cpu"}),
    ("CSD only baseline", "no host worker takes part", {"strategy": "csd"}),
    (
        "Validation pass",
        "one epoch",
        {"strategy": "wrr", "epochs": "1", "pipeline": _VALIDATION},
    ),
)


@dataclass(frozen=True)
class Option:
    """Something that can be chosen."""

    value: str
    label: str
    chosen: bool
    usable: bool = True


@dataclass(frozen=True)
class PipelineChoice:
    """A pipeline that can be chosen."""

    name: str
    sentence: str
    steps: str
    output: str
    chosen: bool


@dataclass(frozen=True)
class StrategyChoice:
    """A strategy that can be chosen."""

    name: str
    summary: str
    when: str
    chosen: bool


@dataclass(frozen=True)
class NumberField:
    """A field that takes a number."""

    name: str
    label: str
    value: str
    hint: str
    low: str = ""
    high: str = ""
    step: str = "1"
    placeholder: str = ""
    empty_is_null: bool = False
    """Whether an empty field says something, rather than leaving the default."""


@dataclass(frozen=True)
class Preset:
    """Values for several fields at once."""

    name: str
    sentence: str
    address: str
    fields: str
    """As JSON, for whoever sets them without leaving the page."""


@dataclass(frozen=True)
class FormView:
    """Everything that can be chosen for a run."""

    name: str
    datasets: list[Option]
    pipelines: list[PipelineChoice]
    strategies: list[StrategyChoice]
    numbers: list[NumberField]
    window: NumberField
    tails: list[Option]
    policies: list[Option]
    orders: list[Option]
    """Whether each epoch has an order of its own."""
    share: NumberField
    advanced: list[NumberField]
    presets: list[Preset]
    notices: list[str]
    is_advanced: bool
    """Whether a field below "more" was changed, so that it is to be seen."""


@dataclass(frozen=True)
class PreviewView:
    """Which samples are shown, as which pipeline makes them."""

    pictures: list[tuple[int, str]]
    """Epochs, each with the address of its sheet."""
    drawn: str
    """Where the parameters drawn can be had."""
    caption: str
    following: str
    """The same page with the next epochs."""


@dataclass(frozen=True)
class DrawnRow:
    """What chance decided for one sample."""

    sample: int
    name: str
    label: str
    steps: str


def values_of(given: Mapping[str, str], known: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the fields hold: what was given, else what is copied, else what is usual."""
    base = {**DEFAULTS, **(known or {})}
    return base | {name: given[name].strip() for name in DEFAULTS if name in given}


def body_of(values: Values) -> dict[str, str | None]:
    """The fields as a body for `POST /runs`; what is empty is left out, or open-ended."""
    said = {name: value for name, value in values.items() if value and name in DEFAULTS}
    return {**said, **{name: None for name in _NULLS if not values[name]}}


def command_of(values: Values) -> str:
    """The same run on the command line: what is not as usual."""
    parts = ["ddlp", "run", "create", values["dataset"] or "DATASET"]
    for name, value in body_of(values).items():
        if name == "dataset" or value == DEFAULTS[name]:
            continue
        if value is None:
            parts.append("--endless")
        elif name == "reshuffle":
            parts.append("--reshuffle" if value == "true" else "--no-reshuffle")
        else:
            parts += [f"--{name.replace('_', '-')}", value]
    return shlex.join(parts)


def form_view(
    values: Values,
    datasets: Sequence[DatasetInfo],
    pipelines: Sequence[PipelineInfo],
    settings: Settings,
    notices: Sequence[str] = (),
) -> FormView:
    """The form with these values in it."""
    advanced = _advanced(values, settings)
    below = [field.name for field in advanced] + ["tail", "on_bad", "max_bad_share", "reshuffle"]
    return FormView(
        name=values["name"],
        datasets=[_dataset(info, values["dataset"]) for info in datasets],
        pipelines=[_pipeline(info, values["pipeline"]) for info in pipelines],
        strategies=[
            StrategyChoice(name, STRATEGIES[name].summary, _WHEN[name], name == values["strategy"])
            for name in CHOICES
        ],
        numbers=_numbers(values),
        window=_window(values),
        tails=[Option(p.value, _TAILS[p], p.value == values["tail"]) for p in TailPolicy],
        policies=[Option(p.value, _BAD[p], p.value == values["on_bad"]) for p in BadPolicy],
        orders=[Option(v, said, v == values["reshuffle"]) for v, said in _RESHUFFLE.items()],
        share=_share(values),
        advanced=advanced,
        presets=[_preset(values, *preset) for preset in _PRESETS],
        notices=list(notices),
        is_advanced=any(values[name] != DEFAULTS[name] for name in below),
    )


def _dataset(info: DatasetInfo, chosen: str) -> Option:
    ready = info.state is DatasetState.READY
    facts = f"{info.samples:,} samples, {size(info.total_bytes)}, {info.kind}"
    label = facts if ready else f"{info.state.value}{f': {info.reason}' if info.reason else ''}"
    return Option(info.name, f"{info.name} — {label}", ready and info.name == chosen, ready)


def _pipeline(info: PipelineInfo, chosen: str) -> PipelineChoice:
    names = [str(step["name"]) for step in info.transforms]
    random = [name for name in names if find_transform(name).draws]
    drawn = " and ".join(random) if len(random) < 3 else ", ".join(random)
    chance = f"Random: {drawn}." if random else "Nothing is random."
    said = _SENTENCES.get(info.name, "Added here.")
    return PipelineChoice(
        name=info.name,
        sentence=f"{said} {chance}",
        steps=" → ".join(names),
        output=f"{info.width} × {info.height}, {info.dtype}",
        chosen=info.name == chosen,
    )


def _numbers(values: Values) -> list[NumberField]:
    told = (
        ("batch_size", "Batch size", "samples a batch, for each rank", "1", "65536"),
        ("epochs", "Epochs", "Passes over the dataset. Empty: open-ended.", "1", "100000"),
        ("seed", "Seed", "decides the order and all that is random", "0", str(2**63 - 1)),
        ("world_size", "Ranks", "Empty: taken from the first trainers.", "1", "4096"),
    )
    return [
        NumberField(name, label, values[name], hint, low, high, empty_is_null=name in _NULLS)
        for name, label, hint, low, high in told
    ]


def _window(values: Values) -> NumberField:
    return NumberField(
        "reorder_window",
        "Reorder window",
        values["reorder_window"],
        "batches by which the order may deviate; 0 is strict",
        "0",
        str(10**9),
        placeholder="4",
    )


def _share(values: Values) -> NumberField:
    return NumberField(
        "max_bad_share",
        "Bad samples allowed",
        values["max_bad_share"],
        "Share of an epoch; 0.01 is 1 %. Empty: 0.1 %, or 10 samples if that is more.",
        "0",
        "1",
        "any",
    )


def _advanced(values: Values, settings: Settings) -> list[NumberField]:
    server = f"server's setting: {settings.cpu_window:,}"
    return [
        NumberField(
            "calibration",
            "Calibration",
            values["calibration"],
            "batches a device makes before its rate is trusted",
            "1",
            "10000",
        ),
        NumberField(
            "cpu_window", "CPU window", values["cpu_window"], f"batches; {server}", "1", "100000"
        ),
        _budget("cpu_store_bytes", "CPU store, bytes", values, settings.cpu_store_bytes),
        _budget("csd_store_bytes", "CSD store, bytes", values, settings.csd_store_bytes),
    ]


def _budget(name: str, label: str, values: Values, setting: int) -> NumberField:
    hint = f"what may lie unconsumed; server's setting: {size(setting)}"
    return NumberField(name, label, values[name], hint, str(1 << 20))


def _preset(values: Values, name: str, sentence: str, fields: dict[str, str]) -> Preset:
    """A preset; the reorder window is bounded's alone, so that each sets or clears it."""
    whole = {"reorder_window": "", **fields}
    if whole.get("pipeline") == _VALIDATION:
        whole["pipeline"] = _twin(values["pipeline"])
    changed = {**values, **whole}
    given = {key: value for key, value in changed.items() if value != DEFAULTS.get(key)}
    return Preset(name, sentence, f"/runs/new?{urlencode(given)}", json.dumps(whole))


def _twin(pipeline: str) -> str:
    """The preset that validates what another one trains; itself where there is none."""
    twin = pipeline.removesuffix("-train") + "-val"
    return twin if twin in PRESETS else pipeline


def preview_view(values: Values, samples: int, epoch: int) -> PreviewView:
    """A square of samples from all over a dataset, in two epochs."""
    count = min(SHOWN, samples)
    numbers = [place * samples // count for place in range(count)]
    chosen = {
        "pipeline": values["pipeline"],
        "samples": ",".join(map(str, numbers)),
        "seed": values["seed"] or "0",
    }
    sheet = f"/api/v1/datasets/{quote(values['dataset'])}/preview.png"
    drawn = {"dataset": values["dataset"], **chosen, "epoch": str(epoch)}
    return PreviewView(
        pictures=[
            (number, f"{sheet}?{urlencode({**chosen, 'epoch': str(number)})}")
            for number in (epoch, epoch + 1)
        ],
        drawn=f"/runs/new/drawn?{urlencode(drawn)}",
        caption=f"{count} of {samples:,} samples, as {values['pipeline']} makes them",
        following=f"/runs/new?{urlencode({**_address(values), 'epoch': str(epoch + 1)})}",
    )


def _address(values: Values) -> dict[str, str]:
    """The fields as a query of the page."""
    return {name: value or "" for name, value in body_of(values).items()}


def drawn_rows(found: Sequence[PreviewSample]) -> list[DrawnRow]:
    """What was drawn for each sample, step by step."""
    return [
        DrawnRow(
            sample=entry.sample,
            name=f"{'/'.join(entry.name.split('/')[-2:])} ({entry.width} × {entry.height})",
            label=entry.class_name,
            steps=_steps(entry) or "nothing: no step of it is random",
        )
        for entry in found
    ]


def _steps(entry: PreviewSample) -> str:
    parts = []
    for step in entry.steps:
        drawn = [f"{key} {_figure(value)}" for key, value in step.items() if key != "transform"]
        if drawn:
            parts.append(f"{step['transform']}: {', '.join(drawn)}")
    return "; ".join(parts)


def _figure(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
