"""A run on a server, as a rank's loader sees it."""

import logging
import socket
import time
import uuid
import weakref
from collections.abc import Callable

from ddlp.core.client import Client
from ddlp.core.errors import Conflict, DdlpError
from ddlp.core.messages import (
    Attach,
    Attached,
    BadSampleInfo,
    Begin,
    Damaged,
    Fed,
    FeedRequest,
    Mark,
    MarkRequest,
    Taken,
    Where,
)
from ddlp.core.meters.remote import sample_host
from ddlp.core.processes import is_dead, this_process
from ddlp.core.settings import load_settings
from ddlp.core.types import RunState
from ddlp.loader.feed import Going
from ddlp.loader.hold import Hold

_PAGE = 1000
_OVER = (RunState.COMPLETED, RunState.INCOMPLETE)
_PATIENCE_S = 60.0
_GLANCE_S = 0.5

log = logging.getLogger(__name__)


class RemoteFeed:
    """A run on a server."""

    def __init__(
        self,
        url: str,
        run: str,
        rank: int,
        world_size: int,
        key: str | None = None,
        device: str = "",
    ) -> None:
        self._key = key
        self.source = (
            f"the server at {url} (check that it runs, or set DDLP_URL or url= to its address)"
        )
        process = this_process()
        self._body = Attach(
            rank=rank,
            world_size=world_size,
            host=socket.gethostname(),
            place=process.place,
            process=process.number,
            device=device,
        )
        with Client(url, timeout_s=2.5, patience_s=_PATIENCE_S, key=key, say=log.warning) as client:
            self.attached = self._attach(client, run)
        self._client = Client(url, patience_s=_PATIENCE_S, key=key)
        self._turn = 0
        self._path = f"/runs/{self.attached.run}"
        self._hold = Hold(url, key, self._path, self._body.rank, self.attached)
        if self.attached.state not in _OVER:
            self._hold.keep(self.attached.hold_s, time.monotonic())
        self._release = weakref.finalize(self, self._hold.release)
        self._stop_sampling = self._sample_host()

    def _attach(self, client: Client, run: str) -> Attached:
        """Take the rank; a process that holds it and lives is given a moment to end."""
        dead: list[uuid.UUID] = []
        first: tuple[uuid.UUID, float] | None = None
        while True:
            body = self._body.model_copy(update={"dead": dead})
            answer = client.post(f"/runs/{run}/attach", body)
            if "holder" not in answer:
                return Attached.model_validate(answer)
            taken = Taken.model_validate(answer)
            holder, heard_at = taken.holder, time.monotonic() - taken.holder.heard_s
            if holder.session not in dead and is_dead(holder.place, holder.process):
                dead.append(holder.session)
                continue
            if first is None or first[0] != holder.session:
                first = holder.session, heard_at
                log.warning("%s; waiting for it to end", _held(run, taken))
            elif heard_at > first[1] + _GLANCE_S:
                raise Conflict(
                    f"{_held(run, taken)} and lives. Start each process with a rank of its own, "
                    f"close the other loader, or create a run for each job"
                )
            time.sleep(_GLANCE_S)

    def _sample_host(self) -> Callable[[], object]:
        """Read the meters of this host, if no other process of it does; returns what ends that."""
        settings = load_settings()
        if not settings.telemetry:
            return lambda: None
        sampling = sample_host(settings, self._client.url, self._key)
        sampling.start()
        return weakref.finalize(self, sampling.stop)

    def exchange(self, request: FeedRequest) -> Fed:
        """Ask the server; asking twice is harmless."""
        asked_at = time.monotonic()
        update = {"checkpoint": self._hold.checkpoint, "turn": self._turn}
        body = request.model_copy(update=update)
        fed = Fed.model_validate(self._client.post(f"{self._path}/feed", body))
        self._hold.heard(asked_at)
        return fed

    def damaged(self, report: Damaged) -> None:
        """Tell the server; a batch that is being made again already is no news."""
        try:
            self._client.post(f"{self._path}/damaged", report)
        except Conflict:
            return

    def heads(self, epoch: int, step: int) -> int | None:
        """Ask the server, over a connection of its own: another thread may wait for batches."""
        deadline = time.monotonic() + 2.0
        body = MarkRequest(epoch=epoch, step=step)
        try:
            with Client(self._client.url, key=self._key, timeout_s=2.0, patience_s=0.5) as client:
                while True:
                    found = Mark.model_validate(client.post(f"{self._path}/mark", body)).heads
                    if found is not None or time.monotonic() > deadline:
                        return found
                    time.sleep(0.02)
        except DdlpError:  # a state can be taken while the server is away: it then fits its run
            return None

    def bad_samples(self) -> list[BadSampleInfo]:
        """Ask for all that the server has noted; over a connection of its own, from any thread."""
        found: list[BadSampleInfo] = []
        with Client(self._client.url, key=self._key) as client:
            while True:
                before = f"&before={found[-1].id}" if found else ""
                page = client.get(f"{self._path}/bad-samples?limit={_PAGE}{before}")
                found += [BadSampleInfo.model_validate(entry) for entry in page]
                if len(page) < _PAGE:
                    return found[::-1]

    def begin(self, going: Going) -> Where:
        """Tell the server, which delivers again what a state or an epoch goes back behind."""
        state = going.state
        body = Begin(
            attach=self._body,
            rank=self._body.rank,
            session=self.attached.session,
            start=going.start,
            epoch=going.epoch if state is None else state.epoch,
            position=0 if state is None else state.position,
            run=None if state is None else str(state.run.get("run") or ""),
            state=None if state is None else state.origin,
            settled={} if state is None else state.settled or {},
            checkpoint=self._hold.checkpoint,
        )
        asked_at = time.monotonic()
        # Of its own: a thread that reads ahead may still be stuck with the other connection.
        with Client(self._client.url, patience_s=_PATIENCE_S, key=self._key) as client:
            where = Where.model_validate(client.post(f"{self._path}/begin", body))
        self._turn = where.turn
        if self.attached.state in _OVER:
            log.warning(
                "run %s was over; it is delivered and certified again from epoch %d on",
                self.attached.name,
                where.epoch,
            )
            self.attached = self.attached.model_copy(update={"state": RunState.RUNNING})
        self._hold.keep(self.attached.hold_s, asked_at)
        return where

    def took_state(self, epoch: int, position: int) -> None:
        """Told to the server with the next request."""
        self._hold.checkpoint = epoch, position

    def check(self, timeout_s: float) -> None:
        """Raise if another process holds the rank; without contact, wait until that is known."""
        self._hold.check(timeout_s)

    def renew(self) -> None:
        """Leave the connection to a thread that is stuck with it, and use another one."""
        self._client = Client(self._client.url, patience_s=_PATIENCE_S, key=self._key)

    def close(self) -> None:
        """Free the rank, and close the connection."""
        self._stop_sampling()
        self._release()
        self._client.close()


def _held(run: str, taken: Taken) -> str:
    holder = taken.holder
    where = f"process {holder.process} on {holder.host or 'an unknown host'}"
    if taken.holder.world_size:
        where += f" (rank {holder.rank} of {holder.world_size})"
    return f"run {run} is in use by {where}, heard from {holder.heard_s:.1f} s ago"
