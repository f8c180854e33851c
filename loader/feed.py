"""Where a loader gets its batches from: a server's run, or a schedule in its own process."""

from typing import Protocol

from ddlp.core.client import Client
from ddlp.core.errors import Conflict
from ddlp.core.messages import Attach, Attached, Damaged, Fed, FeedRequest


class Feed(Protocol):
    """What a loader needs of whoever schedules its run."""

    attached: Attached

    def exchange(self, request: FeedRequest) -> Fed:
        """Say what was consumed and get the next batches."""

    def damaged(self, report: Damaged) -> None:
        """Have a batch that cannot be read made again."""

    def close(self) -> None:
        """Let go of everything."""


class RemoteFeed:
    """A run on a server."""

    def __init__(self, url: str, run: str, rank: int, world_size: int) -> None:
        self._client = Client(url, patience_s=60)
        body = Attach(rank=rank, world_size=world_size)
        self.attached = Attached.model_validate(self._client.post(f"/runs/{run}/attach", body))
        self._path = f"/runs/{self.attached.run}"

    def exchange(self, request: FeedRequest) -> Fed:
        """Ask the server; asking twice is harmless."""
        return Fed.model_validate(self._client.post(f"{self._path}/feed", request))

    def damaged(self, report: Damaged) -> None:
        """Tell the server; a batch that is being made again already is no news."""
        try:
            self._client.post(f"{self._path}/damaged", report)
        except Conflict:
            return

    def close(self) -> None:
        """Close the connection."""
        self._client.close()
