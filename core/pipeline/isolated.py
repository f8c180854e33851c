"""Renders each sample in a process apart, so that a crash or an endless loop costs one sample.

Slow, and therefore used only where a batch was lost before. The child reads one sample number a
line and answers each with a line: `made` and then the slot's bytes, or `bad` and the reason.
"""

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import IO, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from ddlp.core.dataset import DatasetIndex
from ddlp.core.errors import BadSample, DdlpError
from ddlp.core.image import Slot
from ddlp.core.patience import BOUND_S, Patience
from ddlp.core.pipeline.pictures import too_long
from ddlp.core.pipeline.renderer import DirectRenderer
from ddlp.core.pipeline.spec import Pipeline, PipelineSpec
from ddlp.core.process import die_first_without_memory, die_with_parent, oom_kills, own_stdout
from ddlp.core.schedule.reports import Death
from ddlp.core.stages import PictureTimes

Ints = npt.NDArray[np.int64]

_START_S = 60.0
_REPEATS_S = (0.1, 0.5, 0.0)
"""A sample whose child is killed is tried so often, with these pauses after each."""
_READ_S = 5.0 + BOUND_S
"""What may pass beside decoding, for reading the file say, before a child is given up."""


class IsolatedRenderer:
    """Renders through a child, and through another one when that dies or takes too long."""

    def __init__(self, index_path: Path, pipeline: Pipeline, seed: int) -> None:
        self._index_path = index_path
        self._pipeline = pipeline
        self._seed = seed
        self._limit_s = pipeline.decode.max_seconds
        self._patience = Patience()
        self._child: subprocess.Popen[bytes] | None = None
        self._oom_kills = 0
        self.times = PictureTimes()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def render(self, epoch: int, samples: Ints, out: Slot) -> dict[int, str]:
        """One sample after the other."""
        problems: dict[int, str] = {}
        began_s = time.monotonic()
        for place, sample in enumerate(samples.tolist()):
            try:
                self._render_one(epoch, sample, out[place])
            except BadSample as error:
                problems[place] = str(error)
        self.times.decode_s += time.monotonic() - began_s
        return problems

    def _render_one(self, epoch: int, sample: int, slot: Slot) -> None:
        """Render a sample; one that was killed from outside is repeated, alone in a new child."""
        for pause_s in _REPEATS_S:
            try:
                return self._try_one(epoch, sample, slot)
            except _KilledError as killed:
                last = killed
                time.sleep(pause_s)
        times = f"{len(_REPEATS_S)} times in a row, each time alone in a process of its own"
        raise BadSample(f"decoding it was ended {times}: {last.death.words}")

    def _try_one(self, epoch: int, sample: int, slot: Slot) -> None:
        child = self._child or self._start()
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(f"{epoch} {sample}\n".encode())
            child.stdin.flush()
            answer = _Reader(child.stdout, time.monotonic() + self._limit_s + _READ_S)
            word, _, rest = answer.line().partition(" ")
            if word == "bad":
                raise BadSample(json.loads(rest))
            if word != "made":
                raise DdlpError(json.loads(rest) if word == "failed" else f"it said {word!r}")
            slot[:] = np.frombuffer(answer.exactly(slot.nbytes), slot.dtype).reshape(slot.shape)
        except TimeoutError as error:
            self._end()
            raise BadSample(too_long(self._limit_s)) from error
        except (BrokenPipeError, EOFError) as error:
            raise self._crash() from error

    def _crash(self) -> Exception:
        """A crash is the sample's, and so is an end of its own; one from outside is not."""
        before, code = self._oom_kills, self._end()
        if code >= 0:
            return BadSample(f"its decoder ended the process (status {code})")
        death = Death(code, oom_kills() > before)
        if death.crashed:
            return BadSample(f"its decoder crashed ({death.words})")
        return _KilledError(death)

    def _start(self) -> subprocess.Popen[bytes]:
        self._oom_kills = oom_kills()
        self._child = child = self._patience.call("start", "a process for samples", _start_child)
        assert child.stdin is not None
        assert child.stdout is not None
        order = {
            "index": str(self._index_path),
            "transforms": self._pipeline.spec.transforms,
            "seed": self._seed,
        }
        try:
            child.stdin.write(json.dumps(order).encode() + b"\n")
            child.stdin.flush()
            _Reader(child.stdout, time.monotonic() + _START_S).line()
        except (OSError, EOFError) as error:
            self._end()
            raise DdlpError("no process could be started to decode samples apart") from error
        return child

    def _end(self) -> int:
        """End the child; gives its exit status, as subprocess has it."""
        child, self._child = self._child, None
        if child is None:
            return 0
        try:
            code = child.wait(0.2)  # the pipe breaks a moment before the process is gone
        except subprocess.TimeoutExpired:
            child.kill()
            code = child.wait(10)
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        return code


class _KilledError(Exception):
    """A child was ended by a signal that it did not bring on itself."""

    def __init__(self, death: Death) -> None:
        super().__init__(death.words)
        self.death = death


def _start_child() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "ddlp.core.pipeline.isolated", str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


class _Reader:
    """Reads from a pipe until a deadline."""

    def __init__(self, pipe: IO[bytes], deadline: float) -> None:
        self._fd = pipe.fileno()
        self._deadline = deadline
        self._held = b""

    def line(self) -> str:
        while b"\n" not in self._held:
            self._more()
        line, _, self._held = self._held.partition(b"\n")
        return line.decode()

    def exactly(self, nbytes: int) -> bytes:
        while len(self._held) < nbytes:
            self._more()
        return self._held[:nbytes]

    def _more(self) -> None:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0 or not select.select([self._fd], [], [], left_s)[0]:
            raise TimeoutError
        got = os.read(self._fd, 1 << 20)
        if not got:
            raise EOFError
        self._held += got


def serve(orders: BinaryIO, answers: BinaryIO) -> None:
    """The child: render samples until there are no more orders."""
    order = json.loads(orders.readline())
    pipeline = Pipeline.parse(PipelineSpec(transforms=order["transforms"]))
    renderer = DirectRenderer(DatasetIndex(Path(order["index"])), pipeline, order["seed"])
    slot = np.empty((1, *pipeline.shape), dtype=pipeline.dtype)
    answers.write(b"ready\n")
    answers.flush()
    for line in orders:
        epoch, sample = (int(word) for word in line.split())
        try:
            problems = renderer.render(epoch, np.asarray([sample]), slot)
        except Exception as error:  # the border of the process: the parent must learn of it
            kind = "" if isinstance(error, DdlpError) else f"{type(error).__name__}: "
            answers.write(f"failed {json.dumps(f'{kind}{error}')}\n".encode())
            answers.flush()
            continue
        if problems:
            answers.write(f"bad {json.dumps(problems[0])}\n".encode())
        else:
            answers.write(b"made\n" + slot.tobytes())
        answers.flush()


if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    die_first_without_memory()
    with own_stdout() as channel:
        serve(sys.stdin.buffer, channel)
