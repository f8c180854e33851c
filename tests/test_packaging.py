"""What is on disk is what is packaged, and what is packaged can be installed and imported."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PROJECT["tool"]["setuptools"]
FOLDERS = ("cli", "core", "loader", "migrations", "server", "web", "workers")


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def packages_on_disk() -> dict[str, str]:
    """Name to folder, of every folder below the mapped ones that is a package."""
    folders = [path.parent for top in FOLDERS for path in (ROOT / top).rglob("__init__.py")]
    paths = [folder.relative_to(ROOT).as_posix() for folder in folders]
    return {f"ddlp.{path.replace('/', '.')}": path for path in paths}


def build(source: Path, **environment: str) -> Path:
    """Built from a copy, so that nothing left by an earlier build gets in."""
    unwanted = shutil.ignore_patterns("__pycache__", "*.so")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, source / folder, ignore=unwanted)
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, source)
    words = ("-m", "build", "--wheel", "--no-isolation", "--outdir", "dist")
    run(sys.executable, *words, cwd=source, **environment)
    (built,) = (source / "dist").glob("*.whl")
    return built


def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    return contents(wheel)


def test_package_list_matches_the_disk() -> None:
    on_disk = packages_on_disk()
    assert sorted(SETUPTOOLS["packages"]) == sorted(on_disk)
    assert SETUPTOOLS["package-dir"] == on_disk


def test_no_module_lies_outside_a_package() -> None:
    for top in FOLDERS:
        for module in (ROOT / top).rglob("*.py"):
            assert (module.parent / "__init__.py").exists(), module


def test_namespace_links_show_every_folder() -> None:
    links = {path.name: path.readlink().as_posix() for path in (ROOT / ".ns/ddlp").iterdir()}
    assert links == {top: f"../../{top}" for top in FOLDERS}


def test_wheel_has_one_namespace_at_its_top(names: set[str]) -> None:
    tops = {name.split("/")[0] for name in names}
    assert tops == {"ddlp", f"ddlp-{PROJECT['project']['version']}.dist-info"}
    assert "ddlp/__init__.py" not in names


def test_wheel_holds_every_module(names: set[str]) -> None:
    modules = {
        f"ddlp/{path.relative_to(ROOT).as_posix()}"
        for top in FOLDERS
        for path in (ROOT / top).rglob("*.py")
    }
    assert modules == {name for name in names if name.endswith(".py")}


@pytest.mark.parametrize("folder", ["web/templates", "web/static"])
def test_wheel_holds_what_pages_are_made_of(names: set[str], folder: str) -> None:
    files = [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    assert files
    assert {f"ddlp/{path.relative_to(ROOT).as_posix()}" for path in files} <= names


@pytest.mark.parametrize(
    "name",
    [
        "htmx.min.js",
        "hx-sse.min.js",
        "uPlot.iife.min.js",
        "uPlot.min.css",
        "htmx.LICENSE.txt",
        "uPlot.LICENSE.txt",
    ],
)
def test_wheel_holds_third_party_javascript(wheel: Path, name: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"ddlp/web/static/vendor/{name}")


def test_wheel_holds_the_profiles_of_devices(names: set[str]) -> None:
    profiles = list((ROOT / "workers/csd/profiles").glob("*.toml"))
    assert profiles
    assert {f"ddlp/{path.relative_to(ROOT).as_posix()}" for path in profiles} <= names


def test_wheel_holds_types_migrations_and_licence(names: set[str]) -> None:
    assert {f"ddlp/{top}/py.typed" for top in FOLDERS} <= names
    assert {"ddlp/migrations/env.py", "ddlp/migrations/script.py.mako"} <= names
    assert any(re.fullmatch(r"ddlp/migrations/versions/0001_\w+\.py", name) for name in names)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


KERNEL = "ddlp/core/image/_fused.abi3.so"
LOST_PAGES = "ddlp/core/_lost_pages.abi3.so"


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_wheel_holds_the_kernel_for_every_later_python(wheel: Path, names: set[str]) -> None:
    assert {KERNEL, LOST_PAGES} <= names
    assert "-cp311-abi3-" in wheel.name


def test_without_a_compiler_the_wheel_is_built_without_the_kernel(tmp_path: Path) -> None:
    names = contents(build(tmp_path, CC="/bin/false"))
    assert not {KERNEL, LOST_PAGES} & names
    assert "ddlp/core/image/reference.py" in names


def test_every_source_in_c_is_built_and_packed() -> None:
    kernel, lost_pages = SETUPTOOLS["ext-modules"]
    sources = [path.name for path in (ROOT / "core/c").iterdir()]
    assert lost_pages["sources"] == [f"core/c/{name}" for name in sources]
    assert lost_pages["optional"] is True
    folder = ROOT / "core/image/c"
    assert kernel["sources"] == sorted(f"core/image/c/{path.name}" for path in folder.glob("*.c"))
    assert kernel["depends"] == sorted(f"core/image/c/{path.name}" for path in folder.glob("*.h"))
    assert kernel["optional"] is True


def test_wheel_installs_and_imports(wheel: Path, tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    run(*pip, "--no-deps", "--no-index", "--target", "installed", wheel, cwd=tmp_path)
    installed = tmp_path / "installed"
    # -S keeps the editable install out; what the package depends on comes behind it on the path.
    others = next(path for path in sys.path if path.endswith("site-packages"))
    code = "import ddlp.core, ddlp.loader; print(ddlp.core.__file__); print(ddlp.loader.__file__)"
    path = os.pathsep.join([str(installed), others])
    out = run(sys.executable, "-S", "-c", code, cwd=tmp_path, PYTHONPATH=path)
    expected = [installed / "ddlp" / part / "__init__.py" for part in ("core", "loader")]
    assert [Path(line) for line in out.splitlines()] == expected


def test_base_install_is_small() -> None:
    wanted = {re.split(r"[^\w-]", line)[0].lower() for line in PROJECT["project"]["dependencies"]}
    assert wanted == {"numpy", "pillow", "pydantic", "pydantic-settings", "typer", "xxhash"}


def test_constraints_pin_exact_versions_only() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", pin) for pin in pins)
    names = [pin.split("==")[0].lower().replace("_", "-") for pin in pins]
    assert names == sorted(set(names))
    assert not {"ddlp", "torch", "pip"} & set(names)


def test_constraints_pin_what_set_up_installs() -> None:
    pinned = set(re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text().lower(), re.M))
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *extras["server"], *extras["dev"]]
    names = {re.split(r"[^\w-]", line)[0].lower() for line in wanted} - {"ddlp"}
    assert names <= pinned


def test_lock_file_names_no_host() -> None:
    assert "://" not in (ROOT / "web/package-lock.json").read_text()
