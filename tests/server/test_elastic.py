"""Training goes on with another number of ranks: what was left is shared anew, each sample once."""

import uuid
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from ddlp.core.certificate import Certificate, verify
from ddlp.core.errors import InvalidInput
from ddlp.core.types import EpochState, Prong, RunState, TailPolicy
from ddlp.server import runs
from ddlp.server.models import Run
from ddlp.server.notary import Notary
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import Job, certificate_of, feed, new_run, register, rewind, state_of

SAMPLES = 123


def counted(*jobs: tuple[Job, int, int]) -> Counter[int]:
    """How often each place of the epoch's order was delivered, by jobs and what of each counts."""
    stretches = chain.from_iterable(job.places[a:b] for job, a, b in jobs)
    return Counter(
        place for places in stretches for start, stop in places for place in range(start, stop)
    )


def check(certificate: Certificate, found: Counter[int]) -> None:
    """Each sample was delivered once, apart from what the certificate says of the tail."""
    assert verify(certificate) == []
    assert certificate.exactly_once
    assert SAMPLES - len(found) == certificate.dropped
    assert found.total() - len(found) == certificate.repeated
    if certificate.tail is TailPolicy.SHORT:
        left = SAMPLES - certificate.segments[-1].position * 20
        ranks = certificate.segments[-1].world_size
        assert certificate.dropped == 0
        assert certificate.repeated == (max(0, ranks - left) if left > 0 else 0), "one each"
    if certificate.tail is TailPolicy.PAD:
        assert certificate.dropped == 0
    if certificate.tail is TailPolicy.DROP:
        assert certificate.repeated == 0


def sealed(plane: Plane, run: uuid.UUID) -> Certificate:
    wait_until(lambda: certificate_of(plane, run).state is EpochState.COMPLETE)
    notary = Notary(plane.database)
    while notary.seal_one():
        pass
    return certificate_of(plane, run)


@pytest.mark.parametrize("tail", list(TailPolicy))
@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 3), (2, 4)])
def test_other_ranks_share_what_was_left_at_any_step(
    plane: Plane, images: Path, before: int, after: int, tail: TailPolicy
) -> None:
    register(plane, Prong.CPU)
    register(plane, Prong.CSD)
    step, rounds = 0, 1
    while step <= rounds:
        run = new_run(plane, images, epochs=2, world_size=before, tail=tail)
        first = Job(plane, run, before)
        rounds = first.rewind(0).rounds
        first.take(min(step + 1, rounds))
        second = Job(plane, run, after)
        where = second.rewind(step * before)
        assert (where.step, where.position) == (0, step * before)
        second.take(where.rounds)
        second.acknowledge()
        certificate = sealed(plane, run)
        plane.dispatcher.change_state(run, RunState.CANCELLED).result(10)
        check(certificate, counted((first, 0, step * before), (second, 0, len(second.order))))
        assert [s.world_size for s in certificate.segments] == [before, after][-1 - (step > 0) :]
        step += 1


def test_ranks_change_twice_in_an_epoch_over_crashes(either_plane: Plane, images: Path) -> None:
    register(either_plane, Prong.CPU)
    register(either_plane, Prong.CSD)
    run = new_run(either_plane, images, batch_size=10, world_size=2)
    jobs = [Job(either_plane, run, ranks, between=either_plane.restart) for ranks in (2, 3, 1)]
    jobs[0].take(3)
    jobs[1].rewind(4)
    jobs[1].take(2)
    where = jobs[2].rewind(4 + 3)
    jobs[2].take(where.rounds)
    jobs[2].acknowledge()
    certificate = sealed(either_plane, run)
    check(certificate, counted((jobs[0], 0, 4), (jobs[1], 0, 3), (jobs[2], 0, where.rounds)))
    assert [s.position for s in certificate.segments] == [0, 4, 7]


def test_going_back_behind_a_change_of_ranks_forgets_it(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, world_size=2, strategy="cpu")
    first = Job(plane, run, 2)
    first.take(3)
    Job(plane, run, 1).rewind(4)
    again = Job(plane, run, 2)
    where = again.rewind(2)
    again.take(where.rounds)
    again.acknowledge()
    check(sealed(plane, run), counted((first, 0, 2), (again, 0, 2 * where.rounds)))


def test_other_ranks_begin_the_next_epoch(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, epochs=2, world_size=2, strategy="cpu")
    first = Job(plane, run, 2)
    first.take(4)
    second = Job(plane, run, 3)
    where = second.rewind(0, epoch=1)
    assert (where.epoch, where.step, where.position) == (1, 0, 0)
    second.take(where.rounds)
    second.acknowledge()
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    for number, job in enumerate((first, second)):
        check(certificate_of(plane, run, number), counted((job, 0, len(job.order))))


def test_ranks_of_an_earlier_epoch_come_back(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, epochs=2, world_size=2, strategy="cpu")
    first = Job(plane, run, 2)
    first.take(4)
    other = Job(plane, run, 3)
    other.rewind(0, epoch=1)
    other.take(2)
    again = Job(plane, run, 2)
    assert again.rewind(4).step == 2
    assert again.take(2) == first.order[4:]
    again.acknowledge()
    again.train(1, 4)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    check(certificate_of(plane, run, 0), counted((first, 0, 4), (again, 0, 4)))
    check(certificate_of(plane, run, 1), counted((again, 4, 12)))


def test_ranks_that_leave_before_the_end_leave_the_epoch_abandoned(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, epochs=2, world_size=2, strategy="cpu")
    Job(plane, run, 2).take(2)
    other = Job(plane, run, 1)
    other.rewind(0, epoch=1)
    other.take(7)
    other.acknowledge()
    wait_until(lambda: state_of(plane, run) is RunState.INCOMPLETE)
    with plane.database.session() as session:
        states = [epoch.state for epoch in runs.epochs(session, session.get_one(Run, run))]
    assert states == [EpochState.ABANDONED, EpochState.COMPLETE]
    assert not certificate_of(plane, run, 0).exactly_once


def test_the_second_rank_finds_what_the_first_one_did(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    first = Job(plane, run, 1)
    first.take(4)
    second = Job(plane, run, 2)
    second.rewind(3)
    second.take(1)
    assert second.rewind(3).step == 0
    assert second.take(2)[:2] == second.order[:2]
    second.acknowledge()
    check(sealed(plane, run), counted((first, 0, 3), (second, 2, 6)))


def test_a_rank_of_before_is_told_that_it_is_not_wanted(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, world_size=2, strategy="cpu")
    Job(plane, run, 2).take(2)
    Job(plane, run, 1).rewind(2)
    with pytest.raises(InvalidInput, match="rank 1 is not in a world of 1"):
        feed(plane, run, 1, 1, rank=1)


def test_what_was_being_made_again_counts_when_other_ranks_go_on_behind_it(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, world_size=2, strategy="cpu")
    first = Job(plane, run, 2)
    first.take(3)
    first.acknowledge()
    first.rewind(2)
    one = Job(plane, run, 1)
    one.take(one.rewind(6).rounds)
    one.acknowledge()
    check(sealed(plane, run), counted((first, 0, 6), (one, 0, len(one.order))))


def test_ranks_go_back_behind_epochs_that_others_trained(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, epochs=4, world_size=2, strategy="cpu")
    pair = Job(plane, run, 2)
    pair.take(4)
    pair.acknowledge()
    alone = Job(plane, run, 1)
    alone.take(alone.rewind(0, epoch=1).rounds)
    alone.acknowledge()
    again = Job(plane, run, 2)
    again.rewind(0, epoch=2)
    again.take(2)
    for rank in (0, 1):
        where = rewind(plane, run, 2, rank=rank, world_size=2, epoch=0)
        assert (where.epoch, where.step) == (0, 1)
