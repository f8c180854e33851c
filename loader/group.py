"""The ranks of one host that share a run: who is there, who is gone, and what each is answered."""

import threading
import time
from dataclasses import dataclass

from ddlp.core.errors import Conflict, Refused, Unavailable
from ddlp.core.messages import Fed, FeedRequest, Where
from ddlp.core.sessions import Start
from ddlp.core.types import RunState
from ddlp.loader.feed import Going
from ddlp.loader.local import LocalFeed
from ddlp.loader.rewinds import Rewinds

_HEADS_S = 20.0


@dataclass
class Member:
    """A rank that has attached."""

    pid: int | None
    left: bool = False
    """It has closed its loader."""
    died: bool = False
    """Its process or its connection ended without that."""

    @property
    def here(self) -> bool:
        """Whether it may still ask."""
        return not (self.left or self.died)


class Group:
    """Serves the ranks of a run; any thread may ask for any rank."""

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self.members: dict[int, Member] = {}
        self._rewinds = Rewinds(world_size)
        self._changed = threading.Condition()

    @property
    def missing(self) -> list[int]:
        """The ranks that have not attached yet."""
        return [rank for rank in range(self.world_size) if rank not in self.members]

    @property
    def orderly(self) -> bool:
        """Whether none of them died."""
        return not any(member.died for member in self.members.values())

    def join(self, rank: int, pid: int | None) -> None:
        """A rank attaches, once."""
        with self._changed:
            known = self.members.get(rank)
            if known is not None:
                state = f"held by process {known.pid}" if known.here else "over already"
                raise Refused(f"rank {rank} of {self.world_size} is {state}")
            self.members[rank] = Member(pid)
            self._changed.notify_all()

    def leave(self, rank: int) -> None:
        """A rank has closed its loader."""
        with self._changed:
            self.members[rank].left = True
            self._changed.notify_all()

    def lose(self, rank: int) -> None:
        """A rank is gone; it has died, unless it has closed its loader before."""
        with self._changed:
            self.members[rank].died |= not self.members[rank].left
            self._changed.notify_all()

    def exchange(self, feed: LocalFeed, request: FeedRequest) -> Fed:
        """Serve a rank, as soon as all ranks are there and in the same place."""
        deadline = time.monotonic() + request.wait_s
        with self._changed:
            while (held_up := self._held_up(request.rank)) is not None:
                left_s = deadline - time.monotonic()
                if left_s <= 0 or not request.want:
                    return _wait(held_up)
                self._changed.wait(left_s)
        if request.want:
            self._check_alive(feed)
        fed = feed.exchange(request)
        if request.want and not fed.batches and not fed.done:
            self._check_there(feed, request)
        return fed

    def begin(self, feed: LocalFeed, rank: int, going: Going) -> Where:
        """A rank says how it goes on; the run goes back once all of them have gone back."""
        with self._changed:
            where = feed.where(going)
            if going.state is not None or (going.start is Start.EPOCH and not going.ahead):
                due = self._rewinds.ask(rank, going)
                if due is not None:
                    feed.begin(due)
            self._changed.notify_all()
            return where

    def heads(self, feed: LocalFeed, rank: int, epoch: int, step: int) -> int | None:
        """How many batches of an epoch came from its head before a step of all ranks."""
        if self._rewinds.pending(rank) is not None:
            return 0 if step == 0 else None
        return feed.heads_of(rank, epoch, step, _HEADS_S)

    def _held_up(self, rank: int) -> str | None:
        """Why nobody is served yet."""
        if self.missing:
            return tell_missing(self.missing, self.world_size)
        if self._rewinds.pending(rank) is not None:
            return (
                f"{_ranks(self._rewinds.missing())} to load the state that rank {rank} has loaded; "
                "call load_state_dict or set_epoch on all ranks"
            )
        return None

    def _check_alive(self, feed: LocalFeed) -> None:
        """A rank that died in the middle of its run takes the others along."""
        for rank, member in sorted(self.members.items()):
            if member.died and not feed.is_finished(rank):
                raise Unavailable(
                    f"rank {rank} (process {member.pid}) died before it had all its batches; start "
                    "all ranks again, from the last state that was saved"
                )

    def _check_there(self, feed: LocalFeed, request: FeedRequest) -> None:
        """Nobody waits for a rank that has closed its loader."""
        for rank, member in sorted(self.members.items()):
            if member.left and not feed.is_finished(rank) and feed.waits_for_ranks(request.epoch):
                raise Conflict(
                    f"rank {rank} has closed its loader, and rank {request.rank} cannot go on in "
                    f"epoch {request.epoch} without it; let all ranks take as many batches"
                )


def tell_missing(missing: list[int], world_size: int) -> str:
    """The ranks that have not attached, and what they must do."""
    return (
        f"{_ranks(missing)} of {world_size} to attach; every rank must call DualLoader.local with "
        "the same arguments, in the same order"
    )


def _ranks(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


def _wait(held_up: str) -> Fed:
    return Fed(batches=[], done=False, state=RunState.RUNNING, waiting_for=held_up)
