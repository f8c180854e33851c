"""Takes the batches of a run as training code does, and compares them with what this host makes."""

import time
import uuid
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ddlp.cli.conformance.reference import Host
from ddlp.core.batchfile import Array, BatchId
from ddlp.core.errors import DamagedBatch, WaitTimeout
from ddlp.core.messages import Fed, FedBatch, FeedRequest, TrainerAccount
from ddlp.core.sessions import Start
from ddlp.core.types import RunState
from ddlp.loader.buffers import Buffers
from ddlp.loader.feed import Going
from ddlp.loader.readers.choice import Readers, ReadOptions
from ddlp.loader.remote import RemoteFeed

_POLL_S = 1.0
_AHEAD = 4


@dataclass
class Taken:
    """What came of an epoch."""

    batches: int = 0
    tensors: int = 0
    problems: list[str] = field(default_factory=list)
    tokens: dict[int, int] = field(default_factory=dict)
    """The fencing token of each batch, by index."""


class Trainer:
    """A rank of its own on a run that one device alone is to make."""

    def __init__(self, url: str, run: str, device: str, patience_s: float) -> None:
        self._feed = RemoteFeed(url, run, rank=0, world_size=1)
        self._feed.begin(Going(Start.CONTINUE))
        self._readers = Readers(ReadOptions(), Buffers())
        self._device = device
        self._patience_s = patience_s
        self._accounts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._readers.close()
        self._feed.close()

    @property
    def run(self) -> uuid.UUID:
        """The run's id."""
        return self._feed.attached.run

    def take(self, epoch: int, host: Host) -> Taken:
        """Take an epoch to its end, or to the first batch that cannot be read."""
        taken, done = Taken(), False
        heard_at = time.monotonic()
        while not done:
            fed = self._ask(epoch, taken.batches, _AHEAD)
            if fed.batches or fed.state is RunState.PAUSED:
                heard_at = time.monotonic()
            for batch in fed.batches:
                if not self._compare(epoch, batch, host, taken):
                    return taken
            done = fed.done
            if time.monotonic() - heard_at > self._patience_s:
                raise WaitTimeout(
                    f"nothing came for {self._patience_s:.0f} s; waited for: {fed.waiting_for}"
                )
        self._ask(epoch, taken.batches, 0)
        return taken

    def _ask(self, epoch: int, received: int, want: int) -> Fed:
        fed = self._feed.exchange(
            FeedRequest(
                rank=0,
                session=self._feed.attached.session,
                epoch=epoch,
                received=received,
                consumed=received,
                want=want,
                wait_s=_POLL_S if want else 0,
                account=self._account(),
            )
        )
        if fed.state in (RunState.FAILED, RunState.CANCELLED):
            raise WaitTimeout(f"the run is {fed.state}: {fed.reason or 'someone ended it'}")
        return fed

    def _account(self) -> TrainerAccount:
        self._accounts += 1
        return TrainerAccount(number=self._accounts, reads=self._readers.counts.take())

    def _compare(self, epoch: int, fed: FedBatch, host: Host, taken: Taken) -> bool:
        taken.batches += 1
        taken.tokens[fed.index] = fed.token
        who = f"batch {fed.index} of epoch {epoch}"
        if fed.left_out is not None:
            taken.problems.append(f"{who} was left out: {fed.left_out}")
            return True
        if fed.device != self._device:
            taken.problems.append(f"{who} was made by {fed.device}")
            return True
        try:
            loaded = self._readers.read(fed, self._expected(epoch, fed))
        except DamagedBatch as error:
            taken.problems.append(f"{who} cannot be read: {error}")
            return False
        arrays = {name: np.asarray(value) for name, value in loaded.tensors.items()}
        taken.problems += [
            f"{who}: {text}" for text in differences(arrays, host.make(epoch, fed.index))
        ]
        taken.tensors += len(arrays)
        loaded.give_back()
        return True

    def _expected(self, epoch: int, fed: FedBatch) -> BatchId:
        attached = self._feed.attached
        return BatchId(
            run=attached.run,
            epoch=epoch,
            index=fed.index,
            token=fed.token,
            samples=fed.samples,
            pipeline=attached.pipeline_hash,
            engine="",
            device="",
        )


def differences(found: dict[str, Array], expected: dict[str, Array]) -> list[str]:
    """Where two batches differ, tensor by tensor, bit by bit."""
    if found.keys() != expected.keys():
        return [f"it holds {', '.join(sorted(found))}, not {', '.join(sorted(expected))}"]
    said = []
    for name, array in found.items():
        other = expected[name]
        if (array.shape, array.dtype) != (other.shape, other.dtype):
            said.append(f"{name} is {array.dtype}{array.shape}, not {other.dtype}{other.shape}")
        elif different := int(np.count_nonzero(_raw(array) != _raw(other))):
            said.append(f"{different} of {array.nbytes} bytes of {name} differ from this host's")
    return said


def _raw(array: Array) -> Array:
    return np.frombuffer(array.tobytes(), np.uint8)
