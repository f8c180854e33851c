"""What workers report: claims in groups, processes that die, batches that kill, races."""

import re
import signal
import uuid
from pathlib import Path

import pytest

from ddlp.core.certificate import verify
from ddlp.core.errors import Conflict
from ddlp.core.messages import Commit, Failure, Lease, Reported, Reports
from ddlp.core.schedule import UNKNOWN, Death
from ddlp.core.store import batch_name
from ddlp.core.types import DeviceHealth, Prong, RunState
from ddlp.server import quarantine, runs, work
from ddlp.server.board import run_plan
from ddlp.server.models import BatchRow, Run
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import (
    ask,
    certificate_of,
    claim,
    commit,
    deliver,
    feed,
    new_run,
    pass_time,
    race,
    reason_of,
    refusal,
    register,
    settle,
    state_of,
    take_sent,
)
from tests.server.test_devices import told

CRASHED = Death(-signal.SIGSEGV)
KILLED = Death(-signal.SIGKILL)


def begin(plane: Plane, images: Path, **fields: object) -> tuple[uuid.UUID, Lease]:
    """A run, and the first lease that was sent for it."""
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", **fields)
    wait_until(lambda: plane.sent)
    _, [lease] = plane.sent.pop(0)
    return run, lease


def row_of(plane: Plane, lease: Lease) -> BatchRow:
    with plane.database.session() as session:
        return session.get_one(BatchRow, (lease.run, lease.epoch, lease.index))


def report(plane: Plane, *made: Lease, failed: tuple[Lease, ...] = ()) -> Reported:
    commits = [Commit(lease=lease, nbytes=1, checksum=1, seconds=1, cpu_s=1) for lease in made]
    failures = [Failure(lease=lease, reason="it broke") for lease in failed]
    body = Reports(device="cpu", made=commits, failed=failures)
    reported: Reported = ask(plane, lambda board, _, now: work.report(board, body, now))
    return reported


def test_a_group_of_claims_is_granted_and_denied_one_by_one(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    new_run(plane, images, strategy="cpu")
    wait_until(lambda: len([1 for _, leases in plane.sent for _ in leases]) >= 2)
    first, second = [lease for _, lease in take_sent(plane)][:2]
    stale = second.model_copy(update={"token": 10**6})
    foreign = second.model_copy(update={"run": uuid.uuid4()})
    claimed = claim(plane, Prong.CPU, first, stale, foreign, second)
    assert [granted.lease for granted in claimed.granted] == [first, second]
    assert [denied.lease for denied in claimed.denied] == [stale, foreign]
    assert [denied.process for denied in claimed.denied] == [None, None]
    assert claimed.granted[0].lasts_s < claimed.granted[1].lasts_s, "one is made after the other"


def test_a_group_of_reports_is_taken_and_denied_one_by_one(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    wait_until(lambda: len([1 for _, leases in plane.sent for _ in leases]) >= 2)
    first, second = [lease for _, lease in take_sent(plane)][:2]
    stale = first.model_copy(update={"token": 10**6})
    reported = report(plane, stale, first, failed=(second, stale))
    assert [denied.lease for denied in reported.denied] == [stale, stale]
    assert [batch.index for batch in feed(plane, run, 0, 0).batches] == [0]
    assert row_of(plane, second).failures == 1


def test_a_device_that_is_not_registered_cannot_report(plane: Plane, images: Path) -> None:
    _, lease = begin(plane, images)
    body = Reports(device="stranger", failed=[Failure(lease=lease, reason="no")])
    with pytest.raises(Conflict, match="device stranger is not registered"):
        ask(plane, lambda board, _, now: work.report(board, body, now))


def test_a_message_that_is_delivered_five_times_is_made_once(plane: Plane, images: Path) -> None:
    run, lease = begin(plane, images)
    claims = [claim(plane, Prong.CPU, lease, process=process) for process in range(1, 6)]
    assert [len(found.granted) for found in claims] == [1, 0, 0, 0, 0]
    assert {denied.process for found in claims for denied in found.denied} == {1}
    commit(plane, Prong.CPU, lease)
    [late] = claim(plane, Prong.CPU, lease, process=6).denied
    assert late.process is None
    assert [batch.index for batch in feed(plane, run, 0, 0).batches] == [0]


def test_another_device_is_not_told_of_the_process_that_has_it(plane: Plane, images: Path) -> None:
    _, lease = begin(plane, images)
    register(plane, Prong.CSD)
    claim(plane, Prong.CPU, lease, process=1)
    [denied] = claim(plane, Prong.CSD, lease, process=1).denied
    assert (denied.process, denied.reason) == (None, "batch 0 of epoch 0 is being made by cpu")


def test_what_a_dead_process_had_can_be_claimed_again_and_is_counted(
    either_plane: Plane, images: Path
) -> None:
    _, lease = begin(either_plane, images)
    claim(either_plane, Prong.CPU, lease, process=1)
    [granted] = claim(either_plane, Prong.CPU, lease, process=2, dead=1, death=CRASHED).granted
    assert (granted.lease.token, granted.lease.losses) == (lease.token, 1)
    assert row_of(either_plane, lease).kills == 1
    claim(either_plane, Prong.CPU, lease, process=2, dead=1)
    assert row_of(either_plane, lease).kills == 1, "it can die only once"


@pytest.mark.parametrize("death", [KILLED, UNKNOWN, None])
def test_workers_that_are_killed_at_one_batch_end_no_run(
    plane: Plane, images: Path, death: Death | None
) -> None:
    run, lease = begin(plane, images, on_bad="fail")
    feed(plane, run, 0, 0)
    for process in range(1, 10):
        claim(plane, Prong.CPU, lease, process=process, dead=process - 1 or None, death=death)
    [granted] = claim(plane, Prong.CPU, lease, process=10, dead=9, death=death).granted
    assert granted.lease.losses == 9, "it is made with care"
    assert (state_of(plane, run), row_of(plane, lease).kills) == (RunState.RUNNING, 0)
    commit(plane, Prong.CPU, lease)
    assert [batch.index for batch in feed(plane, run, 0, 0).batches] == [0]


def kill(plane: Plane, lease: Lease, times: int) -> None:
    """Have one worker process after the other die at a batch."""
    for process in range(1, times + 1):
        claim(plane, Prong.CPU, lease, process=process, dead=process - 1 or None, death=CRASHED)
    claim(plane, Prong.CPU, lease, process=times + 1, dead=times, death=CRASHED)


def test_a_batch_that_kills_its_workers_is_left_out_and_named(
    either_plane: Plane, images: Path
) -> None:
    plane = either_plane
    run, lease = begin(plane, images, on_bad="skip", max_bad_share=0.5)
    kill(plane, lease, 3)
    first = feed(plane, run, 0, 0).batches[0]
    assert (first.index, first.samples) == (0, 0)
    assert "a worker process of cpu crashed (SIGSEGV) while making it, 3 times" in (
        first.left_out or ""
    )
    assert deliver(plane, run, 1, 7) == list(range(1, 7))
    feed(plane, run, 7, 7)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    with plane.database.session() as session:
        row = session.get_one(Run, run)
        listed = quarantine.page(session, row, None, 100)
        expected = run_plan(row).batch_samples(0, 0).tolist()
        assert runs.info(session, row).images["cpu"] == 103
    assert sorted(entry.sample for entry in listed) == sorted(expected)
    certificate = certificate_of(plane, run)
    assert (verify(certificate), certificate.isolated) == ([], [0])
    assert sorted(entry.sample for entry in certificate.bad) == sorted(expected)


def test_a_batch_that_was_left_out_stays_so_over_a_crash(plane: Plane, images: Path) -> None:
    run, lease = begin(plane, images, on_bad="skip", max_bad_share=0.5)
    kill(plane, lease, 3)
    plane.restart()
    assert feed(plane, run, 0, 0).batches[0].left_out
    [denied] = claim(plane, Prong.CPU, lease, process=9).denied
    assert "is not valid any more" in denied.reason


def test_a_batch_that_kills_its_workers_fails_a_strict_run(plane: Plane, images: Path) -> None:
    run, lease = begin(plane, images, on_bad="fail")
    kill(plane, lease, 3)
    wait_until(lambda: state_of(plane, run) is RunState.FAILED)
    assert "batch 0 of epoch 0 was isolated: a worker process of cpu crashed" in reason_of(
        plane, run
    )


def test_deaths_are_remembered_over_a_crash(plane: Plane, images: Path) -> None:
    run, lease = begin(plane, images, on_bad="fail")
    kill(plane, lease, 2)
    plane.restart()
    claim(plane, Prong.CPU, lease, process=8)
    claim(plane, Prong.CPU, lease, process=9, dead=8, death=CRASHED)
    wait_until(lambda: state_of(plane, run) is RunState.FAILED)


def test_a_worker_that_dies_at_its_second_batch_is_not_held_against_the_third(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    new_run(plane, images, strategy="cpu")
    wait_until(lambda: len([1 for _, leases in plane.sent for _ in leases]) >= 2)
    first, second = [lease for _, lease in take_sent(plane)][:2]
    claim(plane, Prong.CPU, first, second, process=1)
    [granted] = claim(plane, Prong.CPU, second, process=2, dead=1, death=CRASHED).granted
    assert granted.lease.losses == 0
    assert (row_of(plane, first).kills, row_of(plane, second).kills) == (1, 0)


def fail(plane: Plane, lease: Lease, reason: str = "Input/output error") -> None:
    body = Reports(device="cpu", failed=[Failure(lease=lease, reason=reason)])
    ask(plane, lambda board, _, now: work.report(board, body, now))


def test_a_device_that_fails_again_and_again_rests_and_the_other_prong_takes_over(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    register(plane, Prong.CSD)
    run = new_run(plane, images, strategy="wrr")
    settle(plane)
    mine = [lease for prong, [lease] in plane.sent if prong is Prong.CPU]
    for lease in mine:
        claim(plane, Prong.CPU, lease)
    for lease in mine:
        fail(plane, lease)
    settle(plane)
    assert state_of(plane, run) is RunState.CREATED
    [rest] = told(plane, "cpu").rests
    assert (rest.failures, rest.rest_s, rest.reason) == (2, 0.5, "Input/output error")
    assert told(plane, "cpu").health is DeviceHealth.RESTING
    assert "tried again in 0 s; other devices" in told(plane, "cpu").health_words
    assert told(plane, "csd").health is DeviceHealth.LIVE
    with plane.database.session() as session:
        held_up = runs.info(session, session.get_one(Run, run)).held_up
    assert held_up == "device cpu fails and rests: Input/output error"
    pass_time(plane, 0.5)
    assert told(plane, "cpu").health is DeviceHealth.LIVE
    deliver(plane, run)
    feed(plane, run, 7, 7)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)


def test_a_device_that_rests_is_told_for_how_long_and_its_lease_goes_to_others(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    register(plane, Prong.CPU, name="other")
    new_run(plane, images, strategy="cpu")
    settle(plane)
    first, second, third, *_ = [lease for _, lease in take_sent(plane)]
    claim(plane, Prong.CPU, first, second)
    fail(plane, first)
    fail(plane, second)
    [denied] = claim(plane, Prong.CPU, third).denied
    assert denied.rest_s == 0.5
    assert "cpu failed lately and gets no such work for 0.5 s" in denied.reason


def test_a_run_fails_once_its_only_device_failed_for_longer_than_the_limit(
    plane: Plane, images: Path
) -> None:
    _, lease = begin(plane, images)
    run = lease.run
    for _ in range(40):
        feed(plane, run, 0, 0)
        for _, sent in [(Prong.CPU, lease), *take_sent(plane)]:
            if claim(plane, Prong.CPU, sent).granted:
                fail(plane, sent)
        if state_of(plane, run) is RunState.FAILED:
            break
        assert plane.now <= 1000 + plane.settings.failing_timeout_s + 40
        pass_time(plane, 5)
    assert re.fullmatch(
        r"batch 0 of epoch 0 failed \d+ times in [6-9]\d s on cpu: Input/output error",
        reason_of(plane, run),
    )


@pytest.mark.parametrize("winner", list(Prong))
def test_whoever_commits_a_raced_batch_first_wins(
    either_plane: Plane, images: Path, winner: Prong
) -> None:
    run, first, second = race(either_plane, images)
    leases = {Prong.CSD: first, Prong.CPU: second}
    claim(either_plane, Prong.CPU, second)
    loser = Prong.CPU if winner is Prong.CSD else Prong.CSD
    name = batch_name(run, 0, first.index, leases[loser].token)
    left = either_plane.settings.home / loser.value / name
    left.parent.mkdir(parents=True, exist_ok=True)
    left.write_bytes(b"what the slower one had written")
    assert commit(either_plane, winner, leases[winner]).denied == []
    assert "is not valid any more" in refusal(either_plane, loser, leases[loser])
    row = row_of(either_plane, first)
    assert (row.token, row.device) == (leases[winner].token, winner.value)
    settle(either_plane)
    assert not left.exists()
    assert sorted(deliver(either_plane, run)) == list(range(7))
