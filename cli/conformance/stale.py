"""Checks that stale fencing tokens get nothing done: not at the server, and not on the device."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from ddlp.cli.conformance.findings import Finding, failed, not_checked, passed
from ddlp.cli.conformance.waiting import happens
from ddlp.core.client import Client
from ddlp.core.errors import Unavailable
from ddlp.core.messages import Claim, Claimed, Commit, DeviceInfo, Lease, Reported, Reports
from ddlp.core.queue import TASK, check_broker, create_celery
from ddlp.core.seal import Seal, fetch_key
from ddlp.core.store import batch_name

CHECK = "stale token"
_TAKEN_S = 30.0
_LOOK_S = 0.005
_QUIET_S = 1.0
_TIMES = 20
"""A stale lease asks for its samples so often: work on it would take long enough to be seen."""
_NEVER_GIVEN = 10**15


@dataclass(frozen=True)
class Stale:
    """A device, and leases of it that count no more."""

    client: Client
    device: DeviceInfo
    leases: tuple[Lease, ...]
    root: Path | None
    """Its store, where this host sees it."""
    redis_url: str | None

    def finding(self) -> Finding:
        """Try them at the server, then on the device."""
        refused = self._at_the_server()
        if refused is not None:
            return refused
        if self.redis_url is None:
            return self._unknown("the broker is not known here; set DDLP_REDIS_URL")
        if self.root is None:
            return self._unknown(
                "its store cannot be seen from this host; run this where it can be"
            )
        try:
            check_broker(self.redis_url)
            taken, left = self._send(self.redis_url, self.root)
        except (Unavailable, RedisError, OSError) as error:
            return self._unknown(str(error))
        if left:
            return failed(
                CHECK,
                f"the device worked on a lease that counts no more, as {min(left)} shows; a claim "
                "that is denied must be dropped before any work is done",
            )
        if not taken:
            return self._unknown(f"it did not take a message within {_TAKEN_S:.0f} s")
        return passed(
            CHECK,
            f"the server denied {len(self.leases)} claims and as many reports; the device took a "
            "message with those leases and made no file of them",
        )

    def _at_the_server(self) -> Finding | None:
        claim = Claim(device=self.device.name, process=os.getpid(), leases=list(self.leases))
        claimed = Claimed.model_validate(self.client.post("/leases/claim", claim))
        if claimed.granted:
            token = claimed.granted[0].lease.token
            return failed(CHECK, f"the server granted a claim with the stale token {token}")
        made = [
            Commit(lease=lease, nbytes=1, checksum=1, seconds=1, cpu_s=1) for lease in self.leases
        ]
        reports = Reports(device=self.device.name, made=made)
        reported = Reported.model_validate(self.client.post("/leases/report", reports))
        if len(reported.denied) < len(made):
            return failed(CHECK, "the server took a report with a stale token")
        return None

    def _send(self, redis_url: str, root: Path) -> tuple[bool, set[Path]]:
        """Send the leases in a message that is late; whether it was taken, and files of them.

        A file may be there for a moment only: until the device hears that it was for nothing.
        """
        body = [lease.model_dump(mode="json") for lease in self.leases]
        queue = self.device.prong.value
        left: set[Path] = set()
        with Redis.from_url(redis_url, socket_timeout=5) as redis:

            def quiet() -> bool:
                left.update(traces(root, self.leases))
                return not redis.llen(queue) and not redis.hlen("unacked")

            if not happens(quiet, _TAKEN_S, _LOOK_S):
                return False, left
            celery = create_celery(redis_url, Seal(fetch_key(self.client)))
            try:
                celery.send_task(TASK, args=[body], queue=queue, retry=False, ignore_result=True)
            finally:
                celery.close()
            taken = happens(quiet, _TAKEN_S, _LOOK_S)
            # A message is nowhere for a moment when it is taken: quiet must last.
            happens(lambda: not quiet(), _QUIET_S, _LOOK_S)
            return taken and happens(quiet, _TAKEN_S, _LOOK_S), left

    def _unknown(self, why: str) -> Finding:
        return not_checked(CHECK, f"the server denies claims and reports; of the device: {why}")


def spent(first: Lease) -> tuple[Lease, ...]:
    """A lease that is consumed, and the same with a token that nobody was given."""
    large = first.model_copy(update={"places": first.places * _TIMES})
    return large, large.model_copy(update={"token": _NEVER_GIVEN})


def traces(root: Path, leases: Iterable[Lease]) -> list[Path]:
    """Files that were made for leases, finished or not."""
    found = []
    for lease in leases:
        path = root / batch_name(lease.run, lease.epoch, lease.index, lease.token)
        found += [path] if path.exists() else []
        found += path.parent.glob(f"making/{lease.token}-*")
    return found
