"""What /proc says, and what is said where it does not."""

import os
from pathlib import Path

import pytest

from ddlp.core.meters.proc import BusyTime, processors, used_bytes
from tests.core.meters.fake_host import FakeProc


@pytest.fixture(autouse=True)
def _hundredths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sysconf", lambda _: 100)


def test_busy_is_what_is_neither_idle_nor_stolen_nor_a_guest_again(tmp_path: Path) -> None:
    columns = "1 20 300 4000 50000 600000 7000000 80000000 1 20"
    (tmp_path / "stat").write_text(f"cpu  {columns}\ncpu0 {columns}\ncpu1 {columns}\nctxt 1\n")
    found = processors(tmp_path)
    assert found is not None
    assert found.busy_s == (1 + 20 + 300 + 600000 + 7000000) / 100
    assert found.cores == 2


def test_memory_in_use_is_what_is_not_available(tmp_path: Path) -> None:
    FakeProc(tmp_path).used(3)
    assert used_bytes(tmp_path) == 3072


@pytest.mark.parametrize("text", ["", "cpu", "cpu  a b c", "cpu  1 2", "MemTotal: 1 kB\n", ": x"])
def test_what_cannot_be_understood_is_not_known(tmp_path: Path, text: str) -> None:
    assert processors(tmp_path) is None
    assert used_bytes(tmp_path) is None
    for name in ("stat", "meminfo"):
        (tmp_path / name).write_text(text)
    assert processors(tmp_path) is None
    assert used_bytes(tmp_path) is None


def test_busy_time_counts_from_its_beginning_and_never_shrinks(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path, cores=3)
    proc.busy(5000)
    busy = BusyTime(tmp_path)
    seen = []
    for ticks in (5000, 5300, 5290, 5390):
        proc.busy(ticks)
        assert busy.look()
        seen.append(busy.busy_s)
    assert seen == [0, 3, 3, 4]
    assert busy.cores == 3
    (tmp_path / "stat").unlink()
    assert not busy.look()
    assert busy.busy_s == 4


def test_this_host_has_processors_and_memory_in_use() -> None:
    found = processors(Path("/proc"))
    assert found is not None
    assert found.busy_s > 0
    assert used_bytes(Path("/proc"))
