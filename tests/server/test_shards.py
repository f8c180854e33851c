"""Which shards are sent, out or there: lost ones come again, but not for ever."""

import uuid

import pytest

from ddlp.core.errors import Conflict, Held, NotFound, Refused
from ddlp.core.messages import ShardReport
from ddlp.server.shards import ATTEMPTS, SILENCE_S, Holder, Shards

ALIVE, ANEW = uuid.uuid4(), uuid.uuid4()
DEVICES = {"a": ALIVE, "b": ALIVE}
TOKEN = uuid.uuid4()
A = Holder("a", ALIVE, 1, TOKEN)
B = Holder("b", ALIVE, 1, uuid.uuid4())


def made(shard: int, **fields: object) -> ShardReport:
    usual = {"device": "a", "shard": shard, "samples": 10, "records": 9, "bytes": 5, "seconds": 2}
    return ShardReport.model_validate({**usual, **fields})


def failed(shard: int, **fields: object) -> ShardReport:
    return ShardReport.model_validate({"device": "a", "shard": shard, "problem": "no", **fields})


def again(process: int) -> Holder:
    """Another process of the same device."""
    return Holder("a", ALIVE, process, uuid.uuid4())


def test_each_is_sent_once_and_all_reports_together_finish_it() -> None:
    shards = Shards([10, 10, 3])
    assert [shards.take(0), shards.take(0), shards.take(0), shards.take(0)] == [0, 1, 2, None]
    assert (shards.out, shards.finished, shards.samples_done) == (3, False, 0)
    for number in (2, 0, 1, 1):
        shards.report(made(number), 1)
    assert (shards.out, shards.finished, shards.samples_done) == (0, True, 23)


def test_what_a_process_is_at_is_left_to_it_until_it_is_known_to_be_dead() -> None:
    shards = Shards([10])
    shards.take(0)
    shards.claim(0, A, 0)
    with pytest.raises(Refused, match="shard 0 is being packed by a"):
        shards.claim(0, B, 1)
    second = again(2)
    for dead in (None, 7):
        with pytest.raises(Held) as held:
            shards.claim(0, second, 2, dead)
        assert held.value.process == 1
    shards.claim(0, A, 2)
    shards.claim(0, second, 2, dead=1)
    shards.report(made(0), 3)
    with pytest.raises(Refused, match="is there already"):
        shards.claim(0, A, 4)


@pytest.mark.parametrize("number", [-1, 2])
def test_a_shard_that_is_none_is_refused(number: int) -> None:
    shards = Shards([10, 10])
    with pytest.raises(NotFound, match="there are 2"):
        shards.claim(number, A, 0)
    assert not shards.hear(number, A, 1, 0)


def test_one_that_is_silent_is_sent_again_and_one_that_gives_signs_of_life_is_not() -> None:
    shards = Shards([10, 10])
    for number in (0, 1):
        shards.take(0)
        shards.claim(number, A, 0)
    assert shards.hear(1, A, 4, 50)
    assert shards.samples_done == 4
    shards.expire(SILENCE_S + 1, DEVICES)
    assert (shards.take(SILENCE_S + 3), shards.take(SILENCE_S + 3)) == (0, None)


def test_what_a_device_held_comes_back_at_once_when_it_is_gone_or_started_anew() -> None:
    for devices in ({}, {"a": ANEW}):
        shards = Shards([10])
        shards.take(0)
        shards.claim(0, A, 0)
        shards.expire(1, DEVICES)
        assert shards.out == 1
        shards.expire(1, devices)
        assert (shards.take(1), shards.take(2)) == (None, 0)


def test_a_lost_message_is_sent_again_without_being_an_attempt() -> None:
    shards = Shards([10])
    now = 0.0
    for _ in range(3 * ATTEMPTS):
        assert shards.take(now) == 0
        now += SILENCE_S + 1
        shards.expire(now, DEVICES)
    assert shards.doom is None


def test_messages_that_a_dead_device_may_have_taken_are_sent_again_at_once() -> None:
    shards = Shards([10])
    assert shards.take(0) == 0
    shards.expire(1, DEVICES)
    shards.expire(2, {**DEVICES, "c": ALIVE})
    assert shards.out == 1
    shards.expire(3, {"a": ANEW, "b": ALIVE, "c": ALIVE})
    assert shards.take(3) == 0


def test_slow_shards_are_given_more_time_in_the_queue() -> None:
    shards = Shards([10, 10])
    shards.take(0)
    shards.report(made(0, seconds=100), 0)
    shards.take(0)
    shards.expire(399, DEVICES)
    assert shards.out == 1
    shards.expire(401, DEVICES)
    assert shards.out == 0


def test_after_five_attempts_it_has_failed_with_the_last_reason() -> None:
    shards = Shards([10])
    now = 0.0
    for attempt in range(ATTEMPTS):
        assert shards.doom is None
        now += 100
        assert shards.take(now) == 0
        shards.claim(0, A, now)
        shards.report(failed(0, token=TOKEN, problem=f"reason {attempt}"), now)
    assert shards.doom == "shard 0 was tried 5 times; last: reason 4"
    with pytest.raises(Conflict, match="it has failed"):
        shards.claim(0, A, now)
    assert not shards.hear(0, A, 1, now)


def test_a_shard_that_kills_its_processes_is_not_tried_for_ever() -> None:
    shards = Shards([10])
    shards.take(0)
    for process in range(1, 1 + ATTEMPTS):
        shards.claim(0, again(process), 0, dead=process - 1)
    with pytest.raises(Refused, match="tried 5 times; last: its process died"):
        shards.claim(0, again(9), 0, dead=ATTEMPTS)
    assert shards.doom is not None


def test_failures_before_a_claim_count_and_pauses_grow() -> None:
    shards = Shards([10])
    now, pauses = 0.0, []
    while shards.doom is None:
        began = now
        while shards.take(now) is None:
            now += 1
        pauses.append(now - began)
        shards.report(failed(0), now)
    assert pauses == [0, 1, 2, 4, 8]


def test_what_cannot_help_to_try_again_ends_it_at_once() -> None:
    shards = Shards([10, 10])
    shards.take(0)
    shards.claim(0, A, 0)
    shards.report(failed(0, token=TOKEN, problem="no room for it", permanent=True), 0)
    assert shards.doom == "no room for it"


def test_work_that_began_under_an_earlier_server_is_taken_in() -> None:
    shards = Shards([10, 10])
    assert shards.hear(0, A, 7, 0)
    assert (shards.out, shards.samples_done) == (1, 7)
    assert shards.take(0) == 1


def test_a_message_that_comes_often_is_no_attempt() -> None:
    shards = Shards([10])
    shards.take(0)
    shards.claim(0, A, 0)
    for process in range(2, 4 * ATTEMPTS):
        with pytest.raises(Held):
            shards.claim(0, again(process), 0)
    assert shards.hear(0, A, 3, 1)
    shards.report(made(0), 2)
    assert (shards.doom, shards.finished) == (None, True)


def test_a_process_that_lost_its_shard_is_told_to_stop_and_its_problems_are_its_own() -> None:
    shards = Shards([10])
    shards.take(0)
    shards.claim(0, A, 0)
    late = SILENCE_S + 1
    shards.expire(late, DEVICES)
    assert shards.take(late + 5) == 0
    second = again(2)
    shards.claim(0, second, late + 5)
    assert not shards.hear(0, A, 9, late + 6)
    shards.report(failed(0, token=TOKEN, permanent=True), late + 6)
    assert (shards.doom, shards.out, shards.samples_done) == (None, 1, 0)
    assert shards.hear(0, second, 4, late + 7)
    shards.report(made(0, token=TOKEN), late + 8)
    assert shards.finished, "it is there, whoever made it"
    assert not shards.hear(0, second, 5, late + 9)


def test_one_that_is_heard_of_before_its_message_was_claimed_keeps_it() -> None:
    shards = Shards([10])
    shards.take(0)
    assert shards.hear(0, A, 7, 0)
    with pytest.raises(Refused, match="is being packed by a"):
        shards.claim(0, B, 1)


def test_the_rate_is_that_of_the_last_half_minute() -> None:
    shards = Shards([10] * 100)
    assert shards.images_per_s(0) is None
    for second in range(60):
        shards.expire(second, DEVICES)
        assert shards.take(second) == second
        shards.report(made(second), second)
    assert shards.images_per_s(60) == pytest.approx(10, rel=0.1)
