"""One contestant in a process of its own: `python -m benchmarks.contestant TASK`.

It keeps to its cores, warms up with whole passes, and then times as many passes as each line on
standard input asks for. The end of input ends it.
"""

import ctypes
import importlib
import json
import os
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

import numpy as np

from benchmarks.task import Loader, Outcome, Task

_LONG_S = 2.0
_PR_SET_PDEATHSIG = 1


def main() -> None:
    task = Task.load(sys.argv[1])
    answers = _take_stdout()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.sched_setaffinity(0, task.cores)
    loader: Loader = importlib.import_module(f"benchmarks.peers.{task.contestant}").prepare(task)
    pass_s = _warm_up(loader, task)
    _answer(answers, {"about": loader.about, "pass_s": pass_s})
    for line in sys.stdin:
        _answer(answers, asdict(_round(loader, passes=int(line))))
    os._exit(0)  # a library's threads may hang at the end of the interpreter


def _take_stdout() -> TextIO:
    """Standard output for answers alone: what libraries print goes to standard error."""
    mine = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return mine


def _answer(answers: TextIO, body: dict[str, object]) -> None:
    answers.write(json.dumps(body) + "\n")
    answers.flush()


def _warm_up(loader: Loader, task: Task) -> float:
    """Check what a first pass gives; the time of a pass once everything is compiled and mapped."""
    images, started = 0, time.perf_counter()
    for batch in loader.epoch():
        if not images:
            _check(np.asarray(batch), task)
        images += len(batch)
    if images != task.images // task.parts:
        raise ValueError(f"a pass gave {images} images instead of {task.images // task.parts}")
    pass_s = time.perf_counter() - started
    return pass_s if pass_s > _LONG_S else _round(loader, passes=1).wall_s


def _check(batch: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]", task: Task) -> None:
    shapes = ((task.side, task.side, 3), (3, task.side, task.side))
    if batch.shape[0] != task.batch or batch.shape[1:] not in shapes:
        raise ValueError(f"a batch has the shape {batch.shape}")
    if batch.dtype == np.float32:
        if not (abs(float(batch.mean())) < 2 and 0.2 < float(batch.std()) < 3):
            raise ValueError("the batches are not normalised")
    elif batch.dtype != np.uint8:
        raise ValueError(f"a batch is of {batch.dtype}")


def _round(loader: Loader, passes: int) -> Outcome:
    loader.drain()
    images, started_cpu, started = 0, _cpu_s(), time.perf_counter()
    for _ in range(passes):
        for batch in loader.epoch():
            images += len(batch)
    return Outcome(images, time.perf_counter() - started, _cpu_s() - started_cpu)


def _cpu_s() -> float:
    """CPU time of this process and of those it started."""
    return time.process_time() + sum(map(_cpu_of, _descendants(os.getpid())))


def _descendants(pid: int) -> list[int]:
    found = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            found += [child, *_descendants(child)]
    return found


def _cpu_of(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
