"""The database grows with a run by no more than the documentation says."""

import re
import uuid
from pathlib import Path

from sqlalchemy import text

from ddlp.core.messages import Claim, Commit, FeedRequest, Lease, Reports, TrainerAccount
from ddlp.core.stages import StageTimes
from ddlp.core.types import Prong, RunState, Spending
from ddlp.server import rollups, work
from ddlp.server.notary import Notary
from ddlp.server.telemetry import KEPT_S, SUMS, TRAINER, Bucket, Telemetry
from tests.server.conftest import Plane
from tests.server.driving import SESSION, ask, new_run, register, send, settle, state_of

DOCUMENT = Path(__file__).parents[2] / "docs" / "telemetry.md"
TIMES = StageTimes(0.0123, 0.1234, 0.0345, 0.0456, fetched_bytes=123_456, peak_bytes=987_654_321)
SOURCES = ("cpu", "csd", TRAINER, "dram", "gpu", "idle")
EPOCHS = 17
"""Of 123 batches each: 2,091 in all."""


def stated(unit: str) -> int:
    """A figure of the documentation, such as `at most 900 bytes a batch`."""
    [found] = re.findall(rf"at most ([\d,]+) bytes {unit}", DOCUMENT.read_text())
    return int(found.replace(",", ""))


def size_bytes(plane: Plane) -> int:
    """What the database takes on its drive once all is written to it."""
    with plane.database.engine.connect() as connection:
        connection.execute(text("pragma wal_checkpoint(truncate)"))
        pages = connection.scalar(text("pragma page_count"))
        each = connection.scalar(text("pragma page_size"))
    return int(pages) * int(each)


def take_all(plane: Plane, run: uuid.UUID) -> int:
    """Make and take all batches of a run, many at a time; how many there were."""
    taken, number = 0, 0
    for epoch in range(EPOCHS):
        step, done = 0, False
        while not done:
            number += 1
            spent_s = dict.fromkeys(Spending, 0.1)
            request = FeedRequest(
                rank=0,
                session=SESSION,
                epoch=epoch,
                received=step,
                consumed=step,
                want=256,
                account=TrainerAccount(number=number, spent_s=spent_s),
            )
            fed = send(plane, run, request).result(10)
            step += len(fed.batches)
            done = fed.done and not fed.batches
            make(plane)
            assert number < 100 * EPOCHS, fed.waiting_for
        taken += step
    settle(plane)
    assert state_of(plane, run) is RunState.COMPLETED
    return taken


def make(plane: Plane) -> None:
    """Make all that was given out, in groups."""
    waiting, plane.sent[:] = list(plane.sent), []
    for prong in Prong:
        leases = [lease for each, group in waiting if each is prong for lease in group]
        if leases:
            claim = Claim(device=prong.value, process=1, leases=leases)
            ask(plane, lambda board, _, now, claim=claim: work.claim(board, claim, now))
            body = Reports(device=prong.value, made=[made(lease) for lease in leases])
            ask(plane, lambda board, _, now, body=body: work.report(board, body, now))


def made(lease: Lease) -> Commit:
    """A batch with all that a worker says of one."""
    return Commit(
        lease=lease,
        nbytes=38_535_168,
        checksum=2**64 - 1,
        seconds=0.2345,
        cpu_s=0.2123,
        times=TIMES,
    )


def test_the_database_grows_by_a_stated_number_of_bytes_per_batch(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    register(plane, Prong.CSD)
    run = new_run(plane, images, batch_size=1, epochs=EPOCHS)
    before = size_bytes(plane)
    batches = take_all(plane, run)
    notary = Notary(plane.database)
    while notary.seal_one():
        pass
    assert batches == 123 * EPOCHS
    each = (size_bytes(plane) - before) / batches
    assert 100 < each < stated("a batch")


def test_the_database_grows_by_a_stated_number_of_bytes_per_second(
    plane: Plane, images: Path
) -> None:
    run = new_run(plane, images)
    seconds = 1200
    full = Bucket()
    for name in SUMS:
        setattr(full, name, 123_456_789 if Bucket.__annotations__[name] is int else 1234.5678)
    before = size_bytes(plane)
    telemetry = Telemetry()
    for now in range(10_000, 10_000 + seconds):
        for source in SOURCES:
            telemetry.add(now, source, full, epoch=0, device=source)
        with plane.database.session() as session:
            rollups.save_news(session, run, telemetry.take(now))
    each = (size_bytes(plane) - before) / seconds
    assert 100 < each < stated("for every second")


def test_what_a_run_has_in_memory_does_not_grow_with_it() -> None:
    telemetry = Telemetry()
    for now in range(10_000, 10_000 + 5 * KEPT_S):
        for source in SOURCES:
            telemetry.add(now, source, Bucket(images=1), epoch=0, device=source)
        telemetry.take(now)
    assert len(telemetry._seconds) <= (KEPT_S + 2) * len(SOURCES)
    assert len(telemetry._tallies) == 0
