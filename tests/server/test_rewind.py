"""A rank goes back to a checkpoint and gets the same batches again, for the same steps."""

import uuid
from pathlib import Path

import pytest

from ddlp.core.certificate import Certificate, verify
from ddlp.core.errors import Conflict, InvalidInput
from ddlp.core.types import EpochState, Prong, RunState
from ddlp.server.models import CertificateRow
from ddlp.server.notary import Notary
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import (
    Job,
    certificate_of,
    deliver,
    feed,
    new_run,
    register,
    rewind,
    state_of,
)


def begin(plane: Plane, images: Path, **fields: object) -> uuid.UUID:
    register(plane, Prong.CPU)
    register(plane, Prong.CSD)
    return new_run(plane, images, **fields)


@pytest.mark.parametrize("step", range(6))
def test_the_same_ranks_get_the_same_batches_again(plane: Plane, images: Path, step: int) -> None:
    run = begin(plane, images)
    order = deliver(plane, run, 0, 5)
    feed(plane, run, 5, 5)
    where = rewind(plane, run, step)
    assert (where.epoch, where.step, where.rounds, where.position) == (0, step, 7, 0)
    again = deliver(plane, run, step, 7)
    assert again[: 5 - step] == order[step:]
    assert sorted(order[:step] + again) == list(range(7))


def test_all_ranks_go_back_one_after_the_other(either_plane: Plane, images: Path) -> None:
    run = begin(either_plane, images, world_size=3)
    job = Job(either_plane, run, 3)
    order = job.take(3)
    assert job.rewind(3).step == 1
    either_plane.restart()
    assert job.take(2) == order[3:]
    job.acknowledge()
    wait_until(lambda: state_of(either_plane, run) is RunState.COMPLETED)
    assert certificate_of(either_plane, run).exactly_once


def test_going_back_again_changes_nothing(plane: Plane, images: Path) -> None:
    run = begin(plane, images)
    order = deliver(plane, run, 0, 5)
    feed(plane, run, 5, 5)
    assert rewind(plane, run, 2) == rewind(plane, run, 2)
    assert deliver(plane, run, 2, 5) == order[2:]


def train(plane: Plane, run: uuid.UUID, epoch: int, start: int = 0) -> list[int]:
    """Take an epoch to its end, and say so."""
    order = deliver(plane, run, start, 7, epoch)
    feed(plane, run, 7, 7, epoch)
    return order


def seal_all(plane: Plane) -> None:
    notary = Notary(plane.database)
    while notary.seal_one():
        pass


def sealed(plane: Plane, run: uuid.UUID) -> dict[int, Certificate]:
    with plane.database.session() as session:
        rows = session.query(CertificateRow).where(CertificateRow.run_id == run)
        return {row.epoch: Certificate.model_validate_json(row.body) for row in rows}


def test_an_earlier_epoch_is_certified_anew(either_plane: Plane, images: Path) -> None:
    plane = either_plane
    run = begin(plane, images, epochs=3)
    orders = [train(plane, run, 0), train(plane, run, 1)]
    deliver(plane, run, 0, 2, epoch=2)
    wait_until(lambda: certificate_of(plane, run, 1).state is EpochState.COMPLETE)
    seal_all(plane)
    before = sealed(plane, run)
    assert list(before) == [0, 1]
    rewind(plane, run, 3)
    assert sealed(plane, run) == {}
    seal_all(plane)
    assert sealed(plane, run) == {}, "it is open again"
    assert train(plane, run, 0, start=3) == orders[0][3:]
    assert train(plane, run, 1) == orders[1]
    train(plane, run, 2)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    seal_all(plane)
    after = sealed(plane, run)
    assert [verify(after[epoch]) for epoch in range(3)] == [[], [], []]
    assert [after[epoch].segments for epoch in range(2)] == [before[e].segments for e in range(2)]
    assert [after[e].previous for e in (1, 2)] == [after[e].digest for e in (0, 1)]


def test_a_checkpoint_between_epochs_says_that_the_last_one_is_used_up(
    plane: Plane, images: Path
) -> None:
    run = begin(plane, images, epochs=2)
    deliver(plane, run)
    rewind(plane, run, 0, epoch=1)
    deliver(plane, run, epoch=1)
    assert certificate_of(plane, run, 0).exactly_once
    assert certificate_of(plane, run, 0).state is EpochState.COMPLETE


def test_a_checkpoint_ahead_of_the_last_word_says_what_is_used_up(
    plane: Plane, images: Path
) -> None:
    run = begin(plane, images)
    deliver(plane, run, 0, 3)
    assert rewind(plane, run, 3).step == 3
    assert len(certificate_of(plane, run).checksums) == 3 * 16
    deliver(plane, run, 3, 7)
    feed(plane, run, 7, 7)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    assert certificate_of(plane, run).exactly_once


def test_an_epoch_that_was_skipped_can_be_begun(plane: Plane, images: Path) -> None:
    run = begin(plane, images, epochs=4)
    deliver(plane, run, epoch=0)
    deliver(plane, run, 0, 2, epoch=3)
    where = rewind(plane, run, 0, epoch=2)
    assert (where.epoch, where.step, where.rounds) == (2, 0, 7)
    assert sorted(deliver(plane, run, epoch=2)) == list(range(7))
    rewind(plane, run, 5, epoch=0)
    assert len(deliver(plane, run, 5, 7, epoch=0)) == 2


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"position": 6}, Conflict, "rank 0 cannot go to step 3 of epoch 0: it has received 2"),
        ({"position": 3}, InvalidInput, "place 3 lies in the middle of a step"),
        ({"position": 5, "world_size": 1}, Conflict, "4 batches of it were delivered"),
        ({"position": 2, "epoch": 1}, Conflict, "run .* has not come to it"),
        ({"position": 0, "epoch": 2}, Conflict, "run .* has not come to it; its next epoch is"),
        ({"position": 0, "rank": 2}, InvalidInput, "rank 2 is not in a world of 2"),
    ],
)
def test_what_cannot_be_gone_to_is_refused_and_nothing_changes(
    plane: Plane, images: Path, fields: dict[str, int], error: type[Exception], words: str
) -> None:
    run = begin(plane, images, epochs=3, world_size=2, strategy="cpu")
    job = Job(plane, run, 2)
    order = job.take(2)
    with pytest.raises(error, match=words):
        rewind(plane, run, **{"world_size": 2, **fields})
    assert order + job.take(2) == list(range(8))
    job.acknowledge()
    wait_until(lambda: certificate_of(plane, run).state is EpochState.COMPLETE)
    assert certificate_of(plane, run).exactly_once


def test_a_change_of_ranks_in_an_earlier_segment_that_is_refused_changes_nothing(
    plane: Plane, images: Path
) -> None:
    run = begin(plane, images, world_size=2, strategy="cpu")
    Job(plane, run, 2).take(2)
    one = Job(plane, run, 1)
    rounds = one.rewind(2).rounds
    one.take(1)
    with pytest.raises(Conflict, match="3 batches of it were delivered"):
        rewind(plane, run, 6, world_size=3)
    one.take(rounds - 1)
    one.acknowledge()
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    assert certificate_of(plane, run).exactly_once
