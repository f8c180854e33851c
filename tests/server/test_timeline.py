"""Who did what when: by one clock, bounded, and kept once a run is over."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from ddlp.core.messages import Commit, FeedRequest, Lease, Reports, StepSpan, TrainerAccount
from ddlp.core.messages.timeline import MAX_SPANS, LaneKind, SpanInfo, TimelineInfo
from ddlp.core.types import Activity, Prong, RunState
from ddlp.server import runs, work
from ddlp.server.models import Run
from ddlp.server.routes import runs as route
from ddlp.server.timeline import KEPT_S, Maker, Timeline, unpack
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import SESSION, ask, claim, new_run, register, send, settle, take_sent

RUN = uuid.uuid4()
CPU = Maker("cpu-here", Prong.CPU, False, uuid.uuid4())
DRIVE = Maker("drive", Prong.CSD, True, uuid.uuid4())


def made(ended_s: float, seconds: float = 1.0, index: int = 0, epoch: int = 0) -> Commit:
    lease = Lease(run=RUN, epoch=epoch, index=index, token=1)
    return Commit(lease=lease, nbytes=1, checksum=1, seconds=seconds, cpu_s=0, ended_s=ended_s)


def account(*spans: StepSpan, sent_s: float, dropped: int = 0) -> TrainerAccount:
    return TrainerAccount(number=1, spans=list(spans), sent_s=sent_s, dropped=dropped)


def step(activity: Activity, start_s: float, batch: int | None = None, note: str = "") -> StepSpan:
    return StepSpan(
        activity=activity, start_s=start_s, seconds=0.5, epoch=0, batch=batch, note=note
    )


def everything(timeline: Timeline, now: float = 1000.0) -> TimelineInfo:
    return timeline.info(now, 10**9)


def spans(timeline: Timeline) -> list[SpanInfo]:
    return everything(timeline).spans


# Clocks


@pytest.mark.parametrize("clock_s", [0.0, 7.25, 1e6, 2e9])
def test_a_span_is_placed_by_the_servers_clock_whatever_the_workers_says(clock_s: float) -> None:
    timeline = Timeline()
    timeline.add_made(CPU, made(clock_s + 5.0, seconds=2.0), sent_s=clock_s + 6.0, now=1000.0)
    [span] = spans(timeline)
    assert (span.start_at, span.end_at) == pytest.approx((997.0, 999.0))


@pytest.mark.parametrize("clock_s", [0.0, 1e6])
def test_what_a_rank_does_is_placed_by_the_servers_clock_too(clock_s: float) -> None:
    timeline = Timeline()
    told = account(step(Activity.TRAIN, clock_s + 1.0, 4), sent_s=clock_s + 3.0)
    timeline.add_steps(0, SESSION, told, now=1000.0)
    [span] = spans(timeline)
    assert span.start_at == pytest.approx(998.0)
    assert (span.seconds, span.batch) == (0.5, 4)


def test_the_quickest_message_says_how_clocks_differ() -> None:
    timeline = Timeline()
    timeline.add_made(CPU, made(10.0, index=0), sent_s=10.0, now=1010.1)
    timeline.add_made(CPU, made(20.0, index=1), sent_s=20.0, now=1025.0)
    timeline.add_made(CPU, made(30.0, index=2), sent_s=30.0, now=1030.0)
    timeline.add_made(CPU, made(40.0, index=3), sent_s=40.0, now=1049.0)
    ends = [span.end_at for span in spans(timeline)]
    assert ends == pytest.approx([1010.1, 1020.1, 1030.0, 1040.0])


@given(
    st.floats(0, 1e6),
    st.lists(st.tuples(st.floats(0, 20), st.floats(0, 5)), min_size=1, max_size=20),
)
def test_spans_are_off_by_no_more_than_the_quickest_message_took(
    clock_s: float, messages: list[tuple[float, float]]
) -> None:
    timeline, now = Timeline(), 1e6
    for index, (later_s, delay_s) in enumerate(messages):
        now += later_s
        sent_s = now - 1e6 + clock_s
        timeline.add_made(CPU, made(sent_s, 0.0, index), sent_s, now + delay_s)
        off_s = spans(timeline)[-1].end_at - now
        assert off_s == pytest.approx(min(delay for _, delay in messages[: index + 1]), abs=1e-6)


def test_each_process_has_its_own_clock() -> None:
    timeline = Timeline()
    timeline.add_made(CPU, made(5.0), sent_s=5.0, now=1000.0)
    timeline.add_made(DRIVE, made(900.0), sent_s=900.0, now=1000.0)
    again = Maker(CPU.name, CPU.prong, CPU.emulated, uuid.uuid4())
    timeline.add_made(again, made(77.0), sent_s=77.0, now=1000.0)
    timeline.add_steps(0, SESSION, account(step(Activity.WAIT, 3.0), sent_s=3.5), now=1000.0)
    assert [span.end_at for span in spans(timeline)] == pytest.approx([1000.0] * 4)


# Lanes


def test_everybody_has_a_lane_and_reading_has_its_own() -> None:
    timeline = Timeline()
    timeline.add_made(CPU, made(1.0, index=3, epoch=2), sent_s=1.0, now=1000.0)
    timeline.add_made(DRIVE, made(1.0), sent_s=1.0, now=1000.0)
    told = account(
        step(Activity.READ, 1.0, 0, "mmap"),
        step(Activity.TRANSFER, 1.5, 0),
        step(Activity.WAIT, 1.0, None, "decode"),
        step(Activity.TRAIN, 2.0, 0),
        sent_s=2.5,
    )
    timeline.add_steps(1, SESSION, told, now=1000.0)
    found = everything(timeline)
    lanes = [(lane.name, lane.kind, lane.emulated) for lane in found.lanes]
    assert lanes == [
        ("cpu-here", LaneKind.CPU, False),
        ("drive", LaneKind.CSD, True),
        ("rank 1 reads", LaneKind.READER, False),
        ("rank 1", LaneKind.TRAINER, False),
    ]
    assert [span.lane for span in found.spans] == [0, 1, 2, 2, 3, 3]
    first = found.spans[0]
    assert (first.activity, first.epoch, first.batch) == (Activity.MAKE, 2, 3)
    assert [span.note for span in found.spans] == ["", "", "mmap", "", "decode", ""]


# Bounds


def test_there_are_no_more_spans_than_allowed_and_the_rest_is_counted() -> None:
    timeline = Timeline()
    for index in range(MAX_SPANS + 7):
        timeline.add_made(CPU, made(1.0, index=index), sent_s=1.0, now=1000.0)
    timeline.add_steps(0, SESSION, account(sent_s=1.0, dropped=30), now=1000.0)
    found = everything(timeline)
    assert len(found.spans) == MAX_SPANS
    assert [found.spans[0].batch, found.spans[-1].batch] == [7, MAX_SPANS + 6], "the newest stay"
    assert found.dropped == 37


def test_what_is_older_than_some_minutes_is_forgotten() -> None:
    timeline = Timeline()
    for index in range(1000):
        now = 1000.0 + index
        timeline.add_made(CPU, made(now, index=index), sent_s=now, now=now)
    found = everything(timeline, 1999.0)
    assert len(found.spans) <= KEPT_S + 2
    assert min(span.end_at for span in found.spans) >= 1999.0 - KEPT_S - 1
    assert found.dropped == 0, "nothing of these minutes is missing"


def test_the_last_seconds_are_those_that_were_asked_for() -> None:
    timeline = Timeline()
    for index in range(100):
        now = 1000.0 + index
        timeline.add_made(CPU, made(now, index=index), sent_s=now, now=now)
    assert [span.batch for span in timeline.info(1099.0, 2.0).spans] == [97, 98, 99]
    assert timeline.info(5000.0).spans == []


# Kept


def test_what_is_packed_is_read_back_as_it_was() -> None:
    timeline = Timeline()
    assert timeline.pack(1000.0) is None
    timeline.add_made(DRIVE, made(1.0, index=3), sent_s=1.0, now=1000.0)
    timeline.add_steps(
        0, SESSION, account(step(Activity.WAIT, 1.0, None, "csd"), sent_s=9, dropped=2), 1000.0
    )
    body = timeline.pack(9000.0)
    assert body is not None
    found = unpack(body)
    expected = everything(timeline)
    assert found.spans == expected.spans
    assert (found.lanes, found.dropped) == (expected.lanes, 2)
    assert found.now == pytest.approx(1000.0), "its last moment, however long it was then silent"


def work_for(plane: Plane, images: Path) -> uuid.UUID:
    """A run for which one batch was made, and a step was taken."""
    register(plane, Prong.CPU)
    run = new_run(plane, images, name="r50", strategy="cpu")
    wait_until(lambda: plane.sent)
    [(_, lease), *_] = take_sent(plane)
    claim(plane, Prong.CPU, lease)
    done = Commit(lease=lease, nbytes=1, checksum=1, seconds=2, cpu_s=1, ended_s=49)
    body = Reports(device="cpu", sent_s=50, made=[done])
    for _ in ("at first", "once more, as after a lost answer"):
        ask(plane, lambda board, _, now: work.report(board, body, now))
    told = TrainerAccount(number=1, spans=[step(Activity.TRAIN, 1.0, 0)], sent_s=2.0)
    request = FeedRequest(
        rank=0, session=SESSION, epoch=0, received=0, consumed=0, want=1, account=told
    )
    for _ in ("at first", "once more, as after a lost answer"):
        send(plane, run, request).result(10)
    return run


@pytest.fixture
def client(plane: Plane) -> Iterator[TestClient]:
    """A server that shows runs."""
    app = FastAPI()
    app.state.context = SimpleNamespace(database=plane.database, dispatcher=plane.dispatcher)
    app.include_router(route.router, prefix="/api/v1")
    with TestClient(app) as found:
        yield found


def shown(client: TestClient, seconds: float = 120) -> TimelineInfo:
    answer = client.get("/api/v1/runs/r50/timeline", params={"seconds": seconds})
    assert answer.status_code == 200, answer.text
    return TimelineInfo.model_validate(answer.json())


def test_a_run_that_is_over_keeps_its_last_minutes(
    plane: Plane, images: Path, client: TestClient
) -> None:
    run = work_for(plane, images)
    before = shown(client)
    assert [span.activity for span in before.spans] == [Activity.MAKE, Activity.TRAIN]
    assert [span.end_at for span in before.spans] == pytest.approx([999.0, 999.5])
    assert [lane.name for lane in before.lanes] == ["cpu", "rank 0"]
    plane.now += 60
    plane.dispatcher.change_state(run, RunState.CANCELLED).result(10)
    settle(plane)
    plane.now += 10_000
    after = shown(client)
    assert (after.spans, after.lanes) == (before.spans, before.lanes)
    assert [span.activity for span in shown(client, 0.25).spans] == [Activity.TRAIN]
    plane.restart()
    with plane.database.session() as session:
        kept = runs.kept_timeline(session, session.get_one(Run, run), KEPT_S)
    assert kept.spans == before.spans


def test_a_run_of_which_nothing_was_kept_has_an_empty_timeline(
    plane: Plane, images: Path, client: TestClient
) -> None:
    run = new_run(plane, images, name="r50")
    assert shown(client).spans == []
    plane.dispatcher.change_state(run, RunState.CANCELLED).result(10)
    settle(plane)
    found = shown(client)
    assert (found.spans, found.lanes, found.now) == ([], [], plane.now)


def test_without_telemetry_nothing_is_put_on_the_timeline(
    plane: Plane, images: Path, client: TestClient
) -> None:
    def switch_off(board: object, *_: object) -> None:
        board.settings = plane.settings.model_copy(update={"telemetry": False})  # type: ignore[attr-defined]

    ask(plane, switch_off)
    run = work_for(plane, images)
    assert shown(client).spans == []
    plane.dispatcher.change_state(run, RunState.CANCELLED).result(10)
    settle(plane)
    assert shown(client).spans == []
