"""Modelled joules: declared watts times what the kernel counted."""

import os
from pathlib import Path

import pytest

from ddlp.core.meters.model import ModelledMemory, ModelledPackage
from ddlp.core.settings import Settings
from ddlp.core.types import Domain, Provenance
from tests.core.meters.fake_host import FakeClock, FakeProc

SETTINGS = Settings(cpu_active_w=10, cpu_idle_w=2, dram_w_per_gb=0.5)


@pytest.fixture(autouse=True)
def _hundredths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sysconf", lambda _: 100)


def test_a_busy_core_adds_to_what_all_cores_draw_at_all_times(tmp_path: Path) -> None:
    clock, proc = FakeClock(), FakeProc(tmp_path, cores=4)
    meter = ModelledPackage(tmp_path, SETTINGS, "no RAPL", clock)
    clock.now_s += 10
    assert meter.read().joules == 10 * 4 * 2
    proc.busy(1500)
    clock.now_s += 10
    now = meter.read()
    assert now.joules == 20 * 4 * 2 + 15 * 10
    assert (meter.domain, now.provenance, now.period_s) == (
        Domain.PACKAGE,
        Provenance.MODELLED,
        20,
    )
    for word in ("15.0 busy", "DDLP_CPU_ACTIVE_W", "DDLP_CPU_IDLE_W", "not measured: no RAPL"):
        assert word in now.method


def test_without_proc_not_even_a_model_knows(tmp_path: Path) -> None:
    now = ModelledPackage(tmp_path, SETTINGS, "no RAPL").read()
    assert (now.joules, now.provenance) == (None, Provenance.UNAVAILABLE)
    assert str(tmp_path / "stat") in now.method
    now = ModelledMemory(tmp_path, SETTINGS, "no RAPL").read()
    assert (now.joules, now.provenance) == (None, Provenance.UNAVAILABLE)
    assert str(tmp_path / "meminfo") in now.method


def test_memory_in_use_is_added_up_over_time(tmp_path: Path) -> None:
    clock, proc = FakeClock(), FakeProc(tmp_path)
    proc.used(10_000_000_000 // 1024)
    meter = ModelledMemory(tmp_path, SETTINGS, "no RAPL", clock)
    clock.now_s += 4
    assert meter.read().joules == pytest.approx(4 * 10 * 0.5)
    proc.used(30_000_000_000 // 1024)
    clock.now_s += 2
    now = meter.read()
    assert now.joules == pytest.approx(4 * 5 + 2 * 10)
    assert (meter.domain, now.provenance, now.period_s) == (Domain.DRAM, Provenance.MODELLED, 6)
    assert "DDLP_DRAM_W_PER_GB" in now.method
    assert "now 30.0 GB" in now.method
