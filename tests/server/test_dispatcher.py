"""The dispatcher writes before it answers, and a new one goes on where the old one was."""

import uuid
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import text

from ddlp.core.errors import (
    Conflict,
    DdlpError,
    InvalidInput,
    NotFound,
    Unavailable,
)
from ddlp.core.messages import FeedRequest, Heartbeat
from ddlp.core.pipeline import ENGINE
from ddlp.core.types import Prong, RunState
from ddlp.server import devices, runs
from ddlp.server.models import Run
from tests.conftest import wait_until
from tests.server.conftest import Plane
from tests.server.driving import (
    SESSION,
    ask,
    certificate_of,
    claim,
    commit,
    deliver,
    feed,
    new_run,
    refusal,
    register,
    rewind,
    send,
    state_of,
    take_sent,
    work_off,
)


def test_a_run_goes_from_created_to_completed(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    register(plane, Prong.CSD)
    run = new_run(plane, images)
    assert state_of(plane, run) is RunState.CREATED
    order = deliver(plane, run)
    assert state_of(plane, run) is RunState.RUNNING
    assert sorted(order) == list(range(7))
    feed(plane, run, 7, 7)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    with plane.database.session() as session:
        info = runs.info(session, session.get_one(Run, run))
    assert certificate_of(plane, run).exactly_once
    assert info.images["cpu"] + info.images["csd"] == 123
    assert {entry.provenance for entry in info.energy} == {"modelled"}


def test_energy_is_cpu_seconds_for_the_host_and_busy_seconds_for_a_csd(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    register(plane, Prong.CSD)
    run = new_run(plane, images)
    deliver(plane, run)
    feed(plane, run, 7, 7)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)
    with plane.database.session() as session:
        row = session.get_one(Run, run)
        made = runs.epochs(session, row)[0].made
        energy = {entry.source: entry.joules for entry in runs.info(session, row).energy}
    assert energy == {"cpu": 10.0 * made["cpu"], "csd": 20.0 * made["csd"]}


def test_a_new_dispatcher_goes_on_where_the_old_one_was(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    register(plane, Prong.CSD)
    run = new_run(plane, images)
    first = deliver(plane, run, 0, 3)
    plane.restart()
    feed(plane, run, 3, 3)
    rest = deliver(plane, run, 3, 7)
    assert sorted(first + rest) == list(range(7))


def test_leases_of_before_a_restart_are_still_good(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    wait_until(lambda: plane.sent)
    prong, lease = take_sent(plane)[0]
    plane.restart()
    claim(plane, prong, lease)
    commit(plane, prong, lease)
    assert [b.index for b in feed(plane, run, 0, 0).batches] == [0]


def test_tokens_never_repeat_over_a_restart(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    new_run(plane, images, strategy="cpu")
    wait_until(lambda: plane.sent)
    before = {lease.token for _, lease in take_sent(plane)}
    plane.restart()
    register(plane, Prong.CPU)
    wait_until(lambda: plane.sent)
    assert max(before) < min(lease.token for _, lease in take_sent(plane))


def test_a_rank_that_lost_the_answer_gets_the_same_batch_again(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    wait_until(lambda: work_off(plane))
    first = feed(plane, run, 0, 0)
    assert feed(plane, run, 0, 0) == first
    plane.restart()
    assert feed(plane, run, 0, 0).batches == first.batches


def test_a_device_that_falls_silent_loses_its_leases(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    new_run(plane, images, strategy="cpu")
    wait_until(lambda: plane.sent)
    prong, lease = take_sent(plane)[0]
    claim(plane, prong, lease)
    plane.now += 100
    register(plane, Prong.CPU)
    wait_until(lambda: lease.index in sent_again(plane))
    assert "is not valid any more" in refusal(plane, prong, lease)


def test_a_device_that_was_started_anew_loses_its_leases_at_once(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    new_run(plane, images, strategy="cpu")
    wait_until(lambda: plane.sent)
    prong, held = take_sent(plane)[0]
    claim(plane, prong, held)
    register(plane, Prong.CPU)
    wait_until(lambda: held.index in sent_again(plane))


def sent_again(plane: Plane) -> dict[int, int]:
    """Losses of the batches that were sent, by index."""
    return {lease.index: lease.losses for _, leases in plane.sent for lease in leases}


def test_a_beat_of_an_unknown_incarnation_asks_to_register_again(plane: Plane) -> None:
    register(plane, Prong.CPU)
    beat = Heartbeat(incarnation=uuid.uuid4())
    with pytest.raises(NotFound, match="register it again"):
        ask(plane, lambda board, s, now: devices.heartbeat(board, s, "cpu", beat, now))


def test_a_paused_run_gives_out_nothing_until_it_is_resumed(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    wait_until(lambda: work_off(plane))
    feed(plane, run, 0, 0)
    plane.dispatcher.change_state(run, RunState.PAUSED).result(10)
    work_off(plane)
    assert feed(plane, run, 1, 1).state is RunState.PAUSED
    assert plane.sent == []
    plane.dispatcher.change_state(run, RunState.RUNNING).result(10)
    wait_until(lambda: plane.sent)


def test_a_cancelled_run_refuses_its_workers_and_stays_cancelled(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    wait_until(lambda: plane.sent)
    prong, lease = take_sent(plane)[0]
    claim(plane, prong, lease)
    plane.dispatcher.change_state(run, RunState.CANCELLED).result(10)
    assert "is over" in refusal(plane, prong, lease)
    with pytest.raises(NotFound):
        plane.dispatcher.change_state(run, RunState.RUNNING).result(10)
    assert state_of(plane, run) is RunState.CANCELLED


def test_a_database_that_fails_is_reported_and_survived(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    wait_until(lambda: work_off(plane))
    with plane.database.session() as session:
        session.execute(text("alter table batches rename to batches_away"))
    with pytest.raises(Unavailable, match="did not take it"):
        feed(plane, run, 0, 0)
    with plane.database.session() as session:
        session.execute(text("alter table batches_away rename to batches"))
    wait_until(lambda: _works(plane, run))
    assert [b.index for b in feed(plane, run, 0, 0).batches] == [0]


def test_a_database_that_fails_is_told_once_and_asked_less_and_less(
    plane: Plane, images: Path, caplog: pytest.LogCaptureFixture
) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    wait_until(lambda: work_off(plane))
    with plane.database.session() as session:
        session.execute(text("alter table batches rename to batches_away"))
    for _ in range(6):
        with pytest.raises(Unavailable, match="did not take it"):
            feed(plane, run, 0, 0)
    told = [record for record in caplog.records if record.name == "ddlp.server.dispatcher"]
    assert [record.getMessage().partition(":")[0] for record in told] == [
        "what was asked cannot be written to the database"
    ]
    with plane.database.session() as session:
        session.execute(text("alter table batches_away rename to batches"))
    wait_until(lambda: _works(plane, run))


def _works(plane: Plane, run: uuid.UUID) -> bool:
    try:
        feed(plane, run, 0, 0)
    except (Unavailable, NotFound):
        return False
    return True


def test_a_paused_run_whose_last_batch_is_consumed_is_completed(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    deliver(plane, run)
    plane.dispatcher.change_state(run, RunState.PAUSED).result(10)
    feed(plane, run, 7, 7)
    wait_until(lambda: state_of(plane, run) is RunState.COMPLETED)


def test_a_cancel_beside_the_last_acknowledgement_harms_nobody(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    deliver(plane, run)
    last = FeedRequest(rank=0, session=SESSION, epoch=0, received=7, consumed=7, want=0)
    answers = [
        send(plane, run, last),
        plane.dispatcher.change_state(run, RunState.CANCELLED),
    ]
    for answer in answers:
        with suppress(NotFound, Conflict):
            answer.result(10)
    wait_until(lambda: state_of(plane, run) in (RunState.CANCELLED, RunState.COMPLETED))


def test_a_request_that_makes_no_sense_fails_alone(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    stranger = FeedRequest(rank=7, session=SESSION, epoch=0, received=0, consumed=5, want=1)

    def broken(*_: object) -> None:
        raise KeyError("nobody thought of this")

    answers = [send(plane, run, stranger), plane.dispatcher.call(broken)]
    fine = plane.dispatcher.call(lambda board, _, now: len(board.runs))
    with pytest.raises(InvalidInput, match="rank 7"):
        answers[0].result(10)
    with pytest.raises(DdlpError, match="did not expect"):
        answers[1].result(10)
    assert fine.result(10) == 1


def test_two_hosts_cannot_be_one_device(plane: Plane) -> None:
    register(plane, Prong.CPU)
    with pytest.raises(Conflict, match="give this one another --name"):
        register(plane, Prong.CPU, host="elsewhere")
    plane.now += 100
    register(plane, Prong.CPU, host="elsewhere")


def test_a_commit_that_is_repeated_is_counted_once(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    wait_until(lambda: plane.sent)
    prong, lease = take_sent(plane)[0]
    claim(plane, prong, lease)
    for _ in range(3):
        assert commit(plane, prong, lease).denied == []
    plane.now += 5
    wait_until(lambda: images_made(plane, run) > 0)
    assert images_made(plane, run) == 20


def images_made(plane: Plane, run: uuid.UUID) -> int:
    with plane.database.session() as session:
        return runs.info(session, session.get_one(Run, run)).images["cpu"]


def test_a_device_with_another_arithmetic_gets_no_work(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU, engine="fused-0")
    run = new_run(plane, images, strategy="cpu")
    assert "no live device" in (feed(plane, run, 0, 0).waiting_for or "")
    assert plane.sent == []


def test_a_refused_step_back_changes_nothing(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", epochs=2)
    deliver(plane, run)
    feed(plane, run, 7, 7)
    with pytest.raises(Conflict):
        rewind(plane, run, 99)
    feed(plane, run, 0, 0, epoch=1)
    with plane.database.session() as session:
        assert runs.epochs(session, session.get_one(Run, run))[0].state.value == "complete"


def test_only_folders_of_runs_that_ended_are_swept(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    store = plane.settings.home / "cpu"
    mine, foreign = store / f"ddlp-run-{run}", store / f"ddlp-run-{uuid.uuid4()}"
    users = store / str(uuid.uuid4())
    for folder in (mine, foreign, users):
        folder.mkdir(parents=True)
    plane.restart()
    assert mine.exists()
    plane.dispatcher.change_state(run, RunState.CANCELLED).result(10)
    wait_until(lambda: not mine.exists())
    mine.mkdir()
    plane.restart()
    assert not mine.exists()
    assert foreign.exists()
    assert users.exists()


@pytest.mark.parametrize("name", ["fused", "reference"])
def test_any_engine_of_the_same_arithmetic_may_work_and_is_named(
    plane: Plane, images: Path, name: str
) -> None:
    engine = f"{name}-{ENGINE.rpartition('-')[2]}"
    register(plane, Prong.CPU, engine=engine)
    run = new_run(plane, images, strategy="cpu")
    with plane.database.session() as session:
        assert runs.info(session, session.get_one(Run, run)).engine == (
            f"none yet (this server: {ENGINE})"
        )
    deliver(plane, run)
    with plane.database.session() as session:
        assert runs.info(session, session.get_one(Run, run)).engine == engine
    plane.restart()
    register(plane, Prong.CPU, engine=f"another-{ENGINE.rpartition('-')[2]}")
    feed(plane, run, 7, 7)
    with plane.database.session() as session:
        assert runs.info(session, session.get_one(Run, run)).engine == engine


def test_a_lease_says_how_often_its_batch_was_lost(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    new_run(plane, images, strategy="cpu")
    wait_until(lambda: plane.sent)
    prong, lease = take_sent(plane)[0]
    [granted] = claim(plane, prong, lease, process=1).granted
    assert lease.losses == granted.lease.losses == 0
    [again] = claim(plane, prong, lease, process=2, dead=1).granted
    assert again.lease.losses == 1, "the message is the old one, the answer is not"
    assert again.lasts_s > 0
    register(plane, Prong.CPU)
    wait_until(lambda: sent_again(plane).get(lease.index) == 2)
