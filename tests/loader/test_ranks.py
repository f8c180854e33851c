"""Which rank of a training job a process is."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch.distributed as dist

from ddlp.core.errors import InvalidInput
from ddlp.loader.ranks import Ranks, find_ranks

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    """A real process group, of this process alone."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_a_process_that_nobody_placed_is_alone() -> None:
    assert find_ranks(environment={}) == Ranks(0, 1, None, None)


def test_what_torchrun_set_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    assert find_ranks() == Ranks(3, 4, 1, 2)


def test_a_launcher_may_say_nothing_about_the_host() -> None:
    assert find_ranks(environment={"RANK": "1", "WORLD_SIZE": "2"}) == Ranks(1, 2, None, None)


def test_empty_variables_say_nothing() -> None:
    assert find_ranks(environment={"RANK": "", "WORLD_SIZE": " "}) == Ranks(0, 1)


def test_the_rank_within_a_host_alone_says_nothing() -> None:
    assert find_ranks(environment={"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}) == Ranks(0, 1)


def test_arguments_go_first() -> None:
    assert find_ranks(1, 2, TORCHRUN) == Ranks(1, 2, None, None)


def test_arguments_do_not_care_what_else_the_environment_says() -> None:
    assert find_ranks(1, 2, {"WORLD_SIZE": "4"}) == Ranks(1, 2, None, None)


def test_arguments_that_agree_with_the_launcher_keep_what_it_says_of_the_host() -> None:
    assert find_ranks(3, 4, TORCHRUN) == Ranks(3, 4, 1, 2)


@pytest.mark.usefixtures("group")
def test_a_process_group_goes_before_the_environment() -> None:
    assert find_ranks(environment=TORCHRUN) == Ranks(0, 1)
    assert find_ranks(1, 2, TORCHRUN) == Ranks(1, 2)


@pytest.mark.parametrize(
    ("rank", "world_size", "message"),
    [
        (1, None, "rank=1 is given without world_size"),
        (None, 2, "world_size=2 is given without rank"),
        (2, 2, "rank=2 is not from 0 to 1, as world_size=2 requires"),
        (-1, 2, "rank=-1 is not from 0 to 1"),
        (0, 0, "world_size=0 is too small"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    rank: int | None, world_size: int | None, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        find_ranks(rank, world_size, {})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"WORLD_SIZE": ""}, "variable RANK=3 is given without WORLD_SIZE"),
        ({"RANK": ""}, "variable WORLD_SIZE=4 is given without RANK"),
        ({"RANK": "4"}, "RANK=4 is not from 0 to 3, as WORLD_SIZE=4 requires"),
        ({"RANK": "one"}, "RANK='one' is not a whole number"),
        ({"LOCAL_WORLD_SIZE": "5"}, "LOCAL_WORLD_SIZE=5 is not from 1 to WORLD_SIZE=4"),
        ({"LOCAL_RANK": "2"}, "LOCAL_RANK=2 is not below LOCAL_WORLD_SIZE=2"),
    ],
)
def test_variables_that_contradict_each_other_are_refused(
    changed: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        find_ranks(environment=TORCHRUN | changed)
