"""Set-up does its work once, notices what changed, and recovers from having been interrupted."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Stands for Python: writes down what it was asked, makes environments out of itself, and does
# the rest for real.
PYTHON = """#!/bin/bash
case "$*" in
  "-m venv "*)
    echo "venv" >> calls
    mkdir -p .venv/bin
    cp "$0" .venv/bin/python
    echo "$PWD/.venv" > .venv/pyvenv.cfg ;;
  "-m pip --version") exit 0 ;;
  "-m pip "*)
    echo "pip ${*: -1}" >> calls
    if [ -e broken ]; then echo "the disk is full"; exit 1; fi
    if [ -e "without-${*: -1}" ]; then exit 1; fi
    touch .venv/bin/ddlp; chmod +x .venv/bin/ddlp ;;
  *) exec {python} "$@" ;;
esac
"""
NPM = """#!/bin/bash
echo "npm $1" >> ../calls
mkdir -p node_modules/htmx.org/dist/ext node_modules/uplot/dist node_modules/axe-core
touch node_modules/axe-core/{LICENSE,axe.min.js}
touch node_modules/htmx.org/{LICENSE,dist/htmx.min.js,dist/ext/hx-sse.min.js}
touch node_modules/uplot/{LICENSE,dist/uPlot.iife.min.js,dist/uPlot.min.css}
"""
EVERYTHING = [
    "venv",
    "pip setuptools",
    "pip .[dev]",
    "pip torchvision==0.28.0",
    "pip nvidia-cufile==1.19.1.55",
    "npm ci",
]


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


class Tree:
    """A copy of what set-up reads, with stand-ins for Python and npm."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("scripts", "web"):
            (folder / name).mkdir()
        for name in (
            "pyproject.toml",
            "constraints.txt",
            "web/package-lock.json",
            "scripts/setup",
            "scripts/fetch-javascript",
            "scripts/system-packages",
        ):
            shutil.copy(ROOT / name, folder / name)
        for name in ("core/c", "core/image/c"):
            shutil.copytree(ROOT / name, folder / name)
        executable(folder / "bin/python3", PYTHON.replace("{python}", sys.executable))
        executable(folder / "bin/npm", NPM)

    def run(self, *command: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
        path = path or f"{self.folder / 'bin'}:{os.environ['PATH']}"
        environment = {k: v for k, v in os.environ.items() if k != "PYTHON"} | {"PATH": path}
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True
        )

    def setup(self) -> list[str]:
        """Run it, and say what it did."""
        calls = self.folder / "calls"
        calls.unlink(missing_ok=True)
        done = self.run("scripts/setup")
        assert done.returncode == 0, done.stdout + done.stderr
        assert bool(done.stdout) is calls.exists()  # it speaks when it works, and only then
        return calls.read_text().splitlines() if calls.exists() else []


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_setup_runs_once(tree: Tree) -> None:
    assert tree.setup() == EVERYTHING
    assert tree.setup() == []


def test_setup_fetches_the_javascript(tree: Tree) -> None:
    tree.setup()
    assert {path.name for path in (tree.folder / "web/static/vendor").iterdir()} == {
        "htmx.min.js",
        "hx-sse.min.js",
        "uPlot.iife.min.js",
        "uPlot.min.css",
        "htmx.LICENSE.txt",
        "uPlot.LICENSE.txt",
    }
    assert {path.name for path in (tree.folder / "tests/web/vendor").iterdir()} == {
        "axe.min.js",
        "axe.LICENSE.txt",
    }
    assert not (tree.folder / "web/node_modules").exists()


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt", "web/package-lock.json"])
def test_setup_notices_a_change(tree: Tree, name: str) -> None:
    tree.setup()
    with (tree.folder / name).open("a") as file:
        file.write("\n")
    assert tree.setup() == EVERYTHING[1:]
    assert tree.setup() == []


@pytest.mark.parametrize("folder", ["web/static/vendor", "tests/web/vendor"])
def test_setup_restores_javascript_that_is_gone(tree: Tree, folder: str) -> None:
    tree.setup()
    shutil.rmtree(tree.folder / folder)
    assert "npm ci" in tree.setup()


def test_setup_starts_afresh_after_a_failure(tree: Tree) -> None:
    (tree.folder / "broken").touch()
    done = tree.run("scripts/setup")
    assert done.returncode != 0
    assert "the disk is full" in done.stderr
    (tree.folder / "broken").unlink()
    assert tree.setup() == EVERYTHING
    assert tree.setup() == []


def test_setup_goes_on_without_kvikio(tree: Tree) -> None:
    (tree.folder / "without-nvidia-cufile==1.19.1.55").touch()
    done = tree.run("scripts/setup")
    assert done.returncode == 0, done.stderr
    assert "without KvikIO" in done.stderr
    assert tree.setup() == []


def test_setup_replaces_an_environment_that_does_not_run(tree: Tree) -> None:
    tree.setup()
    (tree.folder / ".venv/bin/python").unlink()
    assert tree.setup() == EVERYTHING


def test_setup_replaces_an_environment_made_elsewhere(tree: Tree) -> None:
    tree.setup()
    (tree.folder / ".venv/pyvenv.cfg").write_text("/elsewhere/.venv")
    (tree.folder / ".venv/.setup-done").unlink()
    assert tree.setup() == EVERYTHING


def test_setup_refuses_an_old_python_in_one_line(tree: Tree) -> None:
    executable(
        tree.folder / "bin/python3",
        "#!/bin/bash\n[[ $2 == *print* ]] && echo 3.9 || exit 1\n",
    )
    done = tree.run("scripts/setup")
    assert done.returncode != 0
    assert done.stderr.count("\n") == 1
    assert "Python 3.9" in done.stderr


@pytest.mark.parametrize("wanted", ["nothing=sh", "nothing=/usr"])
def test_system_package_whose_probe_is_there_is_left_alone(tree: Tree, wanted: str) -> None:
    done = tree.run("scripts/system-packages", wanted)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def stand_in(tree: Tree, user: int, apt_get: str | None) -> str:
    """A PATH on which only stand-ins and what the script itself needs are found."""
    for name in ("bash", "cat", "grep", "mktemp", "rm", "touch"):
        (tree.folder / "bin" / name).symlink_to(str(shutil.which(name)))
    executable(tree.folder / "bin/id", f"#!/bin/bash\necho {user}\n")
    if apt_get is not None:
        executable(tree.folder / "bin/apt-get", f'#!/bin/bash\necho "$*" >> calls\n{apt_get}\n')
    return str(tree.folder / "bin")


@pytest.mark.parametrize(("user", "apt_get"), [(1000, "exit 0"), (0, None)], ids=["user", "no apt"])
def test_missing_system_package_is_named_in_one_line(
    tree: Tree, user: int, apt_get: str | None
) -> None:
    path = stand_in(tree, user, apt_get)
    done = tree.run("bash", "scripts/system-packages", "browser=absent", "font=absent", path=path)
    assert done.returncode != 0
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("browser font\n")
    assert not (tree.folder / "calls").exists()


@pytest.mark.parametrize(
    ("apt_get", "fetched"),
    [
        ("touch found", False),
        ("[[ $* == *update* ]] && touch listed; [[ -e listed ]] && touch found", True),
    ],
    ids=["lists are good", "lists are old"],
)
def test_package_lists_are_fetched_only_when_needed(
    tree: Tree, apt_get: str, fetched: bool
) -> None:
    path = stand_in(tree, 0, apt_get)
    done = tree.run("bash", "scripts/system-packages", "browser=found", path=path)
    assert done.returncode == 0, done.stderr
    calls = (tree.folder / "calls").read_text()
    assert "--no-install-recommends browser" in calls
    assert ("update" in calls) is fetched


def test_system_package_that_cannot_be_installed_shows_why(tree: Tree) -> None:
    path = stand_in(tree, 0, "echo no network; exit 100")
    done = tree.run("bash", "scripts/system-packages", "browser=found", path=path)
    assert done.returncode != 0
    assert "no network" in done.stderr
    assert "Could not install: browser" in done.stderr
