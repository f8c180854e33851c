"""Transforms of installed packages: found by entry point, loaded when used, told apart by hash."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ddlp.core.errors import InvalidInput
from ddlp.core.pipeline import Engine, Pipeline, PipelineSpec, TensorSpec
from ddlp.core.pipeline.entry_points import known_transforms, origin
from tests.core.pipeline.making import dataset, encoded, smooth

INVERT = """
from typing import ClassVar
import numpy as np
from ddlp.core.pipeline import Extra, Geometric, PixelTransform, TensorSpec, Views

class Invert(PixelTransform):
    name: ClassVar[str] = "invert"
    version: ClassVar[int | str] = 1
    draws: ClassVar[int] = 1
    p: float = 1.0

    def apply(self, pixels, drawn):
        which = drawn[:, 0] < self.p
        pixels[which] = 255 - pixels[which]
        return pixels

class TopHalf(Geometric):
    name: ClassVar[str] = "top-half"

    def apply(self, views, drawn):
        return views.crop(0, 0, views.frame_width, views.frame_height // 2)

    def output_size(self, size):
        return None if size is None else (size[0], size[1] // 2)

class Weight(Extra):
    name: ClassVar[str] = "weight"
    draws: ClassVar[int] = 1
    least: float = 0.0

    @property
    def tensor(self):
        return TensorSpec("weight", "<f4", (1,))

    def make(self, seen):
        return np.maximum(seen.drawn, self.least) + seen.labels[:, None]

class Silent(Extra):
    name: ClassVar[str] = "silent"

class Shrunk(PixelTransform):
    name: ClassVar[str] = "shrunk"

    def apply(self, pixels, drawn):
        return pixels[:, ::2, ::2]

    def output_size(self, size):
        return size[0] // 2, size[1] // 2

class Nameless(PixelTransform):
    def apply(self, pixels, drawn):
        return pixels

class Idle(Geometric):
    name: ClassVar[str] = "idle"

def function():
    pass
"""
CROP = {"name": "centre-crop", "size": 8}
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package as pip would leave it: modules beside a folder that describes them."""
    modules: list[str] = []

    def put(package: str, version: str = "1.0", code: str = INVERT, **entries: str) -> None:
        root = tmp_path / f"{package}-{version}"
        about = root / f"{package}-{version}.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
        )
        lines = [f"{name.replace('_', '-')} = {package}:{value}" for name, value in entries.items()]
        (about / "entry_points.txt").write_text("\n".join(["[ddlp.transforms]", *lines]))
        (root / f"{package}.py").write_text(code)
        monkeypatch.syspath_prepend(str(root))
        modules.append(package)

    yield put
    for name in modules:
        sys.modules.pop(name, None)


def parse(*transforms: dict[str, Any]) -> Pipeline:
    return Pipeline.parse(PipelineSpec(transforms=[CROP, *transforms]))


def test_a_pixel_transform_of_a_package_is_part_of_a_pipeline(install: Install) -> None:
    install("colours", invert="Invert")
    pipeline = parse({"name": "invert", "p": 0.5})
    [stage] = pipeline.stages
    pixels = np.zeros((2, 8, 8, 3), dtype=np.uint8)
    after = stage.pixels[0].apply(pixels, np.asarray([[0.1], [0.9]]))
    assert after[:, 0, 0, 0].tolist() == [255, 0]
    assert Pipeline.parse(pipeline.spec) == pipeline
    assert pipeline.spec.transforms[-1] == {"name": "invert", "p": 0.5}


def test_a_geometric_transform_of_a_package_is_part_of_a_pipeline(install: Install) -> None:
    install("halves", top_half="TopHalf")
    assert parse({"name": "top-half"}).shape == (4, 8, 3)


def test_an_extra_of_a_package_is_part_of_a_pipeline(install: Install, tmp_path: Path) -> None:
    install("weights", weight="Weight")
    pipeline = parse({"name": "weight", "least": 0.5}, {"name": "grayscale"})
    assert pipeline.extras == (TensorSpec("weight", "<f4", (1,)),)
    assert Pipeline.parse(pipeline.spec) == pipeline
    assert pipeline.spec.transforms[-1] == {"name": "weight", "least": 0.5}
    assert pipeline.hash not in {parse({"name": "grayscale"}).hash, parse({"name": "weight"}).hash}
    index = dataset(tmp_path, *[encoded(smooth(20, 20))] * 6)
    made = Engine(index, pipeline, 3).extras(0, np.arange(6))["weight"]
    assert made.dtype == np.float32
    assert (made[:, 0] >= index.labels(np.arange(6)) + 0.5).all()
    assert len(set(made[:, 0].tolist())) > 2
    np.testing.assert_array_equal(
        made[[4, 1]], Engine(index, pipeline, 3).extras(0, np.asarray([4, 1]))["weight"]
    )


def test_the_package_of_an_extra_is_part_of_the_hash(install: Install) -> None:
    install("weights", weight="Weight")
    first = parse({"name": "weight"}).hash
    sys.modules.pop("weights")
    sys.path.pop(0)
    install("weights", "1.1", weight="Weight")
    assert parse({"name": "weight"}).hash != first


def test_beside_a_step_that_changes_sizes_no_view_can_be_told(install: Install) -> None:
    install("shrinking", shrunk="Shrunk")
    assert parse({"name": "shrunk"}).shape == (4, 4, 3)
    with pytest.raises(InvalidInput, match="view cannot tell what is seen after shrunk, which"):
        parse({"name": "shrunk"}, {"name": "view"})


def test_its_parameters_are_checked(install: Install) -> None:
    install("colours", invert="Invert")
    with pytest.raises(InvalidInput, match=r"transform 1 \(invert\): q: Extra inputs"):
        parse({"name": "invert", "q": 1})


def test_the_known_names_are_told_with_those_of_packages(install: Install) -> None:
    install("colours", invert="Invert")
    assert "invert" in known_transforms()
    with pytest.raises(
        InvalidInput, match=r"no transform 'blur'; known .*grayscale, invert, label"
    ):
        parse({"name": "blur"})


def test_the_package_and_its_version_are_part_of_the_hash(install: Install) -> None:
    plain = parse().hash
    install("colours", invert="Invert")
    first = parse({"name": "invert"}).hash
    assert origin("invert") == ["colours", "1.0"]
    assert origin("flip") == []
    sys.modules.pop("colours")
    sys.path.pop(0)
    install("colours", "1.1", invert="Invert")
    second = parse({"name": "invert"}).hash
    sys.modules.pop("colours")
    sys.path.pop(0)
    install("others", invert="Invert")
    third = parse({"name": "invert"}).hash
    assert len({plain, first, second, third}) == 4
    assert parse().hash == plain, "pipelines that do not use it keep theirs"


def test_the_version_of_the_class_is_part_of_the_hash(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("colours", invert="Invert")
    pipeline = parse({"name": "invert"})
    before = pipeline.hash
    monkeypatch.setattr(type(pipeline.steps[-1]), "version", "2-beta")
    assert parse({"name": "invert"}).hash != before


def test_a_name_of_our_own_is_refused(install: Install) -> None:
    install("colours", flip="Invert")
    words = r"transform 1: colours 1\.0 adds a transform 'flip', which is the name of one of DDLP's"
    with pytest.raises(InvalidInput, match=words):
        parse({"name": "flip"})
    assert parse().shape == (8, 8, 3), "other pipelines are not concerned"


def test_a_name_that_two_packages_add_is_refused(install: Install) -> None:
    install("colours", invert="Invert")
    install("others", "3.2", invert="Invert")
    words = r"more than one transform 'invert': others 3\.2, colours 1\.0 add it; uninstall all but"
    with pytest.raises(InvalidInput, match=words):
        parse({"name": "invert"})


BROKEN: dict[str, tuple[str, str]] = {
    "a class that is not there": ("Missing", "cannot be loaded from broken:Missing: .*Missing"),
    "a function": ("function", "is broken:function, which is no Geometric, no Pixel.* no Extra"),
    "a class without its name": ("Nameless", "has another name, which must be 'odd'"),
    "a class with another name": ("Invert", "has another name, which must be 'odd'"),
    "a class that does nothing": ("Idle", "broken:Idle has no method apply"),
    "an extra without a tensor": ("Silent", "has no method make and no method tensor"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_entry_point_fails_only_pipelines_that_use_it(install: Install, kind: str) -> None:
    value, words = BROKEN[kind]
    install("broken", odd=value, invert="Invert")
    with pytest.raises(InvalidInput, match=rf"transform 'odd' of broken 1\.0.*{words}"):
        parse({"name": "odd"})
    assert parse({"name": "invert"}).steps[-1].name == "invert"


def test_code_that_raises_when_imported_is_named_and_not_loaded_before(install: Install) -> None:
    install("broken", code="raise RuntimeError('no such device')", odd="Invert")
    assert parse({"name": "flip"}).steps[-1].name == "flip"
    assert "broken" not in sys.modules
    words = r"transform 'odd' of broken 1\.0 cannot be loaded from broken:Invert: no such device"
    with pytest.raises(InvalidInput, match=words):
        parse({"name": "odd"})


def test_our_own_transforms_load_no_package(install: Install) -> None:
    install("colours", invert="Invert")
    parse({"name": "flip"}, {"name": "grayscale"})
    assert "colours" not in sys.modules
