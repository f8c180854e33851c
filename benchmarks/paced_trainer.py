"""A trainer that takes a batch every so often, so that runs live as long as they are measured.

    python -m benchmarks.paced_trainer URL SECONDS_A_BATCH RUN …

It ends with the runs, with the process that started it, or when that ends it.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ddlp.core.process import die_with_parent
from ddlp.loader import DualLoader

_STOP_S = 10


@contextmanager
def paced(url: str, runs: Sequence[str], each_s: float) -> Iterator[None]:
    """Have runs trained by a process of its own; gives way once each has taken a batch."""
    command = [sys.executable, "-m", "benchmarks.paced_trainer", url, str(each_s), *runs]
    trainer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert trainer.stdout is not None
    try:
        for _ in runs:
            if not trainer.stdout.readline():
                raise RuntimeError(f"the trainer ended with status {trainer.wait()}")
        yield
        if trainer.poll() is not None:
            raise RuntimeError("the trainer ended before the measurement did: give it more epochs")
    finally:
        trainer.terminate()
        trainer.wait(_STOP_S)
        trainer.stdout.close()


def main() -> None:
    die_with_parent(os.getppid())
    url, each_s, *runs = sys.argv[1:]
    threads = [
        threading.Thread(target=_train, args=(url, run, float(each_s)), daemon=True) for run in runs
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _train(url: str, run: str, each_s: float) -> None:
    said = False
    with DualLoader(run=run, url=url, normalize=False) as loader:
        while loader.epoch < loader.epochs:
            for _ in loader.batches():
                if not said:
                    print(run, flush=True)
                    said = True
                time.sleep(each_s)


if __name__ == "__main__":
    main()
