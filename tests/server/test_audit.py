"""The audit read back: filtered, page by page, and in words."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from ddlp.core.messages.audit import AuditInfo
from ddlp.core.types import Prong, RunState
from ddlp.server import audit, audit_words, ledger
from ddlp.server.audit_words import words
from tests.server.conftest import Plane
from tests.server.driving import new_run, register


def events(plane: Plane, **asked: Any) -> list[AuditInfo]:
    with plane.database.session() as session:
        return audit.page(session, **asked)


def add(plane: Plane, action: str, subject: str, **detail: Any) -> None:
    with plane.database.session() as session:
        ledger.audit(session, action, subject, plane.now, **detail)


def test_what_was_done_to_a_run_is_told_newest_first(either_plane: Plane, images: Path) -> None:
    plane = either_plane
    register(plane, Prong.CPU, slots=2)
    run = new_run(plane, images, name="r50", strategy="cpu")
    plane.dispatcher.change_state(run, RunState.PAUSED).result(10)
    told = [event.words for event in events(plane, subject="r50", action="run")]
    assert told[0].startswith("paused (was ")
    assert told[-1] == (
        "made from dataset fruit with pipeline imagenet-train: 1 epoch, batches of 20, strategy cpu"
    )
    [device] = events(plane, subject="cpu")
    assert (device.action, device.words) == ("device.register", "registered as host: 2 slots")
    assert device.actor == "local"


def test_events_are_read_page_by_page(plane: Plane) -> None:
    for number in range(5):
        add(plane, "run.goes_on", f"r{number}")
    first = events(plane, limit=2)
    second = events(plane, limit=2, before=first[-1].id)
    last = events(plane, limit=2, before=second[-1].id)
    assert [e.subject for e in (*first, *second, *last)] == ["r4", "r3", "r2", "r1", "r0"]


def test_an_action_is_asked_for_exactly_or_by_its_group(plane: Plane) -> None:
    for action in ("run.paused", "run.paused_again", "runner.up", "dataset.add"):
        add(plane, action, "x")
    assert [e.action for e in events(plane, action="run.paused")] == ["run.paused"]
    assert [e.action for e in events(plane, action="run")] == ["run.paused_again", "run.paused"]
    assert events(plane, action="r%") == []
    assert events(plane, action="run", subject="y") == []


@pytest.mark.parametrize(
    ("action", "detail", "said"),
    [
        ("run.running", {"was": "created", "reason": None}, "began"),
        ("run.running", {"was": "paused", "reason": None}, "resumed (was paused)"),
        ("run.failed", {"was": "running", "reason": "no room"}, "failed (was running): no room"),
        ("run.strategy", {"strategy": "mte", "reorder_window": None}, "switched to mte"),
        (
            "run.strategy",
            {"strategy": "bounded", "reorder_window": 1},
            "switched to bounded, 1 batch out of order",
        ),
        (
            "run.limits",
            {
                "old": {"cpu_window": None, "cpu_store_bytes": 10**9, "csd_store_bytes": None},
                "new": {"cpu_window": 8, "cpu_store_bytes": 2 * 10**9, "csd_store_bytes": None},
            },
            "limits changed: CPU window as set for the server → 8 batches, "
            "CPU store 1.0 GB → 2.0 GB",
        ),
        ("run.retry", {"of": "r50"}, "made to try r50 again"),
        ("dataset.ready", {"samples": 1, "rejected": 2}, "ready: 1 sample, 2 files left out"),
        (
            "dataset.packed",
            {"records": 1200, "kept": 3, "skipped": 0, "bytes": 5_000_000},
            "packed: 1,200 records of 5.0 MB, 3 kept as they were, 0 skipped",
        ),
        ("magic.happened", {"how": "well", "why": None}, "magic.happened how=well"),
        ("run.replay", {}, "run.replay"),
    ],
)
def test_events_are_told_in_words(action: str, detail: dict[str, Any], said: str) -> None:
    assert words(action, detail) == said


def test_every_action_that_the_server_notes_has_words() -> None:
    source = Path(inspect.getfile(ledger)).parent
    noted = {
        action
        for path in source.rglob("*.py")
        for action in re.findall(r'audit\(\s*\w+,\s*"([\w.]+)"', path.read_text())
    }
    assert "run.create" in noted
    assert noted <= audit_words.ACTIONS


def test_epochs_count_from_0_as_they_do_everywhere() -> None:
    detail = {"of": "r50", "position": 3, "epoch": 0, "own": 0}
    assert words("run.took_over", detail) == "goes on from run r50 after 3 batches of epoch 0"
