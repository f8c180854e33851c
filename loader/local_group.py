"""A rank's feed where the ranks of one host share a run that a process beside them schedules."""

import logging
import os
import socket
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict

from pydantic import ValidationError

from ddlp.core.errors import InvalidInput, Refused, Unavailable, WaitTimeout
from ddlp.core.messages import Attached, BadSampleInfo, Damaged, Fed, FeedRequest, Where
from ddlp.loader.feed import Going
from ddlp.loader.local_run import LocalRun
from ddlp.loader.local_wire import (
    Caller,
    HostEnded,
    HostOrder,
    Join,
    Joined,
    RunOrder,
)
from ddlp.loader.meeting import Meeting, meeting_of
from ddlp.loader.ranks import Ranks

_GLANCE_S = 0.05
_ANSWER_S = 60.0
_OTHERWISE_S = 3.0
"""After so long a rank that finds nobody looks whether its job is served with other arguments."""
_SAY_AFTER_S, _SAY_EVERY_S = 10.0, 30.0

log = logging.getLogger(__name__)


class GroupFeed:
    """One rank of a run that the ranks of this host share."""

    source = "the process beside rank 0 that serves all ranks"

    def __init__(self, run: LocalRun, ranks: Ranks, patience_s: float) -> None:
        check_one_host(ranks)
        order = RunOrder.of(run)
        self._rank = ranks.rank
        meeting = meeting_of(order.identity(ranks.world_size), ranks.rank)
        host = None
        if ranks.rank == 0:
            host = HostProcess(
                HostOrder(run=order, world_size=ranks.world_size, folder=meeting.folder)
            )
        self._main, self._aside, joined = _attach(meeting, ranks, host, patience_s, order)
        self._end = weakref.finalize(self, _leave, os.getpid(), self._main, self._aside)
        self.attached: Attached = joined.attached
        for text in joined.warnings:
            warnings.warn(text, stacklevel=4)

    def exchange(self, request: FeedRequest) -> Fed:
        """Say what was consumed and get the next batches."""
        body = request.model_dump(mode="json", exclude={"account"})
        answer = self._main.ask("exchange", body, request.wait_s + _ANSWER_S)
        return Fed.model_validate(answer)

    def damaged(self, report: Damaged) -> None:
        """Have a batch made again."""
        self._main.ask("damaged", report.model_dump(mode="json"), _ANSWER_S)

    def heads(self, epoch: int, step: int) -> int | None:
        """How many batches of an epoch's segment came from the head before a step of all ranks."""
        found: int | None = self._aside.ask("heads", (epoch, step), _ANSWER_S)
        return found

    def bad_samples(self) -> list[BadSampleInfo]:
        """What all ranks' batches had to do without, the oldest first."""
        found = self._aside.ask("bad_samples", None, _ANSWER_S)
        return [BadSampleInfo.model_validate(entry) for entry in found]

    def begin(self, going: Going) -> Where:
        """Go on as the loader says; where that leads back, once all ranks have said so."""
        return Where.model_validate(self._aside.ask("begin", asdict(going), _ANSWER_S))

    def took_state(self, epoch: int, position: int) -> None:
        """Nobody keeps a record of it here."""

    def check(self, timeout_s: float) -> None:
        """A rank's place is its process's for as long as that lives."""

    def renew(self) -> None:
        """The one connection stays: the process at its other end is on this host."""

    def close(self) -> None:
        """Leave the run; the last rank that leaves ends it."""
        self._end()


class HostProcess:
    """The process that serves the ranks, as rank 0 sees it."""

    def __init__(self, order: HostOrder) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ddlp.loader.local_host"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # it outlives this rank if others go on
        )
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(order.model_dump_json().encode())
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # its end is noticed below
        threading.Thread(target=self._process.wait, name="ddlp-local-host", daemon=True).start()

    def check(self) -> None:
        """Raise if it has ended before it served anybody."""
        status = self._process.returncode
        if status is not None:
            raise Unavailable(
                f"the process that serves the ranks of this host ended with status {status}; what "
                "it wrote to standard error says why"
            )


def check_one_host(ranks: Ranks, environment: Mapping[str, str] = os.environ) -> None:
    """Refuse ranks on several hosts: they share neither memory nor a schedule without a server."""
    remedy = (
        "DualLoader.local serves the ranks of one host; for several hosts start a server (ddlp "
        "up), create a run, and use DualLoader(run=…, url=…)"
    )
    here = ranks.local_world_size
    if here is not None and here < ranks.world_size:
        raise InvalidInput(
            f"{here} of {ranks.world_size} ranks run on this host (LOCAL_WORLD_SIZE={here}, "
            f"WORLD_SIZE={ranks.world_size}). {remedy}"
        )
    if here is None and ranks.local_rank not in (None, ranks.rank):
        raise InvalidInput(
            f"rank {ranks.rank} of {ranks.world_size} is rank {ranks.local_rank} of its host "
            f"(RANK={ranks.rank}, LOCAL_RANK={ranks.local_rank}): there are other hosts. {remedy}"
        )


def _attach(
    meeting: Meeting,
    ranks: Ranks,
    host: HostProcess | None,
    patience_s: float,
    order: RunOrder,
) -> tuple[Caller, Caller, Joined]:
    """Find the process that serves this run, and attach to it with two connections."""
    began = time.monotonic()
    say_at = began + _SAY_AFTER_S
    trouble = "nothing is there"
    while True:
        try:
            found = _join(meeting, ranks)
            meeting.attached()
            return found
        except Refused as error:  # of an earlier run that has not ended yet
            trouble = str(error)
        except (OSError, HostEnded) as error:
            trouble = str(error)
        now = time.monotonic()
        if host is not None:
            host.check()
        elif now - began > _OTHERWISE_S:
            _check_arguments(meeting, ranks, order)
        wanted = (
            f"rank {ranks.rank} of {ranks.world_size} found no process to serve it at "
            f"{meeting.address} ({trouble}); rank 0 starts it, and every rank must call "
            "DualLoader.local with the same arguments, in the same order"
        )
        if now - began > patience_s:
            raise WaitTimeout(f"{wanted}; waited for {patience_s:.0f} s")
        if now >= say_at:
            log.warning("%s", wanted)
            say_at = now + _SAY_EVERY_S
        time.sleep(_GLANCE_S)


def _check_arguments(meeting: Meeting, ranks: Ranks, order: RunOrder) -> None:
    """Refuse a rank that waits where nobody comes to, while its job is served elsewhere."""
    for kept in meeting.elsewhere():
        with suppress(ValidationError):  # it is being written
            differences = order.differences(RunOrder.model_validate_json(kept))
            if differences:
                raise InvalidInput(
                    f"rank {ranks.rank} of {ranks.world_size} calls DualLoader.local with "
                    f"{'; '.join(differences)} as rank 0 does; give the same arguments on all "
                    "ranks, and create several loaders in the same order"
                )


def _join(meeting: Meeting, ranks: Ranks) -> tuple[Caller, Caller, Joined]:
    made: list[Caller] = []
    try:
        for main in (True, False):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            made.append(Caller(connection))
            made[-1].connect(meeting.address)
            join = Join(rank=ranks.rank, world_size=ranks.world_size, main=main)
            answer = made[-1].ask("join", join.model_dump(mode="json"), _ANSWER_S)
    except BaseException:
        for caller in made:
            caller.close()
        raise
    return made[0], made[1], Joined.model_validate(answer)


def _leave(owner: int, main: Caller, aside: Caller) -> None:
    """Say that this rank is done; a forked child of it has no part in that."""
    if os.getpid() != owner:
        return
    main.say_leave()
    for caller in (aside, main):
        caller.close()
