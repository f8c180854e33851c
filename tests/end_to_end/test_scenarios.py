"""Random stories of training runs: what the loops received, counted here, and what verify says."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import UpProcess, add_fruit, make_images
from tests.end_to_end.scenarios.story import Story
from tests.end_to_end.scenarios.teller import Teller

FEW, MANY = 3, 100
SAMPLES = 61


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_images(tmp_path_factory.mktemp("data") / "pictures", SAMPLES)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, pictures: Path) -> Iterator[UpProcess]:
    """A stack whose server may be killed, and that keeps little in store."""
    home = tmp_path_factory.mktemp("stack")
    with UpProcess(home, [pictures], cpu_workers="2", cpu_window="6") as running:
        add_fruit(running, pictures)
        yield running


def seeds() -> list[object]:
    """The first few each time, the others behind `-m long`."""
    long = [pytest.param(seed, marks=pytest.mark.long) for seed in range(FEW, MANY)]
    return [*range(FEW), *long]


@pytest.mark.parametrize("seed", seeds())
def test_a_local_story_trains_on_each_sample_once(
    pictures: Path, tmp_path: Path, seed: int
) -> None:
    Teller(Story.draw(seed, local=True), pictures, tmp_path, None).play()


@pytest.mark.parametrize("seed", seeds())
def test_a_story_on_a_server_is_what_verify_says(
    pictures: Path, tmp_path: Path, stack: UpProcess, seed: int
) -> None:
    Teller(Story.draw(seed, local=False), pictures, tmp_path, stack).play()
