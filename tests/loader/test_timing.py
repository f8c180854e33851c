"""Where the trainer's time goes, by a clock that the test moves."""

import pytest

from ddlp.loader.timing import Timing


class Clock:
    """A clock that moves only when told."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def timing(clock: Clock) -> Timing:
    started = Timing(clock)
    started.begin()
    return started


def step(clock: Clock, timing: Timing, waited_s: float, trained_s: float) -> None:
    """One step of a trainer."""
    clock.now_s += waited_s
    timing.waited()
    clock.now_s += trained_s
    timing.trained()


def test_time_is_added_to_what_it_was_spent_on(clock: Clock, timing: Timing) -> None:
    step(clock, timing, waited_s=1.0, trained_s=3.0)
    step(clock, timing, waited_s=0.5, trained_s=3.5)
    assert (timing.waited_s, timing.trained_s) == (1.5, 6.5)
    assert timing.wait_share == 1.5 / 8


def test_the_share_is_unknown_before_any_time_has_passed(clock: Clock, timing: Timing) -> None:
    assert timing.wait_share is None
    timing.waited()
    assert timing.wait_share is None


def test_the_share_is_one_when_starved_and_zero_when_never_waiting(
    clock: Clock, timing: Timing
) -> None:
    step(clock, timing, waited_s=2.0, trained_s=0.0)
    assert timing.wait_share == 1.0
    busy = Timing(clock)
    busy.begin()
    step(clock, busy, waited_s=0.0, trained_s=2.0)
    assert busy.wait_share == 0.0


def test_what_is_taken_is_what_is_new(clock: Clock, timing: Timing) -> None:
    step(clock, timing, waited_s=1.0, trained_s=3.0)
    assert timing.take() == (1.0, 3.0)
    assert timing.take() == (0.0, 0.0)
    step(clock, timing, waited_s=0.25, trained_s=0.5)
    assert timing.take() == (0.25, 0.5)
    assert (timing.waited_s, timing.trained_s) == (1.25, 3.5)


def test_time_before_the_beginning_does_not_count(clock: Clock) -> None:
    timing = Timing(clock)
    clock.now_s += 50
    timing.waited()
    assert timing.take() == (0.0, 0.0)


def test_time_between_two_epochs_does_not_count(clock: Clock, timing: Timing) -> None:
    step(clock, timing, waited_s=1.0, trained_s=1.0)
    clock.now_s += 1000  # validation, a checkpoint
    timing.begin()
    step(clock, timing, waited_s=1.0, trained_s=1.0)
    assert (timing.waited_s, timing.trained_s) == (2.0, 2.0)
