"""A folder whose owner died is swept by the next one; a living owner's folder stays."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ddlp.core.owned_folder import make_owned_folder, shared_memory, sweep

OWNER = """
import sys
from pathlib import Path
from ddlp.core.owned_folder import make_owned_folder

folder = make_owned_folder(Path(sys.argv[1]))
(folder / "batch").write_text("pixels")
print(folder, flush=True)
sys.stdin.read()
"""


@contextmanager
def owner(base: Path) -> Iterator[tuple["subprocess.Popen[str]", Path]]:
    """A living process with a folder of its own, killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(base)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_a_folder_is_new_and_ours(tmp_path: Path) -> None:
    first, second = make_owned_folder(tmp_path), make_owned_folder(tmp_path)
    assert first != second
    assert first.is_dir()
    assert first.parent == second.parent == tmp_path
    assert str(os.getpid()) in first.name
    assert first.stat().st_mode & 0o077 == 0, "nobody else may look into it"


def test_a_living_owners_folder_stays_and_a_killed_ones_is_swept(tmp_path: Path) -> None:
    with owner(tmp_path) as (process, folder):
        mine = make_owned_folder(tmp_path)
        assert (folder / "batch").exists()
        process.kill()
        process.wait()
        assert (folder / "batch").exists()
        sweep(tmp_path)
        assert not folder.exists()
    assert mine.exists()


def test_making_a_folder_sweeps_what_the_dead_left(tmp_path: Path) -> None:
    with owner(tmp_path) as (process, folder):
        process.kill()
        process.wait()
    made = make_owned_folder(tmp_path)
    assert list(tmp_path.iterdir()) == [made]
    assert not folder.exists()


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    others = ["ddlp-local-", "ddlp-local-notes", "ddlp-local-x-1", "ddlp-0-abc", "something"]
    others.append("ddlp-local-²-x")
    for name in others:
        (tmp_path / name).mkdir()
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)


def test_a_folder_of_a_number_that_no_process_can_have_is_swept(tmp_path: Path) -> None:
    (tmp_path / "ddlp-local-99999999999999999999-x").mkdir()
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_sweeping_where_nothing_is_does_nothing(tmp_path: Path) -> None:
    sweep(tmp_path / "none")


def test_shared_memory_is_a_folder_that_can_be_written_to() -> None:
    assert os.access(shared_memory(), os.W_OK)
