"""What the processes of a pool learn of those that died."""

import os
import signal

import pytest

from ddlp.core.schedule import Death
from ddlp.workers import deaths as module
from ddlp.workers.deaths import Deaths


def test_a_process_that_was_forked_before_learns_of_a_death() -> None:
    deaths = Deaths()
    told, tell = os.pipe()
    answer, say = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(told, 1)
        found = deaths.of(4711)
        os.write(say, str(found and found.exit_code).encode())
        os._exit(0)
    deaths.note(4711, -signal.SIGSEGV)
    os.write(tell, b".")
    assert os.read(answer, 100) == str(-signal.SIGSEGV).encode()
    os.waitpid(child, 0)
    for pipe in (told, tell, answer, say):
        os.close(pipe)


def test_a_death_that_nobody_saw_is_not_known() -> None:
    deaths = Deaths()
    deaths.note(7, -signal.SIGKILL)
    assert deaths.of(8) is None
    assert deaths.of(0) is None


def test_the_last_deaths_are_kept() -> None:
    deaths = Deaths()
    for process in range(1, 1001):
        deaths.note(process, -signal.SIGKILL)
    assert deaths.of(1) is None
    assert deaths.of(1000) == Death(-signal.SIGKILL)


def test_of_a_number_that_was_used_again_the_last_death_is_told() -> None:
    deaths = Deaths()
    deaths.note(7, -signal.SIGSEGV)
    deaths.note(8, -signal.SIGKILL)
    deaths.note(7, -signal.SIGKILL)
    assert deaths.of(7) == Death(-signal.SIGKILL)
    for process in range(100, 100 + 255):  # over the end of the memory
        deaths.note(process, -signal.SIGKILL)
    deaths.note(7, 3)
    assert deaths.of(7) == Death(3)


def test_that_memory_ran_out_meanwhile_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    kills = iter([3, 3, 4])
    monkeypatch.setattr(module, "oom_kills", lambda: next(kills))
    deaths = Deaths()
    deaths.note(1, -signal.SIGKILL)
    deaths.note(2, -signal.SIGKILL)
    assert deaths.of(1) == Death(-signal.SIGKILL)
    found = deaths.of(2)
    assert found == Death(-signal.SIGKILL, True)
    assert found.words == "SIGKILL, as the kernel ended processes for lack of memory"
