"""The bar as it follows a schedule in which batches are made again: it never shows one twice."""

import itertools
import uuid

from ddlp.core.plan import RunPlan
from ddlp.core.schedule import Batch, Limits, RunSchedule, strategy
from ddlp.core.settings import Settings
from ddlp.core.types import Prong, RunState
from ddlp.server.board import ActiveRun, Board
from ddlp.server.snapshot import Front, Snapshot, take
from ddlp.web.views import SCALE, _segments, run_view
from tests.core.schedule.simulation import made
from tests.web.examples import run_info

BATCHES = 10
RUN = uuid.UUID(int=1)


class Epoch:
    """One epoch of ten batches, with a worker on each side and one trainer."""

    def __init__(self) -> None:
        self.schedule = RunSchedule(RunPlan(BATCHES, 1, 1, 0), strategy("wrr"), Limits())
        self.schedule.set_slots({Prong.CPU: 1, Prong.CSD: 1})
        self.consumed: list[Batch] = []

    def make(self, batch: Batch) -> None:
        self.schedule.claim(0, batch.index, batch.token, batch.prong.value, 0.0)
        self.schedule.commit(0, batch.index, batch.token, made(batch.index), 0.0)

    def train(self, steps: int) -> None:
        """Make and consume until so many batches are consumed in all."""
        while len(self.consumed) < steps:
            for batch in self.schedule.top_up(0.0):
                self.make(batch)
            received = len(self.consumed)
            received += len(self.schedule.fetch(0, 0, received, steps - received))
            self.consumed += self.schedule.consume(0, 0, received, 0.0)

    def seen(self) -> Snapshot:
        board = Board(Settings())
        board.runs[RUN] = ActiveRun(RUN, "r50", RunState.RUNNING, self.schedule)
        return take(board, RUN, 0.0)


def assert_inside_the_bar(seen: Snapshot) -> None:
    info = run_info(batches=BATCHES, samples=BATCHES, batch_size=1, epochs=1)
    segments = run_view(info, [], seen).fronts.segments
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
    epoch.schedule.rewind(0, 0, epoch.consumed[2:])
    epoch.schedule.top_up(0.0)
    seen = epoch.seen()
    assert (seen.consumed, seen.cpu.delivered + seen.csd.delivered) == (2, 2)
    assert_inside_the_bar(seen)


def test_a_batch_that_is_made_again_by_the_other_side_is_counted_there_alone() -> None:
    epoch = Epoch()
    first = epoch.schedule.top_up(0.0)[0]
    epoch.make(first)
    (handed,) = epoch.schedule.fetch(0, 0, 0, 1)
    epoch.schedule.damaged(0, handed.index, handed.token, "bits")
    epoch.schedule.set_slots({Prong.CSD: 2})
    for batch in epoch.schedule.top_up(0.0):
        epoch.make(batch)
    again = epoch.schedule.find(0, handed.index)
    assert again is not None
    assert (first.index, again.prong) == (handed.index, Prong.CSD)
    seen = epoch.seen()
    assert (seen.cpu.delivered, seen.csd.delivered) == (0, 0)
    assert_inside_the_bar(seen)


def test_parts_of_a_front_add_up_however_it_is_divided() -> None:
    """Thirty-one batches do not divide the bar evenly; no rounding may show as a step back."""
    widths = set()
    for delivered in range(26):
        front = Front(25, delivered, 25 - delivered, 0, 0.0)
        parts = _segments(31, front, Front(0, 0, 0, 0, 0.0))
        widths.add(round(sum(part.width for part in parts), 1))
    assert widths == {806.5}
