"""Bad samples on the server: counted, listed, certified, and too many of them."""

import uuid
from pathlib import Path

import pytest

from ddlp.core.certificate import verify
from ddlp.core.messages import BadSampleInfo
from ddlp.core.mishap import Mishap
from ddlp.core.schedule.limits import bad_allowed
from ddlp.core.types import BadPolicy, Prong, RunState
from ddlp.server import audit, datasets, quarantine, runs
from ddlp.server.board import run_plan
from ddlp.server.models import Run
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import (
    certificate_of,
    claim,
    commit,
    deliver,
    feed,
    new_run,
    refusal,
    register,
    state_of,
    take_sent,
)


def first_sample(plane: Plane, run: uuid.UUID, index: int) -> int:
    """A sample that lies in a batch of the first epoch."""
    with plane.database.session() as session:
        return int(run_plan(session.get_one(Run, run)).batch_samples(0, index)[0])


def spoil(plane: Plane, run: uuid.UUID, substitute: int | None = None) -> Mishap:
    """Make the first batch with its first sample bad."""
    wait_until(lambda: plane.sent)
    prong, [lease] = plane.sent.pop(0)
    bad = Mishap(first_sample(plane, run, lease.index), "/data/a.jpg", "truncated", substitute)
    claim(plane, prong, lease)
    commit(plane, prong, lease, bad)
    return bad


def listed(plane: Plane, run: uuid.UUID) -> list[BadSampleInfo]:
    with plane.database.session() as session:
        return quarantine.page(session, session.get_one(Run, run), None, 100)


@pytest.mark.parametrize(("substitute", "samples"), [(None, 122), (5, 123)])
def test_bad_samples_are_counted_listed_and_certified(
    plane: Plane, images: Path, substitute: int | None, samples: int
) -> None:
    register(plane, Prong.CPU)
    policy = "skip" if substitute is None else "replace"
    run = new_run(plane, images, strategy="cpu", on_bad=policy)
    bad = spoil(plane, run, substitute)
    assert feed(plane, run, 0, 0).batches[0].samples == samples - 123 + 20
    deliver(plane, run, 0, 7)
    feed(plane, run, 7, 7)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    [entry] = listed(plane, run)
    assert (entry.epoch, entry.batch, entry.sample) == (0, 0, bad.sample)
    assert entry.action == bad.action
    with plane.database.session() as session:
        info = runs.info(session, session.get_one(Run, run))
    certificate = certificate_of(plane, run)
    assert (info.bad_samples, info.images["cpu"]) == (1, samples)
    assert certificate.exactly_once
    assert [(entry.batch, entry.mishap) for entry in certificate.bad] == [(0, bad)]
    assert verify(certificate) == []


def test_bad_samples_stand_in_the_audit_trail_at_the_first_and_at_each_doubling(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    for _ in range(3):
        spoil(plane, run)
    with plane.database.session() as session:
        told = audit.page(session, action="run.bad_samples")
    assert [event.detail["count"] for event in told] == [2, 1]
    assert told[1].words == (
        "1 bad sample of epoch 0 was skipped so far; the last is /data/a.jpg: truncated"
    )


def test_by_default_a_run_skips_a_tenth_of_a_percent_and_at_least_ten(
    plane: Plane, images: Path
) -> None:
    run = new_run(plane, images)
    with plane.database.session() as session:
        info = runs.info(session, session.get_one(Run, run))
    assert info.on_bad is BadPolicy.SKIP
    assert bad_allowed(info.max_bad_share, info.samples) == 10


def test_a_refused_commit_lists_nothing(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", on_bad="skip")
    wait_until(lambda: plane.sent)
    prong, lease = take_sent(plane)[0]
    stale = lease.model_copy(update={"token": 999})
    assert "token 999" in refusal(plane, prong, stale, Mishap(0, "a", "b"))
    assert listed(plane, run) == []


def test_too_many_bad_samples_fail_the_run_also_after_a_restart(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", on_bad="skip", max_bad_share=0.01)
    spoil(plane, run)
    plane.restart()
    assert state_of(plane, run) is RunState.CREATED
    spoil(plane, run)
    assert deliver(plane, run, 0, 1) == [0]
    assert state_of(plane, run) is RunState.RUNNING, "what is good is delivered first"
    feed(plane, run, 1, 1)
    wait_until(lambda: state_of(plane, run) is RunState.FAILED)
    with plane.database.session() as session:
        reason = session.get_one(Run, run).reason or ""
    assert "2 of the 123 samples of epoch 0 are bad, more than max_bad_share=0.01" in reason
    assert len(listed(plane, run)) == 2


def test_older_bad_samples_come_page_by_page(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", on_bad="skip", max_bad_share=1.0)
    for _ in range(3):
        spoil(plane, run)
    with plane.database.session() as session:
        row = session.get_one(Run, run)
        first = quarantine.page(session, row, None, 2)
        rest = quarantine.page(session, row, first[-1].id, 2)
    assert [entry.batch for entry in first + rest] == [2, 1, 0]


def test_a_dataset_lists_what_all_its_runs_could_not_use_each_once(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    for name, seed in (("one", 1), ("two", 1), ("three", 2)):
        run = new_run(plane, images, name=name, seed=seed, strategy="cpu", on_bad="skip")
        spoil(plane, run)
        plane.dispatcher.change_state(run, RunState.CANCELLED).result(10)
        plane.sent.clear()
    with plane.database.session() as session:
        row = datasets.find(session, "fruit")
        found = quarantine.of_dataset(session, row, 0, 10)
        assert quarantine.of_dataset(session, row, 1, 10).samples == found.samples[1:]
        assert quarantine.of_dataset(session, row, 0, 1).samples == found.samples[:1]
        row.version = "another"
        assert quarantine.of_dataset(session, row, 0, 10).total == 0
        session.rollback()
    assert found.total == 2
    assert [(entry.times, entry.runs) for entry in found.samples] == [
        (1, ["three"]),
        (2, ["two", "one"]),
    ]
    assert {entry.reason for entry in found.samples} == {"truncated"}
