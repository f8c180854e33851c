"""Errors that pass are waited for with growing pauses, within a bound, and then named."""

import errno
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from ddlp.core.errors import SystemFault
from ddlp.core.patience import Patience, fault_of


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now, self.pauses = 0.0, list[float]()

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.append(seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def patience(clock: Clock) -> Patience:
    return Patience(2.0, clock=clock, sleep=clock.sleep)


def failing(number: int, times: int) -> Callable[[], str]:
    """An action that fails so often."""
    left = [number] * times

    def act() -> str:
        if left:
            raise OSError(left.pop(), os.strerror(number))
        return "done"

    return act


def give_up(patience: Patience, number: int, call: str = "read") -> SystemFault:
    with pytest.raises(SystemFault) as caught:
        patience.call(call, "/a/file", failing(number, 999))
    return caught.value


def test_what_fails_for_a_moment_is_done_in_the_end(patience: Patience, clock: Clock) -> None:
    assert patience.call("open", "/a/file", failing(errno.EMFILE, 7)) == "done"
    assert clock.pauses == [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.5]


def test_what_goes_on_failing_is_named_once_the_bound_has_passed(
    patience: Patience, clock: Clock
) -> None:
    fault = give_up(patience, errno.EMFILE, "open")
    assert str(fault) == (
        "open of /a/file failed with EMFILE (Too many open files), 9 times in 1.6 s; raise the "
        "limit of open files (ulimit -n), or of the host (fs.file-max)"
    )
    assert clock.now <= 2.0


def test_what_does_not_pass_is_raised_at_once(patience: Patience, clock: Clock) -> None:
    with pytest.raises(FileNotFoundError):
        patience.call("open", "/a/file", failing(errno.ENOENT, 1))
    assert not clock.pauses


def test_what_is_kept_is_let_go_of_before_each_new_attempt(patience: Patience) -> None:
    freed: list[int] = []

    def act() -> int:
        if len(freed) < 3:
            raise SystemFault("open of /a/file failed")
        return len(freed)

    assert patience.wait_out(act, lambda: freed.append(1)) == 3


def test_a_wait_within_a_wait_is_not_done_twice(patience: Patience, clock: Clock) -> None:
    attempts: list[int] = []

    def act() -> str:
        attempts.append(1)
        return patience.call("open", "/a/file", failing(errno.EIO, 999))

    with pytest.raises(SystemFault, match="9 times"):
        patience.wait_out(act)
    assert len(attempts) == 1


def test_a_drive_may_have_lost_one_file_and_a_second_shows_that_it_failed(
    patience: Patience,
) -> None:
    assert give_up(patience, errno.EIO).perhaps_lost
    assert not give_up(patience, errno.EIO).perhaps_lost
    assert patience.call("stat", "/a/file", failing(0, 0)) == "done"
    assert not give_up(patience, errno.EIO).perhaps_lost
    assert patience.call("read", "/a/file", failing(0, 0)) == "done"
    assert give_up(patience, errno.EIO).perhaps_lost


class Drive:
    """Refuses everything until a time, and one file for ever."""

    def __init__(self, clock: Clock, until: float, lost: str = "") -> None:
        self._clock, self._until, self._lost = clock, until, lost

    def read(self, name: str) -> str:
        if self._clock.now < self._until or name == self._lost:
            raise fault_of(OSError(errno.EIO, os.strerror(errno.EIO)), "read", name)
        return name


@pytest.mark.parametrize("seconds", [1.0, 4.0, 5.5, 6.0, 7.5, 8.0, 9.0])
def test_no_file_counts_as_lost_while_the_drive_answers_for_none(
    clock: Clock, seconds: float
) -> None:
    drive = Drive(clock, seconds)
    patience = Patience(5.0, clock=clock, sleep=clock.sleep)
    found = patience.wait_out_unless_lost(lambda: drive.read("a"), lambda: drive.read("b"))
    assert found == "a"
    assert clock.now <= seconds + 1.0


def test_a_drive_that_stays_away_for_longer_is_a_fault_and_no_lost_file(clock: Clock) -> None:
    drive = Drive(clock, 11.0)
    patience = Patience(5.0, clock=clock, sleep=clock.sleep)
    with pytest.raises(SystemFault) as caught:
        patience.wait_out_unless_lost(lambda: drive.read("a"), lambda: drive.read("b"))
    assert not caught.value.perhaps_lost
    assert "read of b failed" in str(caught.value)


def test_a_file_is_lost_where_the_drive_gives_others_but_not_that_one(clock: Clock) -> None:
    drive = Drive(clock, 0.0, lost="a")
    patience = Patience(5.0, clock=clock, sleep=clock.sleep)
    for _ in range(3):  # each time, not just once
        began = clock.now
        with pytest.raises(SystemFault) as caught:
            patience.wait_out_unless_lost(lambda: drive.read("a"), lambda: drive.read("b"))
        assert caught.value.perhaps_lost
        assert "read of a failed" in str(caught.value)
        assert clock.now - began < 8.5, "within the shortest lease"
        assert patience.wait_out(lambda: drive.read("c")) == "c"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.ESTALE])
def test_other_errors_never_count_as_a_lost_file(patience: Patience, number: int) -> None:
    assert not give_up(patience, number).perhaps_lost


def test_a_process_that_may_open_no_more_files_goes_on_when_it_may(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("all of it")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)

    def widen(_: float) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        read = (tmp_path / "file").read_text
        assert Patience(sleep=widen).call("open", tmp_path / "file", read) == "all of it"
    finally:
        widen(0)
