"""Where a loader gets its batches from: a server's run, or a schedule in its own process."""

import socket
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ddlp.core.client import Client
from ddlp.core.errors import Conflict, DdlpError
from ddlp.core.messages import (
    Attach,
    Attached,
    BadSampleInfo,
    Damaged,
    Fed,
    FeedRequest,
    Rewind,
    Where,
)
from ddlp.core.meters.remote import sample_host
from ddlp.core.settings import load_settings

_PAGE = 1000


@dataclass(frozen=True)
class LoaderState:
    """Where all ranks stand: a few numbers, whatever the dataset's size."""

    epoch: int
    position: int
    """Batches of the epoch that all ranks together have consumed."""
    run: dict[str, Any]
    """What decides the run's batches: a state fits no other."""
    heads: int | None = None
    """How many of them came from the head, where one rank received them all."""
    settled: dict[str, float] | None = None
    """What the strategy has fixed for the epoch, where no server keeps that."""


class Feed(Protocol):
    """What a loader needs of whoever schedules its run."""

    attached: Attached
    run_id: str | None
    """The run whose record a state refers to; None where the state says all."""

    def exchange(self, request: FeedRequest) -> Fed:
        """Say what was consumed and get the next batches."""

    def damaged(self, report: Damaged) -> None:
        """Have a batch that cannot be read made again."""

    def settled(self, epoch: int) -> dict[str, float] | None:
        """What a state must carry because nobody else remembers it."""

    def bad_samples(self) -> list[BadSampleInfo]:
        """The samples that were skipped or replaced so far, the oldest first."""

    def resume(self, state: LoaderState) -> Where:
        """Go to where a checkpoint was taken."""

    def close(self) -> None:
        """Let go of everything."""


class RemoteFeed:
    """A run on a server."""

    def __init__(
        self, url: str, run: str, rank: int, world_size: int, key: str | None = None
    ) -> None:
        self._rank, self._world_size = rank, world_size
        self._key = key
        self._client = Client(url, patience_s=60, key=key)
        body = Attach(rank=rank, world_size=world_size, host=socket.gethostname())
        try:
            answer = self._client.post(f"/runs/{run}/attach", body)
        except DdlpError:
            self._client.close()
            raise
        self.attached = Attached.model_validate(answer)
        self.run_id: str | None = str(self.attached.run)
        self._path = f"/runs/{self.attached.run}"
        self._stop_sampling = self._sample_host()

    def _sample_host(self) -> Callable[[], object]:
        """Read the meters of this host, if no other process of it does; what ends that."""
        settings = load_settings()
        if not settings.telemetry:
            return lambda: None
        sampling = sample_host(settings, self._client.url, self._key)
        sampling.start()
        return weakref.finalize(self, sampling.stop)

    def exchange(self, request: FeedRequest) -> Fed:
        """Ask the server; asking twice is harmless."""
        return Fed.model_validate(self._client.post(f"{self._path}/feed", request))

    def damaged(self, report: Damaged) -> None:
        """Tell the server; a batch that is being made again already is no news."""
        try:
            self._client.post(f"{self._path}/damaged", report)
        except Conflict:
            return

    def settled(self, epoch: int) -> dict[str, float] | None:
        """The server remembers it."""
        return None

    def bad_samples(self) -> list[BadSampleInfo]:
        """What the server has noted; asked over a connection of its own, from any thread."""
        found: list[BadSampleInfo] = []
        with Client(self._client.url, key=self._key) as client:
            while True:
                before = f"&before={found[-1].id}" if found else ""
                page = client.get(f"{self._path}/bad-samples?limit={_PAGE}{before}")
                found += [BadSampleInfo.model_validate(entry) for entry in page]
                if len(page) < _PAGE:
                    return found[::-1]

    def resume(self, state: LoaderState) -> Where:
        """The server knows what was delivered since, and delivers it again."""
        body = Rewind(
            rank=self._rank,
            session=self.attached.session,
            world_size=self._world_size,
            epoch=state.epoch,
            position=state.position,
        )
        return Where.model_validate(self._client.post(f"{self._path}/rewind", body))

    def close(self) -> None:
        """Close the connection."""
        self._stop_sampling()
        self._client.close()
