"""One throughput for run, report and comparison: of time in which a trainer asked."""

import uuid
from pathlib import Path

import pytest

from ddlp.core.messages import Attach, FeedRequest, RunInfo
from ddlp.core.types import Prong, RunState
from ddlp.server import comparisons, figures, run_list, runs, sessions, snapshot
from ddlp.server.models import Run
from tests.server.conftest import Plane
from tests.server.driving import SESSION, ask, new_run, pass_time, register, send, settle, work_off


def step(plane: Plane, run: uuid.UUID, number: int, epoch: int = 0, want: int = 1) -> int:
    """Ask for the batch of a step, having consumed those before; how many came."""
    request = FeedRequest(
        rank=0, session=SESSION, epoch=epoch, received=number, consumed=number, want=want
    )
    return len(send(plane, run, request).result(10).batches)


def take(plane: Plane, run: uuid.UUID, first: int, last: int, epoch: int = 0) -> None:
    """Take steps of an epoch, each made when it is asked for, in 2 seconds."""
    for number in range(first, last):
        for _ in range(20):
            if step(plane, run, number, epoch):
                break
            pass_time(plane, 2)
            work_off(plane)
        else:
            raise AssertionError(f"step {number} does not come")


def end(plane: Plane, run: uuid.UUID, steps: int, epoch: int = 0) -> None:
    """All that came was consumed, and the pass is over."""
    step(plane, run, steps, epoch, want=0)
    settle(plane)


def prepare(plane: Plane) -> None:
    """Make all that is given out, until nothing more is."""
    for _ in range(20):
        settle(plane)
        work_off(plane)


def info_of(plane: Plane, run: uuid.UUID) -> RunInfo:
    settle(plane)
    with plane.database.session() as session:
        return runs.info(session, session.get_one(Run, run))


def live_of(plane: Plane, run: uuid.UUID) -> float | None:
    """What the page and the list say of now; the same."""
    page = ask(plane, lambda board, _, now: snapshot.take(board, run, now))
    listed = ask(plane, lambda board, _, now: run_list.live_rates(board, now))
    assert listed[run].images_per_s == page.delivered_images_per_s
    found: float | None = page.delivered_images_per_s
    return found


def test_what_was_made_before_the_trainer_came_is_no_throughput(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    prepare(plane)
    pass_time(plane, 60)
    for number in range(7):
        assert step(plane, run, number) == 1, "it was made long ago"
        pass_time(plane, 0.5)
    assert live_of(plane, run) is None
    end(plane, run, 7)
    info = info_of(plane, run)
    assert info.state is RunState.COMPLETED
    assert sum(info.images.values()) == info.delivered == 123
    assert (info.delivered_images_per_s, info.measured_s) == (None, 0)
    assert info.images_per_s == {"cpu": None, "csd": None}


def test_run_report_comparison_and_its_parts_say_the_same(plane: Plane, images: Path) -> None:
    for prong in Prong:
        register(plane, prong)
    found = []
    for name in ("a", "b"):
        found.append(new_run(plane, images, name=name))
        take(plane, found[-1], 0, 7)
        pass_time(plane, 1)
        end(plane, found[-1], 7)
    run, other = found
    info = info_of(plane, run)
    rate = info.delivered_images_per_s
    assert rate
    parts = [part for part in info.images_per_s.values() if part is not None]
    assert len(parts) == 2
    assert sum(parts) == pytest.approx(rate)
    with plane.database.session() as session:
        report = runs.report(session, session.get_one(Run, run))
        compared = comparisons.compare_runs(session, ["a", "b"])
    assert report.whole.images_per_s == rate
    assert report.epochs[0].images_per_s == rate
    assert report.whole.measured_s == report.epochs[0].measured_s == info.measured_s
    rates = [rate, info_of(plane, other).delivered_images_per_s or 0]
    [group] = compared.groups
    assert group.figures["images_per_s"].mean == pytest.approx(sum(rates) / 2)


def test_pauses_and_time_between_passes_are_left_out(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", epochs=2, cpu_window=1)
    started = plane.now
    take(plane, run, 0, 3)
    plane.dispatcher.change_state(run, RunState.PAUSED).result(10)
    pass_time(plane, 100)
    plane.dispatcher.change_state(run, RunState.RUNNING).result(10)
    take(plane, run, 3, 7)
    pass_time(plane, 1)
    end(plane, run, 7)
    in_passes = plane.now - started - 100
    pass_time(plane, 300)
    began = plane.now
    take(plane, run, 0, 7, epoch=1)
    pass_time(plane, 1)
    end(plane, run, 7, epoch=1)
    in_passes += plane.now - began
    info = info_of(plane, run)
    assert 0.7 * in_passes <= info.measured_s <= in_passes
    assert info.delivered == 246
    assert info.delivered_images_per_s == pytest.approx(246 / in_passes, rel=0.2)


def test_a_trainer_that_gets_nothing_is_told_to_get_none_and_one_that_left_nothing(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", cpu_window=1)
    assert live_of(plane, run) is None, "nobody asks"
    take(plane, run, 0, 5)
    assert live_of(plane, run)
    for _ in range(100):
        step(plane, run, 5)
        pass_time(plane, 1)
        if live_of(plane, run) == 0.0:
            break
    assert live_of(plane, run) == 0.0, "it asks in vain"
    end(plane, run, 5)
    assert live_of(plane, run) is None


def test_a_run_that_left_half_is_incomplete_and_says_how_much(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu", epochs=2)
    take(plane, run, 0, 3)
    end(plane, run, 3)
    take(plane, run, 0, 7, epoch=1)
    end(plane, run, 7, epoch=1)
    info = info_of(plane, run)
    assert info.state is RunState.INCOMPLETE
    assert info.samples_left == 123 - 3 * 20
    assert info.reason == (
        "1 of 2 epochs were delivered to their end; 63 samples of the others were left"
    )
    with plane.database.session() as session:
        assert runs.report(session, session.get_one(Run, run)).samples_left == 63


def test_a_run_that_is_not_incomplete_leaves_nothing(plane: Plane, images: Path) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images, strategy="cpu")
    take(plane, run, 0, 7)
    assert info_of(plane, run).samples_left is None
    end(plane, run, 7)
    info = info_of(plane, run)
    assert (info.state, info.samples_left) == (RunState.COMPLETED, None)


# What advice is fitted to


def test_where_trainers_train_is_known_after_a_restart_too(plane: Plane, images: Path) -> None:
    run = new_run(plane, images, world_size=2)
    for rank, device in enumerate(("cpu", "cuda:1")):
        body = Attach(rank=rank, world_size=2, device=device)
        ask(
            plane,
            lambda board, session, now, body=body: sessions.attach(
                board, session, board.run(run), body, now
            ),
        )
    for _ in range(2):
        settle(plane)
        with plane.database.session() as session:
            row = session.get_one(Run, run)
            totals = figures.totals(session, [run])[run]
            assert runs.circumstances(row, totals).devices == {"cpu", "cuda:1"}
        held = ask(plane, lambda board, *_: board.run(run).sessions)
        assert [session.device for session in held.values()] == ["cpu", "cuda:1"]
        plane.restart()
