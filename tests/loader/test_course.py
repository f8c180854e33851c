"""Where a rank stands: counted step by step, left, and told as a state."""

from dataclasses import replace

import pytest

from ddlp.core.messages import Where
from ddlp.core.plan import RunPlan
from ddlp.core.sessions import Start
from ddlp.core.takeover import segment_json
from ddlp.loader.course import Course
from ddlp.loader.feed import Going

PLAN = RunPlan(samples=22, batch_size=4, epochs=2, seed=0, world_size=2)
BEGINNING = Where(
    epoch=0, step=0, rounds=PLAN.rank_batches, position=0, segments=(PLAN.whole,), epochs=2
)


@pytest.fixture
def course() -> Course:
    return Course(PLAN, BEGINNING, None)


def receive(course: Course, steps: int) -> None:
    for _ in range(steps):
        course.count(from_tail=False)


def test_a_state_counts_the_batches_of_all_ranks(course: Course) -> None:
    receive(course, 2)
    state = course.state({"seed": 0}, course.position, heads=4, settled={})
    assert (state.epoch, state.position, state.heads) == (0, 4, 4)
    assert state.segments == [segment_json(PLAN.whole)]


def test_with_the_last_batch_at_hand_a_state_is_of_the_next_epoch(course: Course) -> None:
    receive(course, PLAN.rank_batches)
    state = course.state({}, course.position, heads=None, settled={"split": 3.0})
    assert (state.epoch, state.position, state.heads, state.settled) == (1, 0, 0, {})


def test_a_pass_that_is_left_before_its_end_is_followed_by_the_next_epoch(course: Course) -> None:
    receive(course, 1)
    course.leave()
    assert (course.epoch, course.position.epoch) == (1, 0), "a state is still of the one left"
    assert course.state({}, course.position, 2, {}).position == 2
    course.advance()
    assert (course.epoch, course.left, course.received) == (1, False, False)


def test_a_pass_that_is_left_with_its_last_batch_is_over(course: Course) -> None:
    receive(course, PLAN.rank_batches)
    course.leave()
    assert (course.epoch, course.position.step) == (1, 0)


def test_what_was_delivered_before_a_segment_counts(course: Course) -> None:
    rest = PLAN.whole.rest(2, 0, 2, PLAN.tail)
    course.move(replace_where(position=2, rounds=rest.rounds, segments=(PLAN.whole, rest)))
    assert (course.position.at, course.received) == (2, False)
    receive(course, 1)
    assert course.state({}, course.position, 2, {}).position == 4


def replace_where(**fields: object) -> Where:
    return BEGINNING.model_copy(update=fields)


def test_a_place_at_the_end_of_an_epoch_is_the_beginning_of_the_next(course: Course) -> None:
    course.move(replace_where(step=PLAN.rank_batches))
    assert (course.epoch, course.position.step, course.position.heads) == (1, 0, 0)


def test_an_epoch_that_was_asked_for_comes_next(course: Course) -> None:
    course.going = Going(Start.EPOCH, 5)
    assert course.epoch == 5
    assert not course.has_more
    course.epochs = None
    assert course.has_more


def test_behind_the_last_epoch_nothing_is_left(course: Course) -> None:
    course.stand_at_end(2)
    assert (course.epoch, course.has_more, course.received) == (2, False, False)


def test_batches_from_the_tail_are_no_heads() -> None:
    alone = replace(PLAN, world_size=1)
    course = Course(alone, replace_where(segments=(alone.whole,)), None)
    course.count(from_tail=True)
    course.count(from_tail=False)
    assert (course.position.at, course.position.heads) == (2, 1)


def test_an_epoch_from_its_beginning_has_a_state_before_anything_was_received(
    course: Course,
) -> None:
    state = course.start_of(1, {"seed": 0})
    assert (state.epoch, state.position, state.heads) == (1, 0, 0)
    assert state.segments == [segment_json(PLAN.whole)]
