"""The bar as it follows a schedule in which batches are made again: it never shows one twice."""

import itertools
import uuid

from ddlp.core.schedule import Batch, Failed
from ddlp.core.settings import Settings
from ddlp.core.types import Prong, RunState
from ddlp.server.board import ActiveRun, Board
from ddlp.server.snapshot import Front, Snapshot, take
from ddlp.web.front_views import SCALE, _segments
from tests.core.schedule import making
from tests.web.examples import page, run_info

BATCHES = 10
RUN = uuid.UUID(int=1)


class Epoch:
    """One epoch of ten batches, with a worker on each side and one trainer."""

    def __init__(self) -> None:
        self.schedule = making.schedule(batches=BATCHES, epochs=1)
        self.consumed: list[Batch] = []

    def train(self, steps: int) -> None:
        """Make and consume until so many batches are consumed in all."""
        done = len(self.consumed)
        self.consumed += making.take(self.schedule, steps - done, done=done)

    def seen(self) -> Snapshot:
        board = Board(Settings())
        board.runs[RUN] = ActiveRun(RUN, "r50", RunState.RUNNING, self.schedule)
        return take(board, RUN, 0.0)


def assert_inside_the_bar(seen: Snapshot) -> None:
    info = run_info(batches=BATCHES, samples=BATCHES, batch_size=1, epochs=1)
    segments = page(info, seen=seen).fronts.segments
    in_order = sorted(segments, key=lambda segment: segment.x)
    assert in_order[0].x >= 0
    assert in_order[-1].x + in_order[-1].width <= SCALE + 1e-6
    for left, right in itertools.pairwise(in_order):
        assert left.x + left.width <= right.x + 1e-6


def test_what_was_consumed_is_delivered_on_the_side_that_made_it() -> None:
    epoch = Epoch()
    epoch.train(8)
    seen = epoch.seen()
    assert (seen.consumed, seen.cpu.delivered + seen.csd.delivered) == (8, 8)
    assert_inside_the_bar(seen)


def test_an_epoch_that_was_rewound_stays_inside_the_bar() -> None:
    epoch = Epoch()
    epoch.train(8)
    epoch.schedule.go_back(0, 0, 2, epoch.consumed[2:])
    epoch.schedule.top_up(0.0)
    seen = epoch.seen()
    assert (seen.consumed, seen.cpu.delivered + seen.csd.delivered) == (2, 2)
    assert_inside_the_bar(seen)


def test_a_batch_that_is_made_again_by_the_other_side_is_counted_there_alone() -> None:
    epoch = Epoch()
    making.work_off(epoch.schedule)
    (handed,) = epoch.schedule.fetch(0, 0, 0, 1)
    assert handed.prong is Prong.CPU
    epoch.schedule.damaged(0, handed.index, handed.token, Failed("bits"), 0.0)
    epoch.schedule.set_devices({"csd": (Prong.CSD, 2)})
    making.work_off(epoch.schedule)
    assert handed.prong is Prong.CSD
    seen = epoch.seen()
    assert (seen.cpu.delivered, seen.csd.delivered) == (0, 0)
    assert_inside_the_bar(seen)


def test_a_batch_that_is_raced_is_shown_once() -> None:
    epoch = Epoch()
    schedule = making.paced(epoch.schedule, cpu=1.0)
    for now in range(12):
        for grant in schedule.top_up(float(now)):
            if grant.prong is Prong.CPU and making.find(schedule, grant).rival is None:
                making.finish(schedule, grant, float(now))
            else:
                making.claim(schedule, grant, float(now))
    assert sum(schedule.epochs[0].rivals.values()) > 0
    assert_inside_the_bar(epoch.seen())


def test_parts_of_a_front_add_up_however_it_is_divided() -> None:
    """Thirty-one batches do not divide the bar evenly; no rounding may show as a step back."""
    widths = set()
    for delivered in range(26):
        front = Front(25, delivered, 25 - delivered, 0, 0.0)
        parts = _segments(31, front, Front(0, 0, 0, 0, 0.0))
        widths.add(round(sum(part.width for part in parts), 1))
    assert widths == {806.5}
