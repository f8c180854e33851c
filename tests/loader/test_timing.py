"""Where the trainer's time goes, by a clock that the test moves."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddlp.core.types import Activity, Spending
from ddlp.loader.span_log import SpanLog
from ddlp.loader.timing import Timing


class Clock:
    """A clock that moves only when told."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def timing(clock: Clock) -> Timing:
    """A trainer that has had its first batch, at once."""
    started = Timing(clock)
    started.begin()
    started.waited()
    started.trained()
    return started


def step(clock: Clock, timing: Timing, waited_s: float, trained_s: float) -> None:
    """One step of a trainer."""
    clock.now_s += waited_s
    timing.waited()
    clock.now_s += trained_s
    timing.trained()


def test_time_is_added_to_what_it_was_spent_on(clock: Clock, timing: Timing) -> None:
    step(clock, timing, waited_s=1.0, trained_s=3.0)
    step(clock, timing, waited_s=0.5, trained_s=3.5)
    assert (timing.waited_s, timing.trained_s) == (1.5, 6.5)
    assert timing.wait_share == 1.5 / 8


def test_the_share_is_unknown_before_any_time_has_passed(timing: Timing) -> None:
    assert timing.wait_share is None
    timing.waited()
    assert timing.wait_share is None


def test_the_share_is_one_when_starved_and_zero_when_never_waiting(
    clock: Clock, timing: Timing
) -> None:
    step(clock, timing, waited_s=2.0, trained_s=0.0)
    assert timing.wait_share == 1.0
    busy = Timing(clock)
    busy.begin()
    step(clock, busy, waited_s=0.0, trained_s=2.0)
    assert busy.wait_share == 0.0


@pytest.mark.parametrize(
    "what", [Spending.STORAGE, Spending.NETWORK, Spending.TRANSFER, Spending.SCHEDULING]
)
def test_a_wait_is_laid_to_what_the_reader_is_at(
    clock: Clock, timing: Timing, what: Spending
) -> None:
    timing.reading(what)
    step(clock, timing, waited_s=1.0, trained_s=2.0)
    assert timing.take() == {what: 1.0, Spending.TRAINING: 2.0}


def test_what_the_reader_is_at_while_the_trainer_works_costs_nothing(
    clock: Clock, timing: Timing
) -> None:
    timing.waited()
    timing.reading(Spending.STORAGE)
    clock.now_s += 5
    timing.trained()
    assert timing.take() == {Spending.TRAINING: 5.0}


def test_waiting_for_an_answer_is_laid_to_what_the_answer_blames(
    clock: Clock, timing: Timing
) -> None:
    timing.asking()
    clock.now_s += 4
    assert timing.take() == {}  # nobody knows yet
    assert timing.waited_s == 4
    timing.answered({Spending.DECODE: 2.0, Spending.CSD: 1.0})
    assert timing.take() == {Spending.DECODE: 2.0, Spending.CSD: 1.0, Spending.SCHEDULING: 1.0}


def test_an_answer_cannot_blame_more_than_was_waited(clock: Clock, timing: Timing) -> None:
    timing.asking()
    clock.now_s += 1
    timing.waited()
    clock.now_s += 9  # the trainer works while the answer is awaited
    timing.answered({Spending.DECODE: 8.0, Spending.CSD: 2.0})
    assert timing.take() == pytest.approx(
        {Spending.TRAINING: 9.0, Spending.DECODE: 0.8, Spending.CSD: 0.2}
    )


def test_the_wait_for_the_very_first_batch_is_starting_up(clock: Clock) -> None:
    timing = Timing(clock)
    timing.begin()
    timing.reading(Spending.STORAGE)
    step(clock, timing, waited_s=3.0, trained_s=1.0)
    timing.begin()  # another epoch is no start
    step(clock, timing, waited_s=2.0, trained_s=1.0)
    assert timing.spent_s[Spending.STARTUP] == 3.0
    assert timing.spent_s[Spending.STORAGE] == 2.0


def test_what_is_taken_is_what_is_new(clock: Clock, timing: Timing) -> None:
    timing.reading(Spending.STORAGE)
    step(clock, timing, waited_s=1.0, trained_s=3.0)
    assert timing.take() == {Spending.STORAGE: 1.0, Spending.TRAINING: 3.0}
    assert timing.take() == {}
    step(clock, timing, waited_s=0.25, trained_s=0.5)
    assert timing.take() == {Spending.STORAGE: 0.25, Spending.TRAINING: 0.5}
    assert (timing.waited_s, timing.trained_s) == (1.25, 3.5)


def test_time_before_the_beginning_does_not_count(clock: Clock) -> None:
    timing = Timing(clock)
    clock.now_s += 50
    timing.waited()
    assert timing.take() == {}


def test_time_between_two_epochs_does_not_count(clock: Clock, timing: Timing) -> None:
    step(clock, timing, waited_s=1.0, trained_s=1.0)
    timing.end()
    clock.now_s += 1000  # validation, a checkpoint
    timing.reading(Spending.NETWORK)
    timing.begin()
    step(clock, timing, waited_s=1.0, trained_s=1.0)
    assert (timing.waited_s, timing.trained_s) == (2.0, 2.0)


seconds = st.floats(0, 100)
blame = st.dictionaries(st.sampled_from(Spending), seconds)
events = st.lists(
    st.tuples(
        seconds,
        st.one_of(
            st.sampled_from(["waited", "trained", "asking", "take"]),
            st.sampled_from(Spending),
            blame,
        ),
    )
)


@given(events)
def test_every_second_of_a_pass_is_in_one_account_and_only_one(
    happened: list[tuple[float, object]],
) -> None:
    clock = Clock()
    timing = Timing(clock)
    timing.begin()
    taken = dict.fromkeys(Spending, 0.0)
    for passed_s, event in happened:
        clock.now_s += passed_s
        if isinstance(event, Spending):
            timing.reading(event)
        elif isinstance(event, dict):
            timing.answered(event)
        elif event == "take":
            for what, spent_s in timing.take().items():
                taken[what] += spent_s
        else:
            getattr(timing, str(event))()
    timing.answered({})
    timing.end()
    for what, spent_s in timing.take().items():
        taken[what] += spent_s
    assert sum(timing.spent_s.values()) == pytest.approx(clock.now_s - 100.0, abs=1e-6)
    assert all(spent_s >= 0 for spent_s in timing.spent_s.values())
    assert taken == pytest.approx(timing.spent_s, abs=1e-6)


def test_spans_of_the_trainer_follow_each_other(clock: Clock) -> None:
    timing = Timing(clock)
    timing.begin()
    for batch in range(3):
        clock.now_s += 1
        timing.waited(0, batch)
        clock.now_s += 2
        timing.trained(0, batch)
    spans, dropped = timing.spans.take()
    assert [(s.activity, s.start_s, s.seconds) for s in spans[:2]] == [
        (Activity.WAIT, 100.0, 1.0),
        (Activity.TRAIN, 101.0, 2.0),
    ]
    assert (len(spans), dropped) == (6, 0)
    assert all(a.start_s + a.seconds == b.start_s for a, b in pairwise(spans))


def test_spans_that_nobody_takes_are_dropped_and_counted(clock: Clock) -> None:
    log = SpanLog(clock)
    for batch in range(5000):
        log.trainer(Activity.TRAIN, 0, batch)
    told, dropped = log.take()
    assert dropped == 5000 - 4096
    assert (len(told), told[0].batch) == (1024, 5000 - 4096)
    assert log.take()[1] == 0


def test_a_log_that_is_off_keeps_sums_only(clock: Clock) -> None:
    log = SpanLog(clock, enabled=False)
    with log.during(Activity.READ, 0, 1):
        clock.now_s += 2
    assert log.take() == ([], 0)
    assert log.take_busy_s()[Activity.READ] == 2
    assert log.take_busy_s()[Activity.READ] == 0
