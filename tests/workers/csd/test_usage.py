"""Busy seconds of processes are seen by their parent, and count by cores."""

import os
from contextlib import suppress

from ddlp.workers.csd.usage import Usage


class Clock:
    """Time that passes when it is told to."""

    now = 50.0

    def __call__(self) -> float:
        return self.now


def test_a_device_with_half_of_its_cores_busy_is_half_busy() -> None:
    clock = Clock()
    usage = Usage(slots=2, cores=2, clock=clock)
    with usage.busy(0):
        clock.now += 8
    assert usage.seconds() == (4.0, 4.0)


def test_more_processes_than_cores_are_not_more_than_busy() -> None:
    clock = Clock()
    usage = Usage(slots=2, cores=1, clock=clock)
    with usage.busy(0), usage.busy(1):
        clock.now += 3
    assert usage.seconds() == (3.0, 0.0)


def test_fewer_processes_than_cores_leave_some_of_it_idle() -> None:
    clock = Clock()
    usage = Usage(slots=1, cores=4, clock=clock)
    with usage.busy(0):
        clock.now += 4
    assert usage.seconds() == (1.0, 3.0)


def test_work_that_fails_was_work_too() -> None:
    clock = Clock()
    usage = Usage(slots=1, cores=1, clock=clock)
    with suppress(RuntimeError), usage.busy(0):
        clock.now += 2
        raise RuntimeError
    assert usage.seconds() == (2.0, 0.0)


def test_what_a_forked_process_did_is_seen_by_its_parent() -> None:
    clock = Clock()
    usage = Usage(slots=2, cores=2, clock=clock)
    child = os.fork()
    if not child:
        with usage.busy(1):
            clock.now += 6
        os._exit(0)
    os.waitpid(child, 0)
    clock.now += 6
    assert usage.seconds() == (3.0, 3.0)
