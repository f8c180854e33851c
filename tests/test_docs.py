"""The documents say what is so."""

import json
import re
import runpy
import sys
import tomllib
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main

from ddlp.cli.main import app
from ddlp.core.batchfile import BatchId, batch_tensors, layout, parse_head, seal
from ddlp.core.codecs import Codec
from ddlp.core.pipeline import PRESETS, TRANSFORMS, Pipeline, PipelineSpec, Seen, Views
from ddlp.core.schedule import STRATEGIES
from ddlp.core.settings import Settings
from ddlp.core.store import FolderStore, path_of
from ddlp.core.types import DeviceKind, Prong
from ddlp.workers.csd import DRIVERS, find_profile, known_profiles
from ddlp.workers.device import WorkerDevice
from tests.core.records.making import NEEDS_KERNEL, dataset, packed

ROOT = Path(__file__).parent.parent
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


def test_the_page_of_settings_is_made_from_the_settings() -> None:
    page = runpy.run_path(str(ROOT / "scripts" / "settings-page"))["page"]
    assert (ROOT / "docs" / "settings.md").read_text() == page()
    assert all(field.description for field in Settings.model_fields.values())


def test_the_tables_of_commands_and_of_statuses_are_made_from_them() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "cli-page"))
    text = (ROOT / "docs" / "cli.md").read_text()
    assert script["page"](text) == text
    assert "| `ddlp run clone` |" in text
    assert "| 5 | `NOT_FOUND` |" in text


@pytest.mark.parametrize("codec", Codec)
def test_the_reader_in_the_documents_reads_a_batch(tmp_path: Path, codec: Codec) -> None:
    text = (ROOT / "docs" / "batch-format.md").read_text()
    [source] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(source, names)
    batch = BatchId(uuid.uuid4(), 1, 2, 3, 5, "ab" * 32, "engine", "device")

    def fill(arrays: dict[str, Any]) -> int:
        arrays["images"][:] = 7
        arrays["labels"][:] = range(5)
        arrays["samples"][:] = range(5, 10)
        return 5

    store = FolderStore(tmp_path, codec=codec)
    stored = store.write(batch, batch_tensors(5, (8, 6, 3), "uint8"), fill)
    with pytest.warns(ResourceWarning):
        tensors = names["read"](path_of(stored.location))
    assert tensors["images"].shape == (5, 8, 6, 3)
    assert np.all(tensors["images"] == 7)
    assert tensors["samples"].tolist() == [5, 6, 7, 8, 9]


@NEEDS_KERNEL
def test_the_reader_in_the_documents_reads_a_shard(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "records.md").read_text()
    [source] = re.findall(r"```python\n(import json, struct\n.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(source, names)
    index = packed(dataset(tmp_path), tmp_path / "p", per_shard=100)
    with pytest.warns(ResourceWarning):
        about, samples = names["read_shard"](tmp_path / "p" / "pack-00000-of-00001.ddlp")
    assert about["dataset"]["version"] == index.version
    assert len(samples) == index.samples
    for sample, (name, label, kind, turn, data) in enumerate(samples):
        row, expected = index.row(sample)
        assert (name, label, kind, turn) == (expected, row.label, row.kind, row.orientation)
        assert data == index.read(sample)


def test_the_fold_in_the_documents_is_the_one_in_files() -> None:
    batch = BatchId(uuid.uuid4(), 1, 2, 3, 5, "ab" * 32, "engine", "device")
    tensors = batch_tensors(5, (40, 40, 3), "uint8")
    raw = bytearray(np.random.default_rng(1).bytes(layout(tensors)[1]))
    seal(memoryview(raw), batch, tensors, folded=True)
    g, size, found = 0x9E3779B97F4A7C15, 2**64, 0
    words = [int.from_bytes(raw[at : at + 8], "little") for at in range(4096, len(raw), 8)]
    for place, word in enumerate(words):
        i, j = divmod(place, 512)
        found += ((i * g % size) | 1) * (((j + 1) * g % size) | 1) * word
    assert parse_head(memoryview(raw)).fold == found % size


PIPELINES = (ROOT / "docs" / "pipelines.md").read_text()


@pytest.mark.parametrize("name", TRANSFORMS)
def test_every_transform_and_each_of_its_parameters_is_documented(name: str) -> None:
    [section] = re.findall(rf"^### `{name}`\n(.*?)(?=^##)", PIPELINES, re.DOTALL | re.MULTILINE)
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", section, re.MULTILINE)
    expected = [
        (
            field,
            "required" if info.is_required() else f"`{json.dumps(info.default)}`",
            info.description,
        )
        for field, info in TRANSFORMS[name].model_fields.items()
    ]
    assert rows == expected


def test_every_preset_is_documented() -> None:
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (.*) \| \d+ × \d+ \|$", PIPELINES, re.MULTILINE))
    assert {name: re.findall(r"`([\w-]+)`", steps) for name, steps in rows.items()} == {
        name: [step["name"] for step in steps] for name, steps in PRESETS.items()
    }


def test_the_pipeline_in_the_documents_can_be_used() -> None:
    [example] = re.findall(r"```json\n(.*?)```", PIPELINES, re.DOTALL)
    pipeline = Pipeline.parse(PipelineSpec.model_validate_json(example))
    assert pipeline.shape == (224, 224, 3)


def test_the_transform_in_the_documents_can_be_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = re.findall(r"```python\n(.*?)```", PIPELINES, re.DOTALL)
    [project] = re.findall(r"```toml\n(.*?)```", PIPELINES, re.DOTALL)
    entries = tomllib.loads(project)["project"]["entry-points"]["ddlp.transforms"]
    about = tmp_path / "my_package-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my_package\nVersion: 1\n")
    lines = [f"{name} = {value}" for name, value in entries.items()]
    (about / "entry_points.txt").write_text("\n".join(["[ddlp.transforms]", *lines]))
    (tmp_path / "my_package.py").write_text("\n".join(sources))
    monkeypatch.syspath_prepend(str(tmp_path))
    crop = {"name": "centre-crop", "size": 4}
    steps = [crop, {"name": "solarize", "threshold": 200}, {"name": "timestep", "steps": 50}]
    pipeline = Pipeline.parse(PipelineSpec(transforms=steps))
    assert set(entries) == {"solarize", "timestep"}
    [stage] = pipeline.stages
    [solarize] = stage.pixels
    pixels = np.full((2, 4, 4, 3), 220, dtype=np.uint8)
    drawn = np.asarray([[0.1], [0.9]])
    assert solarize.apply(pixels, drawn)[:, 0, 0, 0].tolist() == [35, 220]
    assert solarize.explain(drawn) == [{"solarized": True}, {"solarized": False}]
    [timestep] = pipeline.extra_steps
    numbers, nobody = np.zeros(2, np.int64), Views.whole(np.ones(2), np.ones(2))
    made = timestep.make(Seen(numbers, numbers, numbers, numbers, nobody, (), drawn))
    assert made.tolist() == [5, 45]
    assert timestep.explain(made) == [{"timestep": 5}, {"timestep": 45}]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_are_named_exist(document: Path) -> None:
    text = document.read_text()
    links = re.findall(r"\]\(((?!https?:)[^)#]+)\)", text)
    named = re.findall(
        r"`((?:core|server|workers|loader|web|cli|migrations|tests|docs|scripts)/[\w./-]*)`", text
    )
    for name in links:
        assert (document.parent / name).exists(), name
    for name in named:
        assert (ROOT / name).exists(), name


def test_every_strategy_and_command_is_documented() -> None:
    readme = (ROOT / "README.md").read_text()
    architecture = (ROOT / "ARCHITECTURE.md").read_text()
    for name in STRATEGIES:
        assert f"`{name}`" in readme
        assert f"`{name}`" in architecture
    changelog = (ROOT / "CHANGELOG.md").read_text()
    command = typer.main.get_command(app)
    for name in command.commands:  # type: ignore[attr-defined]
        assert f"`{name}`" in changelog


def test_commands_that_print_can_print_json() -> None:
    silent = {"up", "serve", "worker", "demo", "completions"}

    def check(command: Any, name: str) -> None:
        for sub, found in getattr(command, "commands", {}).items():
            check(found, sub)
        if not hasattr(command, "commands") and name not in silent:
            options = [option for parameter in command.params for option in parameter.opts]
            assert "--json" in options, name

    check(typer.main.get_command(app), "ddlp")


CSD = (ROOT / "docs" / "csd.md").read_text()


def test_the_driver_in_the_documents_can_be_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [source] = re.findall(r"```python\n(.*?)```", CSD, re.DOTALL)
    [project] = re.findall(r"```toml\n(.*?)```", CSD, re.DOTALL)
    [[name, value]] = tomllib.loads(project)["project"]["entry-points"]["ddlp.csd_drivers"].items()
    about = tmp_path / "my_package-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my_package\nVersion: 1\n")
    (about / "entry_points.txt").write_text(f"[ddlp.csd_drivers]\n{name} = {value}\n")
    (tmp_path / "my_package.py").write_text(source)
    monkeypatch.delitem(sys.modules, "my_package", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    device = WorkerDevice.from_settings(Settings(csd_driver=name), Prong.CSD, slots=None)
    assert (device.kind, device.slots) == (DeviceKind.CSD, 4)
    started = device.started()
    assert (started.speed, started.link_bytes_per_s) == (1.0, None)
    assert device.driver.health().ok
    assert device.driver.energy(busy_s=2, idle_s=1).joules == 24
    device.driver.stop()


def test_every_profile_and_driver_is_documented() -> None:
    rows = re.findall(
        r"^\| `([\w-]+)` \| (\d+) \| (\S+) \| (\S+) W \| (\S+) W \| (\S+) GB/s", CSD, re.M
    )
    found = {
        name: (p.cores, p.speed, p.active_w, p.idle_w, p.link_bytes_per_s)
        for name in known_profiles()
        for p in [find_profile(name)]
    }
    assert {name: [float(cell) for cell in cells] for name, *cells in rows} == {
        name: [*(figure.value for figure in figures[:4]), figures[4].value / 1e9]
        for name, figures in found.items()
    }
    for name in DRIVERS:
        assert f"| `{name}` |" in CSD
