"""What is counted in runs: each second once, nothing lost by adding up, little of it for ever."""

import uuid
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, func, select

from ddlp.core.messages import Attach, Commit, FeedRequest, Reports, TrainerAccount
from ddlp.core.sessions import Start
from ddlp.core.stages import StageTimes
from ddlp.core.types import Prong, RunState, Spending
from ddlp.server import figures, rollups, work
from ddlp.server.models import Rollup, Tally
from ddlp.server.telemetry import KEPT_S, PERIODS_S, SUMS, TRAINER, Bucket, News, Telemetry
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import (
    SESSION,
    ask,
    attach,
    begin,
    claim,
    commit,
    deliver,
    new_run,
    pass_time,
    register,
    send,
    settle,
    take_sent,
    work_off,
)

WHOLE = st.integers(0, 10**9)
SECONDS = st.floats(0, 1e6)
KINDS = Bucket.__annotations__
BUCKETS: st.SearchStrategy[Bucket] = st.builds(
    Bucket,
    **{name: WHOLE if KINDS[name] is int else SECONDS for name in SUMS},
    peak_bytes=WHOLE,
    emulated=st.booleans(),
    joules_unknown=st.booleans(),
)
EVENTS = st.lists(
    st.tuples(st.floats(0, 30), st.sampled_from(["cpu", "csd", TRAINER]), BUCKETS), max_size=20
)
"""How much later something happens, and what it is."""


@pytest.fixture
def run(plane: Plane, images: Path) -> uuid.UUID:
    """A run that nobody works for."""
    return new_run(plane, images)


def count(events: list[tuple[float, str, Bucket]], start: float = 5000.0) -> list[News]:
    """Count as the dispatcher does: one thing after the other, taken over after each."""
    telemetry, now, found = Telemetry(), start, []
    for later_s, source, bucket in events:
        now += later_s
        telemetry.add(now, source, bucket, epoch=int(now) % 3, device=source)
        found.append(telemetry.take(now))
    found.append(telemetry.take(now, all_of_it=True))
    return [news for news in found if news is not None]


def save(plane: Plane, run: uuid.UUID, *found: News | None) -> None:
    for news in found:
        with plane.database.session() as session:
            rollups.save_news(session, run, news)


def second(at: int, **fields: Any) -> News:
    """News of one second of the CPU."""
    return News({(at, "cpu"): Bucket(**fields)}, {}, {})


def total(parts: list[Bucket]) -> Bucket:
    whole = Bucket()
    for part in parts:
        whole.add(part)
    return whole


def sums(bucket: Bucket) -> dict[str, float]:
    return {name: getattr(bucket, name) for name in SUMS}


# In memory


@given(EVENTS)
def test_each_second_is_taken_once(events: list[tuple[float, str, Bucket]]) -> None:
    found = count(events)
    taken = Counter(key for news in found for key in news.seconds)
    assert set(taken.values()) <= {1}
    seconds = [bucket for news in found for bucket in news.seconds.values()]
    tallies = [counted.bucket for news in found for counted in news.tallies.values()]
    whole = sums(total([bucket for *_, bucket in events]))
    assert sums(total(seconds)) == pytest.approx(whole)
    assert sums(total(tallies)) == pytest.approx(whole)


def test_the_second_at_hand_is_not_taken_before_it_is_over() -> None:
    telemetry = Telemetry()
    telemetry.add(10.2, "cpu", Bucket(images=1))
    first = telemetry.take(10.5)
    assert first is not None
    assert first.seconds == {}
    telemetry.add(10.9, "cpu", Bucket(images=2))
    assert telemetry.take(10.95) is None, "no second has passed"
    news = telemetry.take(11.0)
    assert news is not None
    assert {key: bucket.images for key, bucket in news.seconds.items()} == {(10, "cpu"): 3}


def test_the_end_of_a_run_takes_the_second_at_hand_too() -> None:
    telemetry = Telemetry()
    telemetry.take(10.0)
    telemetry.add(10.2, "cpu", Bucket(images=1))
    news = telemetry.take(10.5, all_of_it=True)
    assert news is not None
    assert list(news.seconds) == [(10, "cpu")]
    assert telemetry.take(10.6, all_of_it=True) is None


def test_live_figures_are_kept_for_a_minute_and_no_longer() -> None:
    telemetry = Telemetry()
    for now in range(100, 300):
        telemetry.add(now, "cpu", Bucket(batches=1, images=now))
        telemetry.take(now)
    assert telemetry.recent(300, "cpu").images == sum(range(300 - KEPT_S, 300))
    assert telemetry.recent(300, "cpu", 10**6).images <= sum(range(298 - KEPT_S, 300))
    assert telemetry.images_per_s(300, "cpu") == sum(range(295, 300)) / 5


def test_the_rate_of_large_batches_is_steady_and_ends_when_they_do() -> None:
    telemetry, seen = Telemetry(), []
    for now in range(1000, 1200):
        if now % 13 == 0 and now < 1130:
            telemetry.add(now, "csd", Bucket(batches=1, images=260))
        telemetry.take(now)
        seen.append(telemetry.images_per_s(now, "csd"))
    steady = seen[1040 - 1000 : 1130 - 1000]
    assert all(rate == pytest.approx(20, rel=0.35) for rate in steady), steady
    assert seen[1165 - 1000 : 1180 - 1000] == [0.0] * 15


def test_sums_are_added_and_marks_and_peaks_survive() -> None:
    plain, marked = Bucket(images=1, peak_bytes=9), Bucket(images=2, peak_bytes=4)
    marked.emulated = marked.joules_unknown = True
    for first, then in ((plain, marked), (marked, plain)):
        whole = replace(first)
        whole.add(then)
        assert (whole.images, whole.peak_bytes) == (3, 9)
        assert whole.emulated
        assert whole.joules_unknown


# In the database


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(events=EVENTS)
def test_seconds_and_longer_periods_and_tallies_have_equal_sums(
    plane: Plane, run: uuid.UUID, events: list[tuple[float, str, Bucket]]
) -> None:
    with plane.database.session() as session:
        session.execute(delete(Rollup))
        session.execute(delete(Tally))
    save(plane, run, *count(events))
    whole = pytest.approx(sums(total([bucket for *_, bucket in events])))
    for period_s in PERIODS_S:
        assert _summed(plane, Rollup, Rollup.period_s == period_s) == whole
    assert _summed(plane, Tally) == whole
    with plane.database.session() as session:
        assert all(row.at % row.period_s == 0 for row in session.scalars(select(Rollup)))


def _summed(plane: Plane, table: type[Rollup | Tally], *where: Any) -> dict[str, float]:
    with plane.database.session() as session:
        query = select(*(func.sum(getattr(table, name)) for name in SUMS)).where(*where)
        found = session.execute(query).one()
        return {name: value or 0 for name, value in zip(SUMS, found, strict=True)}


def test_marks_peaks_and_times_survive_addition_in_the_database(
    either_plane: Plane, images: Path
) -> None:
    plane = either_plane
    run = new_run(plane, images)
    marked = Bucket(images=2, peak_bytes=9, emulated=True, joules_unknown=True)
    for now, bucket in ((5000, Bucket(images=1, peak_bytes=4)), (5001, marked), (5007, Bucket())):
        telemetry = Telemetry()
        telemetry.add(now, "csd", bucket, 0, "drive")
        save(plane, run, telemetry.take(now + 1))
    with plane.database.session() as session:
        [row] = session.scalars(select(Tally))
        whole = figures.totals(session, [run])[run]["csd"]
    assert (row.images, row.peak_bytes, row.emulated, row.joules_unknown) == (3, 9, True, True)
    assert (row.first_at, row.last_at) == (5000, 5007)
    assert (whole.images, whole.bucket.peak_bytes, whole.span_s) == (3, 9, 8)
    assert whole.emulated
    assert whole.bucket.joules_unknown


def test_a_mark_of_one_device_is_one_of_its_prong(plane: Plane, run: uuid.UUID) -> None:
    telemetry = Telemetry()
    telemetry.add(5000, "csd", Bucket(images=1), 0, "real")
    telemetry.add(5000, "csd", Bucket(images=1, emulated=True, joules_unknown=True), 1, "emulated")
    save(plane, run, telemetry.take(5001))
    with plane.database.session() as session:
        whole = figures.totals(session, [run])[run]["csd"]
    assert whole.emulated
    assert whole.bucket.joules_unknown
    assert figures.known_joules(whole.bucket) == {}


def test_what_is_older_than_its_period_is_kept_is_removed_and_tallies_stay(
    plane: Plane, run: uuid.UUID
) -> None:
    settings = plane.settings.model_copy(
        update={"keep_seconds_h": 1.0, "keep_ten_seconds_h": 2.0, "keep_minutes_h": 3.0}
    )
    now = 100 * 3600
    ages_h = (0.5, 1.5, 2.5, 3.5)
    for age_h in ages_h:
        telemetry = Telemetry()
        at = now - int(age_h * 3600)
        telemetry.add(at, "cpu", Bucket(images=1), 0, "cpu")
        save(plane, run, telemetry.take(at + 1))
    with plane.database.session() as session:
        assert rollups.forget_rollups(session, settings, now) == 3 + 2 + 1
        assert rollups.forget_rollups(session, settings, now) == 0
    with plane.database.session() as session:
        kept = Counter(session.scalars(select(Rollup.period_s)))
        assert kept == {1: 1, 10: 2, 60: 3}
        assert session.scalar(select(func.min(Rollup.at))) == now - int(2.5 * 3600)
        assert figures.totals(session, [run])[run]["cpu"].images == len(ages_h)


def test_the_dispatcher_forgets_old_figures_by_itself(plane: Plane, run: uuid.UUID) -> None:
    save(plane, run, second(100, images=1))
    plane.now += plane.settings.keep_seconds_h * 3600
    settle(plane)
    wait_until(lambda: Counter(_periods(plane)) == {10: 1, 60: 1})


def _periods(plane: Plane) -> list[int]:
    with plane.database.session() as session:
        return list(session.scalars(select(Rollup.period_s)))


# Over time


@pytest.mark.parametrize("points", [2, 7, 50, 1000])
@pytest.mark.parametrize("seconds", [1, 59, 400, 3000])
def test_a_series_has_at_most_so_many_points_and_all_images(
    plane: Plane, run: uuid.UUID, points: int, seconds: int
) -> None:
    telemetry = Telemetry()
    for at in range(5003, 5003 + seconds):
        telemetry.add(at, "cpu", Bucket(images=10, joules_modelled=1, joules_measured=2))
    save(plane, run, telemetry.take(10**6))
    with plane.database.session() as session:
        line = figures.series(session, run, points)["cpu"]
    assert 1 <= len(line["at"]) <= points
    assert line["at"] == sorted(line["at"])
    step_s = line["at"][1] - line["at"][0] if len(line["at"]) > 1 else None
    if step_s is not None:
        assert sum(line["images_per_s"]) * step_s == pytest.approx(10 * seconds)
        assert sum(line["watts"]) * step_s == pytest.approx(3 * seconds)


def test_a_series_falls_back_to_longer_periods_where_seconds_were_removed(
    plane: Plane, run: uuid.UUID
) -> None:
    telemetry = Telemetry()
    for at in range(6000, 6600):
        telemetry.add(at, "cpu", Bucket(images=10))
    save(plane, run, telemetry.take(10**6))

    def step_s(points: int = 1000) -> float:
        with plane.database.session() as session:
            line = figures.series(session, run, points)["cpu"]
        first, then, *_ = line["at"]
        assert sum(line["images_per_s"]) * (then - first) == pytest.approx(6000)
        return then - first

    assert step_s() == 1
    assert step_s(30) == 20, "of ten seconds: no more is read than is shown"
    for period_s, left in ((1, 10), (10, 60)):
        with plane.database.session() as session:
            old = (Rollup.period_s == period_s, Rollup.at < 6300)
            session.execute(delete(Rollup).where(*old))
        assert step_s() == left
        with plane.database.session() as session:
            session.execute(delete(Rollup).where(Rollup.period_s == period_s))
        assert step_s() == left


def test_watts_that_a_device_does_not_tell_are_unknown_and_not_0(
    plane: Plane, run: uuid.UUID
) -> None:
    telemetry = Telemetry()
    for at in range(6000, 6003):
        telemetry.add(at, "cpu", Bucket(images=10, joules_unknown=True), epoch=0, device="cpu")
        telemetry.add(at, "csd", Bucket(images=5, joules_modelled=2), epoch=0, device="csd")
    save(plane, run, telemetry.take(10**6))
    with plane.database.session() as session:
        found = figures.series(session, run, 10)
    assert found["cpu"]["watts"] == [None, None, None]
    assert found["csd"]["watts"] == [2.0, 2.0, 2.0]


def test_a_run_of_which_nothing_is_known_has_no_series(plane: Plane, run: uuid.UUID) -> None:
    with plane.database.session() as session:
        assert figures.series(session, run, 10) == {}


# Through the dispatcher


def account(
    plane: Plane, run: uuid.UUID, number: int, session: uuid.UUID = SESSION, rank: int = 0
) -> None:
    """A rank says that it trained for 2 s and waited for 1 s."""
    spent_s = {Spending.TRAINING: 2.0, Spending.DECODE: 1.0}
    said = TrainerAccount(number=number, spent_s=spent_s, read_s=0.5, transfer_s=0.25)
    request = FeedRequest(
        rank=rank, session=session, epoch=0, received=0, consumed=0, want=1, account=said
    )
    send(plane, run, request).result(10)


def spent_s(plane: Plane, run: uuid.UUID) -> dict[Spending, float]:
    """What the trainer of a run has spent, without what is nothing."""
    plane.now += 1
    settle(plane)
    with plane.database.session() as session:
        found = figures.totals(session, [run])[run][TRAINER].bucket
    assert found.read_s == pytest.approx(found.spent_training_s / 4)
    assert found.transfer_s == pytest.approx(found.spent_training_s / 8)
    return {what: seconds for what, seconds in found.spent_s.items() if seconds}


def test_an_account_that_is_sent_twice_counts_once(plane: Plane, run: uuid.UUID) -> None:
    for number in (1, 1, 2, 2, 1):
        account(plane, run, number)
    assert spent_s(plane, run) == {Spending.TRAINING: 4, Spending.DECODE: 2}


def test_accounts_of_a_new_session_count_again(plane: Plane, run: uuid.UUID) -> None:
    account(plane, run, 1)
    session = uuid.uuid4()
    pass_time(plane, plane.settings.trainer_timeout_s + 1)
    attach(plane, run, who := Attach(session=session))
    begin(plane, run, who, Start.CONTINUE)
    account(plane, run, 1, session)
    account(plane, run, 1, session)
    assert spent_s(plane, run) == {Spending.TRAINING: 4, Spending.DECODE: 2}


def test_accounts_of_ranks_are_told_apart(plane: Plane, images: Path) -> None:
    run = new_run(plane, images, world_size=2)
    for rank in (0, 1):
        account(plane, run, 1, rank=rank)
    assert spent_s(plane, run) == {Spending.TRAINING: 4, Spending.DECODE: 2}


def test_a_batch_counts_with_all_that_its_worker_said(plane: Plane, images: Path) -> None:
    register(plane, Prong.CSD)
    run = new_run(plane, images, strategy="csd")
    wait_until(lambda: plane.sent)
    _, lease = take_sent(plane)[0]
    plane.now += 3
    claim(plane, Prong.CSD, lease)
    times = StageTimes(0.25, 1.0, 0.5, 0.125, fetched_bytes=700, peak_bytes=1000)
    done = Commit(lease=lease, nbytes=50, checksum=1, seconds=2, cpu_s=1.5, times=times)
    body = Reports(device="csd", made=[done])
    plane.now += 2
    for _ in ("at first", "once more, as after a lost answer"):
        ask(plane, lambda board, _, now: work.report(board, body, now))
    plane.now += 1
    settle(plane)
    with plane.database.session() as session:
        found = figures.totals(session, [run])[run]["csd"].bucket
    assert found == Bucket(
        batches=1,
        images=sum(stop - start for start, stop in lease.places),
        nbytes=50,
        fetched_bytes=700,
        busy_s=2,
        cpu_s=1.5,
        memory_byte_s=2000,
        joules_modelled=20,
        queue_s=3,
        fetch_s=0.25,
        decode_s=1.0,
        transform_s=0.5,
        write_s=0.125,
        peak_bytes=1000,
        emulated=True,
    )


def test_tallies_go_on_where_they_were_after_a_restart(either_plane: Plane, images: Path) -> None:
    plane = either_plane
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    deliver(plane, run, 0, 3)
    pass_time(plane, 2)
    plane.restart()
    deliver(plane, run, 3, 7)
    pass_time(plane, 2)
    with plane.database.session() as session:
        found = figures.totals(session, [run])[run]
        images_of = select(func.sum(Rollup.images)).where(Rollup.source == "cpu")
        by_period = [session.scalar(images_of.where(Rollup.period_s == p)) for p in PERIODS_S]
    assert by_period == [123] * 3
    assert found["cpu"].images == 123
    assert found["cpu"].bucket.batches == 7
    assert found[TRAINER].images == 120, "the last one is not used up yet"


def test_a_waiting_rank_is_told_what_it_waited_for(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    wait_until(lambda: plane.sent)
    [(_, lease), *_] = take_sent(plane)
    request = FeedRequest(
        rank=0, session=SESSION, epoch=0, received=0, consumed=0, want=1, wait_s=30
    )
    answer = send(plane, run, request)
    settle(plane)
    plane.now += 1.5  # in its queue
    claim(plane, Prong.CPU, lease)
    settle(plane)
    plane.now += 4  # at work
    settle(plane)
    plane.dispatcher.change_state(run, RunState.PAUSED).result(10)
    settle(plane)
    plane.now += 2  # a pause
    commit(plane, Prong.CPU, lease)
    fed = answer.result(10)
    assert [batch.index for batch in fed.batches] == [lease.index]
    assert fed.blame_s == pytest.approx({Spending.SCHEDULING: 3.5, Spending.DECODE: 4.0})


def test_a_rank_that_waits_in_vain_is_told_of_all_of_its_time(plane: Plane, images: Path) -> None:
    run = new_run(plane, images)
    request = FeedRequest(
        rank=0, session=SESSION, epoch=0, received=0, consumed=0, want=1, wait_s=10
    )
    answer = send(plane, run, request)
    settle(plane)
    for _ in range(5):
        plane.now += 2
        settle(plane)
    assert answer.result(10).blame_s == pytest.approx({Spending.SCHEDULING: 10.0})
    assert work_off(plane) == 0


def test_what_was_counted_in_the_last_second_outlives_an_orderly_end(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    deliver(plane, run, 0, 2)
    plane.restart()
    with plane.database.session() as session:
        found = figures.totals(session, [run])[run]
    assert found["cpu"].images > 0
    assert found[TRAINER].images > 0
