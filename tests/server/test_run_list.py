"""Lists of runs: filters, search, order, and pages that show each run exactly once."""

import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session

from ddlp.core.errors import InvalidInput
from ddlp.core.messages.run_list import RunListQuery, RunSort
from ddlp.core.types import Prong, RunState
from ddlp.server import run_list, runs
from ddlp.server.models import Epoch, Run
from tests.server.conftest import Plane
from tests.server.driving import new_run, register

OVER = (RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED)


def row(name: str, **changes: Any) -> Run:
    values: dict[str, Any] = {
        "name": name,
        "dataset": "fruit",
        "dataset_version": "d" * 64,
        "pipeline": "small",
        "pipeline_hash": "e" * 64,
        "transforms": [],
        "engine": "fused-2",
        "samples": 100,
        "batch_size": 10,
        "epochs": 1,
        "seed": 0,
        "strategy": "wrr",
        "world_size": 1,
        "on_bad": "fail",
        "max_bad_share": 0.01,
        "state": "created",
        "created_at": 1000.0,
    }
    return Run(**values | changes)


def some_runs(seed: int, count: int = 60) -> list[Run]:
    """Runs with many equal times, states and names that differ in case only."""
    dice = random.Random(seed)
    found = []
    for number in range(count):
        state = dice.choice(list(RunState))
        created_at = float(dice.randrange(8))
        ended_at = created_at + dice.choice((0.1, 1 / 3, 2.5)) if state in OVER else None
        found.append(
            row(
                f"{dice.choice('aAbBzZ')}-{number // 2}{'x' * (number % 2)}",
                state=state.value,
                created_at=created_at,
                started_at=dice.choice((None, created_at + 0.05)),
                ended_at=ended_at,
                dataset=dice.choice(("fruit", "Fruit-2", "100%_real")),
                strategy=dice.choice(("wrr", "mte")),
            )
        )
    return found


def all_pages(session: Session, asked: RunListQuery) -> list[list[str]]:
    """Every page from the first to the last; going back shows the very same ones."""
    pages, cursor = [], None
    while True:
        found = run_list.page(session, asked.model_copy(update={"cursor": cursor}))
        pages.append([run.name for run in found.rows])
        if found.next is None:
            break
        cursor = found.next
    back = []
    while found.previous is not None:
        found = run_list.page(session, asked.model_copy(update={"cursor": found.previous}))
        back.append([run.name for run in found.rows])
    assert back == pages[-2::-1]
    return pages


def test_pages_show_each_run_exactly_once_in_any_order(either_plane: Plane) -> None:
    with either_plane.database.session() as session:
        session.add_all(some_runs(seed=6))
        session.flush()
        names = {run.name for run in some_runs(seed=6)}
        for sort, ascending, limit in product(RunSort, (False, True), (1, 7, 60)):
            asked = RunListQuery(sort=sort, ascending=ascending, limit=limit)
            seen = [name for page in all_pages(session, asked) for name in page]
            assert len(seen) == len(names)
            assert set(seen) == names
            whole = run_list.page(session, asked.model_copy(update={"limit": 200})).rows
            assert seen == [run.name for run in whole]


def test_filters_give_what_a_look_at_all_runs_gives(either_plane: Plane) -> None:
    everything = some_runs(seed=7)
    filters: list[tuple[dict[str, Any], Any]] = [
        ({"state": [RunState.FAILED]}, lambda run: run.state == "failed"),
        (
            {"state": [RunState.FAILED, RunState.RUNNING], "strategy": "mte"},
            lambda run: run.state in ("failed", "running") and run.strategy == "mte",
        ),
        ({"dataset": "fruit"}, lambda run: run.dataset == "fruit"),
        ({"pipeline": "none"}, lambda _: False),
        ({"after": 3.0, "before": 5.0}, lambda run: 3 <= run.created_at < 5),
        (
            {"search": "FRUIT"},
            lambda run: "fruit" in run.dataset.lower() or "fruit" in run.name.lower(),
        ),
        ({"search": "%_R"}, lambda run: run.dataset == "100%_real"),
        ({"search": "a-1"}, lambda run: "a-1" in run.name.lower()),
    ]
    expected = [{run.name for run in everything if matches(run)} for _, matches in filters]
    with either_plane.database.session() as session:
        session.add_all(everything)
        session.flush()
        for (fields, _), names in zip(filters, expected, strict=True):
            pages = all_pages(session, RunListQuery(**fields, limit=5))
            assert sorted(name for page in pages for name in page) == sorted(names), fields


def test_a_run_made_meanwhile_moves_nothing_to_another_page(either_plane: Plane) -> None:
    with either_plane.database.session() as session:
        session.add_all(row(f"r{n}", created_at=float(n)) for n in range(6))
        session.flush()
        first = run_list.page(session, RunListQuery(limit=3))
        session.add(row("new", created_at=99.0))
        session.flush()
        second = run_list.page(session, RunListQuery(limit=3, cursor=first.next))
        assert [run.name for run in second.rows] == ["r2", "r1", "r0"]
        back = run_list.page(session, RunListQuery(limit=3, cursor=second.previous))
        assert [run.name for run in back.rows] == ["r5", "r4", "r3"]
        assert back.previous is not None


def test_runs_that_are_not_over_count_as_the_longest_and_the_last_to_end(plane: Plane) -> None:
    with plane.database.session() as session:
        session.add(row("short", started_at=5.0, ended_at=6.0, state="completed"))
        session.add(row("long", started_at=1.0, ended_at=5.5, state="completed"))
        session.add(row("young", started_at=9.0, state="running"))
        session.add(row("old", started_at=8.0, state="running"))
        session.flush()

        def order(sort: RunSort) -> list[str]:
            return [run.name for run in run_list.page(session, RunListQuery(sort=sort)).rows]

        assert order(RunSort.DURATION) == ["old", "young", "long", "short"]
        assert order(RunSort.ENDED)[2:] == ["short", "long"]


def test_states_are_counted_without_the_filter_by_state(either_plane: Plane) -> None:
    with either_plane.database.session() as session:
        session.add(row("a", state="running"))
        session.add(row("b", state="running", dataset="other"))
        session.add(row("c", state="failed"))
        session.flush()
        asked = RunListQuery(state=[RunState.FAILED], dataset="fruit")
        assert run_list.counts(session, asked) == {RunState.RUNNING: 1, RunState.FAILED: 1}
        assert run_list.choices(session).datasets == ["fruit", "other"]


def test_batches_of_all_epochs_are_added_up(either_plane: Plane) -> None:
    with either_plane.database.session() as session:
        run = row("a")
        session.add(run)
        session.flush()
        for number in range(2):
            session.add(
                Epoch(
                    run_id=run.id,
                    number=number,
                    state="open",
                    batches=10,
                    head=0,
                    tail=10,
                    segments=[] if number else [{"position": 1}],
                    dealt_head=0,
                    dealt_tail=0,
                    acknowledged=[],
                    settled={},
                    made_cpu=4,
                    made_csd=2,
                    consumed=5,
                    consumed_csd=2,
                    started_at=1.0,
                )
            )
        session.flush()
        assert run_list.delivered(session, [run.id]) == {run.id: run_list.Delivered(5, 4, 1)}


@pytest.mark.parametrize("cursor", ["x", "bm90aGluZw", "W10", "%%%"])
def test_a_cursor_that_leads_nowhere_is_refused(plane: Plane, cursor: str) -> None:
    with (
        plane.database.session() as session,
        pytest.raises(InvalidInput, match="begin without one"),
    ):
        run_list.page(session, RunListQuery(cursor=cursor))


def test_a_cursor_of_another_order_is_refused(plane: Plane) -> None:
    with plane.database.session() as session:
        session.add_all([row("a"), row("b")])
        session.flush()
        cursor = run_list.page(session, RunListQuery(limit=1)).next
        with pytest.raises(InvalidInput, match="sorted by created, descending"):
            run_list.page(session, RunListQuery(limit=1, cursor=cursor, sort=RunSort.NAME))


@pytest.mark.parametrize(
    ("strategy", "state", "marked"),
    [("wrr", None, ["csd"]), ("cpu", None, []), ("wrr", RunState.CANCELLED, [])],
)
def test_what_an_emulated_drive_will_make_is_marked_before_it_is_there(
    plane: Plane, images: Path, strategy: str, state: RunState | None, marked: list[str]
) -> None:
    register(plane, Prong.CPU)
    register(plane, Prong.CSD)
    run = new_run(plane, images, strategy=strategy)
    if state is not None:
        plane.dispatcher.change_state(run, state).result(10)
    with plane.database.session() as session:
        assert runs.info(session, session.get_one(Run, run)).emulated == marked
