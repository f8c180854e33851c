"""What fails for a while is told once, then rarely, and then that it is over."""

import logging

import pytest

from ddlp.core.outage import Outage

log = logging.getLogger("ddlp.test")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_eight_failures_a_second_for_two_minutes_are_three_lines_and_one_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    outage = Outage(log, "nothing can be written", clock=clock)
    for _ in range(1000):
        outage.failed(OSError("disk full"))
        clock.now += 0.125
    outage.succeeded()
    assert [record.getMessage() for record in caplog.records] == [
        "nothing can be written: disk full; trying again",
        "nothing can be written for 60 s now, 481 times; last: disk full",
        "nothing can be written for 120 s now, 961 times; last: disk full",
    ]
    clock.now += 5.0
    outage.succeeded()
    outage.succeeded()
    assert caplog.messages[3:] == ["over: nothing can be written, for 125 s, 1000 times"]


def test_the_pauses_grow_to_a_limit_and_begin_anew_after_it_is_over() -> None:
    clock = Clock()
    outage = Outage(log, "no", longest_pause_s=2.0, clock=clock)
    pauses = [outage.failed(OSError()) for _ in range(50)]
    assert pauses[:6] == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0]
    assert set(pauses[5:]) == {2.0}
    clock.now += 10.0
    outage.succeeded()
    assert outage.failed(OSError()) == 0.1


def test_what_fails_now_and_then_is_one_outage(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    outage = Outage(log, "no", clock=clock)
    for _ in range(10):
        outage.failed(OSError("broken"))
        clock.now += 1.0
        outage.succeeded()
    assert len(caplog.records) == 1


@pytest.mark.parametrize("trace", [True, False])
def test_the_first_one_may_tell_where_it_came_from(
    caplog: pytest.LogCaptureFixture, trace: bool
) -> None:
    outage = Outage(log, "no", clock=Clock())
    for _ in range(3):
        try:
            raise KeyError("deep")
        except KeyError as error:
            outage.failed(error, trace=trace)
    assert [bool(record.exc_info) for record in caplog.records] == [trace]


def test_what_never_failed_is_never_over(caplog: pytest.LogCaptureFixture) -> None:
    Outage(log, "no", clock=Clock()).succeeded()
    assert not caplog.records
