"""Runs contestants as processes that work one at a time: the others stand still meanwhile."""

import contextlib
import json
import math
import os
import select
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.task import Outcome, Task

_ROOT = Path(__file__).parent.parent
PEERS_PYTHON = _ROOT / ".venv-peers" / "bin" / "python"
_START_S = 300
_ROUND_S = 300


class LeftOut(Exception):
    """A contestant that cannot take part, and why."""


@dataclass(frozen=True)
class Entry:
    """A line of the table: who does the job, and how it makes use of several cores."""

    name: str
    contestant: str
    variant: str = ""
    in_peers: bool = False
    """Whether it needs the peers' Python."""
    splits: bool = False
    """Whether it uses several cores by a process on each, instead of threads or workers."""
    ending: str = ""
    """Leads from the images to the form of them that it reads: "-packed" lies beside them."""

    def tasks(self, task: Task) -> list[Task]:
        """The tasks of its processes."""
        task = replace(task, contestant=self.contestant, variant=self.variant)
        task = replace(task, data=task.data + self.ending)
        if not self.splits:
            return [task]
        parts = len(task.cores)
        return [
            replace(task, cores=(core,), part=part, parts=parts)
            for part, core in enumerate(task.cores)
        ]


class Line:
    """An entry at work on one job; a round is as many whole passes as fill `least_s` seconds."""

    def __init__(self, entry: Entry, task: Task, least_s: float = 1.0) -> None:
        self._children: list[_Child] = []
        try:
            python = _python(entry)
            for each in entry.tasks(task):
                self._children.append(_Child(python, each))
        except LeftOut as error:
            self.close()
            raise LeftOut(f"{entry.name}: {error}") from error
        except BaseException:
            self.close()
            raise
        self.about: str = self._children[0].about
        pass_s = min(child.pass_s for child in self._children)
        self._passes = max(1, math.ceil(least_s / pass_s))

    def round(self) -> Outcome:
        """All its processes at once; the slowest says how long it took."""
        for child in self._children:
            child.go(self._passes)
        outcomes = [child.outcome() for child in self._children]
        return Outcome(
            sum(outcome.images for outcome in outcomes),
            max(outcome.wall_s for outcome in outcomes),
            sum(outcome.cpu_s for outcome in outcomes),
        )

    def close(self) -> None:
        """End its processes."""
        for child in self._children:
            child.close()


def _python(entry: Entry) -> str:
    if not entry.in_peers:
        return sys.executable
    if not PEERS_PYTHON.exists():
        raise LeftOut("not installed; scripts/peers does it")
    return str(PEERS_PYTHON)


class _Child:
    """One process of a contestant; it is stopped except while it is asked for something."""

    def __init__(self, python: str, task: Task) -> None:
        self._log = Path(task.scratch) / f"{uuid.uuid4().hex}.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [python, "-m", "benchmarks.contestant", task.dump()],
                cwd=_ROOT,
                env=os.environ | _threads(len(task.cores)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        try:
            hello = self._answer(_START_S)
        except BaseException:
            self.close()
            raise
        self.about = str(hello["about"])
        self.pass_s = float(hello["pass_s"])

    def go(self, passes: int) -> None:
        assert self._process.stdin is not None
        self._signal(signal.SIGCONT)
        try:
            self._process.stdin.write(f"{passes}\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise LeftOut(self._last_words()) from error

    def outcome(self) -> Outcome:
        return Outcome(**self._answer(_ROUND_S))

    def close(self) -> None:
        self._signal(signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def _answer(self, patience_s: float) -> dict[str, Any]:
        """Its next answer; from then on it stands still."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], patience_s)
        if not ready:
            raise LeftOut(f"no answer for {patience_s:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise LeftOut(self._last_words())
        self._signal(signal.SIGSTOP)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        code = self._process.wait()
        lines = self._log.read_text(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return said[-1] if said else f"ended with {code}"

    def _signal(self, number: int) -> None:
        """To all of its processes, the workers it has started included, whatever their session."""
        tree = _descendants(self._process.pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
        for pid in tree:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _descendants(pid: int) -> list[int]:
    found = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, children.read_text().split()):
                found += [child, *_descendants(child)]
    return found


def _threads(count: int) -> dict[str, str]:
    names = ("OMP", "MKL", "OPENBLAS", "NUMBA")
    return {f"{name}_NUM_THREADS": str(count) for name in names} | {"OMP_WAIT_POLICY": "passive"}


Lines = dict[tuple[Entry, tuple[int, ...]], Line]
Rounds = dict[tuple[Entry, tuple[int, ...]], list[Outcome]]


@contextmanager
def open_lines(
    entries: tuple[Entry, ...], tasks: list[Task], least_s: float, notes: list[str]
) -> Iterator[Lines]:
    """All contestants, warm and standing still; those that cannot take part are noted."""
    lines: Lines = {}
    with ExitStack() as stack:
        for task in tasks:
            for entry in entries:
                try:
                    line = Line(entry, task, least_s)
                except LeftOut as error:
                    _note(notes, error)
                    continue
                stack.callback(line.close)
                lines[entry, task.cores] = line
        yield lines


def run_rounds(
    lines: Lines, count: int, notes: list[str], before: Callable[[], None] | None = None
) -> Rounds:
    """Everybody in turn, again and again; who fails on the way is dropped and noted."""
    found: Rounds = {key: [] for key in lines}
    for _ in range(count):
        for key in list(found):
            if before is not None:
                before()
            try:
                found[key].append(lines[key].round())
            except LeftOut as error:
                _note(notes, LeftOut(f"{key[0].name}, {len(key[1])} cores: {error}"))
                del found[key]
    return found


def _note(notes: list[str], error: LeftOut) -> None:
    note = f"left out: {error}"
    if note not in notes:
        notes.append(note)


def scaling(
    found: dict[Entry, list[Outcome]], one: dict[Entry, list[Outcome]]
) -> dict[str, list[float]]:
    """How many times faster than on one core in the same round."""
    return {
        entry.name: [
            (two.images / two.wall_s) / (single.images / single.wall_s)
            for two, single in zip(found[entry], outcomes, strict=True)
        ]
        for entry, outcomes in one.items()
    }
