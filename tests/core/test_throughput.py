"""Throughput is what trainers received, over the time in which they asked for it."""

import pytest

from ddlp.core.throughput import LEAST_S, DeliveryWatch, Measured, Received, images_per_s


def total(parts: list[Measured]) -> tuple[int, float]:
    """Images and seconds of several deliveries."""
    return sum(part.images for part in parts), sum(part.seconds for part in parts)


class Trainers:
    """A run whose ranks ask and receive, on a clock of its own."""

    def __init__(self) -> None:
        self.watch = DeliveryWatch()
        self.now = 100.0
        self.running = True
        self.present = {0}
        self.found: list[Measured] = []
        self.look()

    def look(self) -> None:
        self.watch.look(self.now, self.running, self.present)

    def after(self, seconds: float) -> None:
        self.now += seconds
        self.look()

    def ask(self, rank: int = 0, asks: bool = True) -> None:
        self.watch.asks(rank, asks)
        self.look()

    def receive(self, *batches: tuple[int, float]) -> None:
        self.found += self.watch.receive(self.now, [Received(*batch) for batch in batches])

    @property
    def measured(self) -> tuple[int, float]:
        return total(self.found)


@pytest.mark.parametrize(
    ("images", "seconds", "rate"),
    [(0, 0.0, None), (500, 0.0, None), (500, 0.9 * LEAST_S, None), (500, 10.0, 50.0), (0, 5.0, 0)],
)
def test_what_was_not_measured_is_no_figure(images: int, seconds: float, rate: object) -> None:
    assert images_per_s(images, seconds) == rate


def test_time_runs_from_the_first_request_to_the_last_delivery() -> None:
    run = Trainers()
    run.after(50)
    run.ask()
    run.after(3)
    run.receive((64, run.now - 1))
    run.after(2)
    run.receive((64, run.now - 1))
    run.after(30)
    run.ask(asks=False)
    run.after(30)
    assert run.measured == (128, pytest.approx(5))


def test_what_was_made_before_a_trainer_came_counts_neither_as_images_nor_as_time() -> None:
    run = Trainers()
    made_at = run.now
    run.after(60)
    run.ask()
    run.after(0.01)
    run.receive(*[(64, made_at + number) for number in range(32)])
    assert run.measured == (0, 0.0)
    for _ in range(10):
        run.after(1)
        run.receive((50, run.now - 0.5))
    assert run.measured == (500, pytest.approx(10))


def test_a_trainer_that_limits_has_its_own_rate_whatever_lay_ready() -> None:
    run = Trainers()
    ready = [run.now + number for number in range(20)]
    run.after(60)
    run.ask()
    for made_at in [*ready, *(run.now for _ in range(20))]:
        run.after(0.5)
        run.receive((10, made_at))
    images, seconds = run.measured
    assert images == 200
    assert images_per_s(images, seconds) == pytest.approx(20)


def test_a_pause_is_left_out_and_what_was_waited_before_it_is_not() -> None:
    run = Trainers()
    run.ask()
    run.after(2)
    run.running = False
    run.look()
    run.after(500)
    run.running = True
    run.look()
    run.after(3)
    run.receive((10, run.now))
    assert run.measured == (10, pytest.approx(5))


def test_time_without_a_trainer_is_left_out() -> None:
    run = Trainers()
    run.ask()
    run.after(2)
    run.receive((10, run.now))
    run.after(4)
    run.present = set()
    run.look()
    run.after(1000)
    run.present = {0}
    run.ask()
    run.after(3)
    run.receive((10, run.now))
    assert run.measured == (20, pytest.approx(5))


def test_between_two_passes_nothing_is_measured() -> None:
    run = Trainers()
    run.ask()
    run.after(2)
    made_then = run.now - 1
    run.receive((10, run.now - 1))
    run.ask(asks=False)
    run.after(300)
    made_between = run.now - 1
    run.ask()
    run.after(1)
    run.receive((10, made_then), (10, made_between))
    assert run.measured == (20, pytest.approx(2.5)), "half of that second was for a head start"


def test_ranks_share_one_clock() -> None:
    run = Trainers()
    run.present = {0, 1}
    run.ask(0)
    run.ask(1)
    run.after(2)
    run.receive((10, run.now))
    run.receive((10, run.now))
    run.ask(0, asks=False)
    run.after(2)
    run.receive((10, run.now))
    assert run.measured == (30, pytest.approx(4))


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    run = Trainers()
    run.ask()
    run.after(2)
    run.after(-1)
    run.receive((10, run.now))
    assert run.measured == (10, pytest.approx(2))


def test_batches_that_hold_nothing_leave_their_time_to_the_next() -> None:
    run = Trainers()
    run.ask()
    run.after(2)
    run.receive((0, run.now))
    run.after(1)
    run.receive((5, run.now))
    assert run.measured == (5, pytest.approx(3))


def test_it_is_known_how_long_trainers_have_waited() -> None:
    run = Trainers()
    assert run.watch.waited_s(run.now + 9) == 0
    run.ask()
    assert run.watch.waited_s(run.now + 9) == 9
    run.after(4)
    run.receive((5, run.now))
    assert run.watch.waited_s(run.now) == 0
