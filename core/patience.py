"""Waits out errors of the operating system that pass: short, growing pauses, within a bound.

What is tried again must be such that a second time does no harm. `core/passing.py` decides which
errors are waited for; all others are raised at once.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from ddlp.core.errors import SystemFault
from ddlp.core.passing import failed_words, is_passing, is_perhaps_lost, remedy

T = TypeVar("T")

log = logging.getLogger(__name__)

BOUND_S = 5.0
"""A worker waits for less than its lease lasts: then another one can still try."""
_AGAIN_SHARE = 0.6
"""A file that may be lost is waited for once more, for less: both together fit into a lease."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 0.5


@contextmanager
def system_call(call: str, place: object) -> Iterator[None]:
    """Name the call and the file where an error that passes is raised in here."""
    try:
        yield
    except OSError as error:
        if not is_passing(error):
            raise
        raise fault_of(error, call, place) from error


def fault_of(error: OSError, call: str, place: object) -> SystemFault:
    """An error that passes as one of ours."""
    words = failed_words(error, call, place)
    return SystemFault(words, call, remedy(error), perhaps_lost=is_perhaps_lost(error))


class Patience:
    """How long errors are waited for, and what was not to be had in spite of that.

    A drive that has lost one file answers as one that has failed does. So the first file that is
    given up may be lost; a second one, with no success in between, shows that the fault lies here.
    """

    def __init__(
        self,
        bound_s: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._bound_s = BOUND_S if bound_s is None else bound_s
        self._clock, self._sleep = clock, sleep
        self._given_up: set[str] = set()

    def call(self, call: str, place: object, action: Callable[[], T]) -> T:
        """Make one system call, or a few that may be repeated, until it succeeds."""

        def named() -> T:
            with system_call(call, place):
                return action()

        found = self._wait_out(named, None)
        self._given_up.discard(call)
        return found

    def wait_out(self, action: Callable[[], T], relief: Callable[[], object] | None = None) -> T:
        """Do something until no `SystemFault` is raised in it; `relief` frees what is kept.

        The fault that is raised in the end says how long it was waited for.
        """
        found = self._wait_out(action, relief)
        self._given_up.clear()
        return found

    def wait_out_unless_lost(
        self,
        action: Callable[[], T],
        other: Callable[[], object] | None,
        relief: Callable[[], object] | None = None,
    ) -> T:
        """The same for a file that may be lost: it is only once the drive gave another one.

        `other` reads that one. A drive that is away longer than is waited for one file, and then
        comes back, has lost nothing: the first file is read again after it.
        """
        if other is None:
            return self.wait_out(action, relief)
        self._given_up.clear()  # the other one shows where the fault lies
        try:
            return self.wait_out(action, relief)
        except SystemFault as fault:
            if not fault.perhaps_lost:
                raise
        self.wait_out(other, relief)
        return self._wait_out(action, relief, _AGAIN_SHARE * self._bound_s)

    def _wait_out(
        self,
        action: Callable[[], T],
        relief: Callable[[], object] | None,
        bound_s: float | None = None,
    ) -> T:
        bound_s = self._bound_s if bound_s is None else bound_s
        began, pause_s, times = self._clock(), _FIRST_PAUSE_S, 1
        while True:
            try:
                return action()
            except SystemFault as fault:
                waited_s = self._clock() - began
                if fault.final or waited_s + pause_s > bound_s:
                    raise self._final(fault, times, waited_s) from fault
                if times == 1:
                    log.warning("%s; trying again for up to %g s", fault, bound_s)
                if relief is not None:
                    relief()
                self._sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                times += 1

    def _final(self, fault: SystemFault, times: int, waited_s: float) -> SystemFault:
        if fault.final:
            return fault
        again = fault.call in self._given_up
        self._given_up.add(fault.call)
        return SystemFault(
            f"{fault}, {times} times in {waited_s:.1f} s; {fault.remedy}",
            fault.call,
            fault.remedy,
            perhaps_lost=fault.perhaps_lost and not again,
            final=True,
        )
