"""Who made what of an epoch: the stretches follow a schedule, whatever becomes of its batches."""

import itertools
import uuid
from collections import Counter
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from ddlp.core.plan import RunPlan
from ddlp.core.schedule import Batch, Failed, Limits, RunSchedule, strategy
from ddlp.core.settings import Settings
from ddlp.core.types import Prong, RunState
from ddlp.server import ledger
from ddlp.server.batch_owners import CELLS, BatchOwners, Kind, Shade, Stretch, batch_owners
from ddlp.server.board import ActiveRun, Board
from ddlp.server.models import Base, Epoch
from ddlp.server.snapshot import take
from tests.core.schedule import making
from tests.server.test_run_list import row as run_row

BATCHES = 10
DELIVERED = {prong: (prong, Shade.DELIVERED) for prong in Prong}


class Ledger:
    """A schedule that is written down as the server does it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.run = run_row(f"r-{uuid.uuid4().hex[:8]}")
        session.add(self.run)
        session.flush()
        self.schedule = making.schedule(batches=BATCHES, epochs=1)
        self.consumed: list[Batch] = []

    def train(self, steps: int) -> None:
        """Make and consume until so many batches are consumed in all."""
        done = len(self.consumed)
        self.consumed += making.take(self.schedule, steps - done, done=done)

    def seen(self) -> BatchOwners:
        """What is written down, after it was compared with what the schedule knows."""
        board = Board(Settings())
        run_id = self.run.id
        board.runs[run_id] = ActiveRun(run_id, "r50", RunState.RUNNING, self.schedule)
        snapshot = take(board, run_id, 0.0)
        ledger.save_changes(self.session, run_id, self.schedule.changes(), 0.0)
        found = batch_owners(self.session, run_id, 0)
        assert_in_order(found, snapshot.batches)
        if snapshot.epoch is not None:
            for prong, front in zip(Prong, (snapshot.cpu, snapshot.csd), strict=True):
                for shade in Shade:
                    assert counted(found)[prong, shade] == getattr(front, shade.value)
                    assert found.count(prong, shade) == getattr(front, shade.value)
            assert found.head == snapshot.cpu.taken
        return found


def counted(found: BatchOwners) -> Counter[Kind]:
    """Batches by kind."""
    counts: Counter[Kind] = Counter()
    for part in found.stretches:
        counts[part.kind] += part.batches
    return counts


def assert_in_order(found: BatchOwners, batches: int) -> None:
    """Stretches lie beside each other and inside the epoch; neighbours of one kind are one."""
    assert all(part.batches > 0 for part in found.stretches)
    assert all(0 <= part.first < part.last <= batches for part in found.stretches)
    assert 0 <= found.head <= batches
    assert 0 <= found.tail <= batches
    for left, right in itertools.pairwise(found.stretches):
        assert left.last <= right.first
        assert left.kind != right.kind or left.last < right.first


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    Base.metadata.create_all(engine)
    with Session(engine) as found:
        yield found


def test_nothing_is_known_of_an_epoch_that_was_not_opened(session: Session) -> None:
    assert batch_owners(session, uuid.UUID(int=1), 0) == BatchOwners([])


def test_two_fronts_grow_towards_each_other_and_meet(session: Session) -> None:
    epoch = Ledger(session)
    epoch.train(4)
    making.make_all(epoch.schedule)
    made = epoch.seen()
    assert made.meeting is not None
    epoch.train(BATCHES)
    over = epoch.seen()
    cpu, csd = over.stretches
    assert (cpu.kind, csd.kind) == (DELIVERED[Prong.CPU], DELIVERED[Prong.CSD])
    assert over.meeting == made.meeting == cpu.last == csd.first


def test_an_epoch_that_was_rewound_has_less_delivered(session: Session) -> None:
    epoch = Ledger(session)
    epoch.train(8)
    epoch.seen()
    epoch.schedule.go_back(0, 0, 2, epoch.consumed[2:])
    for batch in epoch.consumed[2:]:
        epoch.schedule.note(batch)
    epoch.schedule.top_up(0.0)
    counts = counted(epoch.seen())
    assert counts[DELIVERED[Prong.CPU]] + counts[DELIVERED[Prong.CSD]] == 2


def test_a_batch_that_is_made_again_by_the_other_side_lies_where_it_lay(session: Session) -> None:
    epoch = Ledger(session)
    making.work_off(epoch.schedule)
    (handed,) = epoch.schedule.fetch(0, 0, 0, 1)
    assert (handed.index, handed.prong) == (0, Prong.CPU)
    epoch.schedule.damaged(0, handed.index, handed.token, Failed("bits"), 0.0)
    epoch.schedule.set_devices({"csd": (Prong.CSD, 2)})
    making.make_all(epoch.schedule)
    found = epoch.seen()
    assert found.stretches[0] == Stretch((Prong.CSD, Shade.READY), 0, 1)
    assert found.stretches[1].kind == (Prong.CPU, Shade.READY)
    assert found.meeting is None


def test_a_batch_that_is_raced_is_shown_once_and_then_as_the_winners(session: Session) -> None:
    """The ends met where work was given out; the CPU made what the drive was too slow for."""
    epoch = Ledger(session)
    schedule = making.paced(epoch.schedule, cpu=1.0)
    for now in range(12):
        for grant in schedule.top_up(float(now)):
            if grant.prong is Prong.CPU and making.find(schedule, grant).rival is None:
                making.finish(schedule, grant, float(now))
            else:
                making.claim(schedule, grant, float(now))
    raced = schedule.epochs[0]
    assert sum(raced.rivals.values()) > 0
    given_out = raced.meeting_point
    before = counted(epoch.seen())
    for batch in list(raced.under_way):
        if batch.rival is not None and batch.rival.prong is Prong.CPU:
            token = batch.rival.token
            assert schedule.commit(0, batch.index, token, making.made("cpu"), 13.0)
    found = epoch.seen()
    assert counted(found)[Prong.CPU, Shade.READY] > before[Prong.CPU, Shade.READY]
    assert found.meeting != given_out


def test_neighbours_of_a_long_epoch_are_counted_together(session: Session) -> None:
    epoch = Ledger(session)
    batches = 4 * CELLS + 7
    epoch.schedule = making.schedule(batches=batches, epochs=1)
    epoch.train(90)
    found = epoch.seen()
    assert sum(counted(found).values()) < batches
    assert found.meeting is None
    assert len(found.stretches) < 10


def test_short_batches_at_the_end_have_no_part_in_the_meeting(session: Session) -> None:
    epoch = Ledger(session)
    plan = RunPlan(BATCHES * 4 + 1, 4, 1, 0, 1)
    epoch.schedule = RunSchedule(plan, strategy("wrr"), Limits())
    epoch.schedule.set_devices(making.BOTH)
    epoch.train(BATCHES + 1)
    found = epoch.seen()
    cpu = next(part for part in found.stretches if part.kind == DELIVERED[Prong.CPU])
    assert found.meeting == cpu.last
    assert found.stretches[-1].last == BATCHES + 1


def test_what_was_delivered_to_other_ranks_comes_first(session: Session) -> None:
    epoch = Ledger(session)
    epoch.train(4)
    epoch.seen()
    schedule = epoch.schedule.epochs[0]
    heads = sum(not batch.from_tail for batch in epoch.consumed)
    schedule.cut_anew(heads, 4 - heads, 2)
    ledger.forget_from(session, epoch.run.id, 0, 4)
    epoch.schedule.top_up(0.0)
    found = epoch.seen()
    delivered = [part for part in found.stretches if part.kind and part.kind[1] is Shade.DELIVERED]
    assert sum(part.batches for part in delivered) == 4
    assert max(part.last for part in delivered) == 4


def test_what_another_run_delivered_is_neither_sides(session: Session) -> None:
    epoch = Ledger(session)
    epoch.train(2)
    epoch.seen()
    row = session.get_one(Epoch, (epoch.run.id, 0))
    row.segments = [{**row.segments[0], "position": 3}]
    session.flush()
    found = batch_owners(session, epoch.run.id, 0)
    assert found.stretches[0] == Stretch(None, 0, 3)
