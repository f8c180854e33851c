"""`DualLoader.local` under a launcher: the ranks of one host share a run, live and die."""

import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ddlp.core.errors import InvalidInput, Unavailable, WaitTimeout
from ddlp.loader import DualLoader
from tests.conftest import SMALL_PIPELINE, make_images, wait_until
from tests.loader.test_cleanup import folders
from tests.loader.test_local import alive
from tests.loops import Loop, counts, together

SAMPLES = 31
ONCE = dict.fromkeys(range(SAMPLES), 1)
OPTIONS: dict[str, Any] = {"pipeline": SMALL_PIPELINE, "batch_size": 4, "workers": 1, "epochs": 2}


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_images(tmp_path_factory.mktemp("data") / "few", SAMPLES)


@pytest.fixture
def place() -> Iterator[Path]:
    """Where the ranks of the test meet, and no others; its path is short, as a socket's must be."""
    with tempfile.TemporaryDirectory(prefix="meet-") as folder:
        yield Path(folder)
        wait_until(lambda: not list(Path(folder).iterdir()))


class Jobs:
    """Starts jobs as a launcher does."""

    def __init__(self, place: Path, until: ExitStack) -> None:
        self._place, self._until = place, until

    def start(self, size: int, name: str = "job") -> list[Loop]:
        """Start the ranks of a job on this host."""
        where = {"XDG_RUNTIME_DIR": str(self._place)}
        return [self._until.enter_context(Loop(r, size, name, **where)) for r in range(size)]


@pytest.fixture
def jobs(place: Path) -> Iterator[Jobs]:
    with ExitStack() as until:
        yield Jobs(place, until)


def options(images: Path, **other: Any) -> dict[str, Any]:
    return {"data": str(images), **OPTIONS, **other}


class Served:
    """Who serves a job: found out while it lives, so that what is left of it can be looked for."""

    def __init__(self, loops: list[Loop]) -> None:
        [self.pid] = {loop.ask("served_by") for loop in loops}

    @property
    def is_gone(self) -> bool:
        """Whether neither the process nor any folder of it is left."""
        return not alive(self.pid) and not folders(self.pid)


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize("strategy", ["wrr", pytest.param("mte", marks=pytest.mark.long)])
def test_each_sample_comes_once_over_the_ranks_in_as_many_batches_each(
    few: Path, jobs: Jobs, size: int, strategy: str
) -> None:
    ranks = jobs.start(size)
    for number, stand in enumerate(together(ranks, "open", options(few, strategy=strategy))):
        assert (stand.rank, stand.world_size, stand.epoch) == (number, size, 0)
    served = Served(ranks)
    for epoch in range(2):
        received = together(ranks, "take", None)
        assert counts(got for mine in received for got in mine) == ONCE
        assert {len(mine) for mine in received} == {ranks[0].stand().batches}
        assert {got.epoch for mine in received for got in mine} == {epoch}
    together(ranks, "close")
    wait_until(lambda: served.is_gone)


@pytest.mark.parametrize("after", [1, 3, pytest.param(2, marks=pytest.mark.long)])
def test_another_number_of_ranks_goes_on_from_the_state_of_rank_0(
    few: Path, jobs: Jobs, after: int
) -> None:
    ranks = jobs.start(2)
    together(ranks, "open", options(few))
    before = together(ranks, "take", 2)
    state = ranks[0].state()
    assert ranks[1].state() == state
    together(ranks, "take", 1)  # beyond the checkpoint
    together(ranks, "close")
    ranks = jobs.start(after)
    together(ranks, "open", options(few))
    together(ranks, "load", state)
    rest = together(ranks, "take", None)
    assert len({len(mine) for mine in rest}) == 1
    assert counts(got for mine in [*before, *rest] for got in mine) == ONCE
    assert {loop.stand().epoch for loop in ranks} == {1}


def take_all(loop: Loop) -> None:
    """Train until an error ends it; before, it may receive what had been dealt to it."""
    while True:
        loop.take()


@pytest.mark.parametrize("victim", [0, 1], ids=["rank 0", "rank 1"])
def test_when_a_rank_is_killed_the_other_is_told_which_and_nothing_stays(
    few: Path, jobs: Jobs, victim: int
) -> None:
    ranks = jobs.start(2)
    dying, other = ranks[victim], ranks[1 - victim]
    together(ranks, "open", options(few, epochs=None, prefetch=1))
    served = Served(ranks)
    together(ranks, "take", 1)
    dying.kill()
    with pytest.raises(Unavailable, match=rf"rank {victim} \(process {dying.pid}\) died") as told:
        take_all(other)
    assert "start all ranks again, from the last state that was saved" in str(told.value)
    other.ask("close")
    wait_until(lambda: served.is_gone)


def test_when_the_process_that_serves_the_ranks_is_killed_all_are_told_and_nothing_stays(
    few: Path, jobs: Jobs
) -> None:
    ranks = jobs.start(2)
    together(ranks, "open", options(few, prefetch=1))
    served = Served(ranks)
    together(ranks, "take", 1)
    os.kill(served.pid, signal.SIGKILL)
    for loop in ranks:
        with pytest.raises(Unavailable, match=rf"pid {served.pid}\) .* has ended; start all ranks"):
            loop.take()
    wait_until(lambda: served.is_gone)


def test_a_rank_that_gives_other_arguments_is_refused_with_what_differs(
    few: Path, jobs: Jobs
) -> None:
    ranks = jobs.start(2)
    ranks[0].open(**options(few))
    with pytest.raises(InvalidInput, match="batch_size=3, not 4; seed=1, not 0 as rank 0 does"):
        ranks[1].open(**options(few, batch_size=3, seed=1, workers=2))


@pytest.mark.long
def test_a_rank_says_which_other_one_it_waits_for(few: Path, jobs: Jobs) -> None:
    ranks = jobs.start(2)
    ranks[0].open(**options(few, wait_timeout_s=5))
    with pytest.raises(WaitTimeout, match=r"waiting for: rank 1 of 2 to attach; .* same arguments"):
        ranks[0].take(1)


@pytest.mark.long
def test_a_rank_that_comes_late_to_a_second_loader_is_waited_for(few: Path, jobs: Jobs) -> None:
    """The others are at a place that it knows: nothing speaks against its arguments."""
    ranks = jobs.start(2)
    together(ranks, "open", options(few))
    with pytest.raises(WaitTimeout, match="found no process to serve it"):
        ranks[1].ask("open", options(few, seed=1, wait_timeout_s=4), "val")


def test_ranks_on_several_hosts_are_refused_and_the_server_is_named(
    few: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed = {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    for name, value in {**placed, "XDG_RUNTIME_DIR": str(place)}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidInput, match="2 of 4 ranks run on this host") as refused:
        DualLoader.local(**options(few, wait_timeout_s=2))
    assert "ddlp up" in str(refused.value)


def test_two_jobs_side_by_side_on_one_host_do_not_meet(few: Path, jobs: Jobs) -> None:
    one, other = jobs.start(2, "one"), jobs.start(2, "other")
    together([*one, *other], "open", options(few))
    assert Served(one).pid != Served(other).pid
    received = together([*one, *other], "take", None)
    for mine in (received[:2], received[2:]):
        assert counts(got for rank in mine for got in rank) == ONCE


def test_a_job_that_is_killed_and_started_at_once_waits_for_the_end_of_the_first(
    few: Path, jobs: Jobs
) -> None:
    ranks = jobs.start(2)
    together(ranks, "open", options(few))
    served = Served(ranks)
    together(ranks, "take", 1)
    os.kill(served.pid, signal.SIGSTOP)
    for loop in ranks:
        loop.kill()
    later = jobs.start(2)
    for loop in later:
        loop.tell("open", options(few))
    os.kill(served.pid, signal.SIGCONT)
    for loop in later:
        loop.answer()
    assert Served(later).pid != served.pid
    received = together(later, "take", None)
    assert counts(got for mine in received for got in mine) == ONCE
    wait_until(lambda: served.is_gone)


def test_a_folder_that_nobody_serves_any_more_is_taken_over(
    few: Path, jobs: Jobs, place: Path
) -> None:
    ranks = jobs.start(2)
    together(ranks, "open", options(few))
    served = Served(ranks)
    [meeting] = place.iterdir()
    kept = place.parent / f"{place.name}-kept"
    shutil.copytree(meeting, kept, ignore=shutil.ignore_patterns("socket"))
    together(ranks, "close")
    wait_until(lambda: served.is_gone and not meeting.exists())
    shutil.move(kept, meeting)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(meeting / "socket"))
    ranks = jobs.start(2)
    together(ranks, "open", options(few))
    received = together(ranks, "take", None)
    assert counts(got for mine in received for got in mine) == ONCE
