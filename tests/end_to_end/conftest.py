"""A stack to do harm to, and traps that its processes die in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ddlp.core.client import Client
from tests.conftest import UpProcess, add_fruit
from tests.end_to_end.trainer import new_run, train


class Traps:
    """Sets traps, and tells whether a process went into one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def set(self, moment: str, signal_name: str = "SIGKILL") -> None:
        """The next process that comes to this moment is killed, or gets another signal."""
        (self.folder / f".{moment}").write_text(signal_name)
        (self.folder / f".{moment}").rename(self.folder / moment)

    def sprung(self, moment: str) -> bool:
        """Whether one has been."""
        return not (self.folder / moment).exists()

    def clear(self) -> None:
        """Take those away that nobody went into."""
        for trap in self.folder.iterdir():
            trap.unlink()


@pytest.fixture(scope="package")
def trap_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traps")


@pytest.fixture
def traps(trap_folder: Path) -> Iterator[Traps]:
    """Traps for the processes of the victim."""
    found = Traps(trap_folder)
    yield found
    found.clear()


@pytest.fixture(scope="package")
def victim(
    tmp_path_factory: pytest.TempPathFactory, images: Path, trap_folder: Path
) -> Iterator[UpProcess]:
    """A stack that keeps little in store, and knows how fast its devices are."""
    home = tmp_path_factory.mktemp("victim")
    small = {"cpu_workers": "2", "cpu_window": "4", "csd_store_bytes": str(1 << 20)}
    small["pack_shard_samples"] = "16"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent / "traps"))
        patch.setenv("TRAPS", str(trap_folder))
        stack = UpProcess(home, [images], **small)
    with stack:
        add_fruit(stack, images)
        with stack.client() as client:
            train(stack, new_run(client, batch_size=4))
        yield stack


@pytest.fixture
def client(victim: UpProcess) -> Iterator[Client]:
    """A client for the victim."""
    with victim.client() as found:
        yield found
