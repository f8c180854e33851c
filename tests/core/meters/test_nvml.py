"""GPUs through a stand-in for NVML: counters, powers, and GPUs that are lost."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from ddlp.core.meters import nvml
from ddlp.core.types import Domain, Provenance
from tests.core.meters.fake_host import FakeClock, read_all


class NvmlError(Exception):
    pass


class NotSupported(NvmlError):
    pass


class FakeNvml:
    """As much of `pynvml` as is used; a GPU is a dict, or an error that it raises."""

    NVMLError = NvmlError
    NVMLError_NotSupported = NotSupported

    def __init__(self, *gpus: dict[str, int], init: Callable[[], None] = lambda: None) -> None:
        self.gpus = list(gpus)
        self.lost: set[int] = set()
        self.nvmlInit = init

    def __getattr__(self, name: str) -> Callable[[Any], int]:
        kind = {
            "nvmlDeviceGetTotalEnergyConsumption": "energy_mj",
            "nvmlDeviceGetPowerUsage": "power_mw",
        }[name]

        def ask(index: int) -> int:
            if kind not in self.gpus[index]:
                raise NotSupported("Not Supported")
            return self.gpus[index][kind]

        return ask

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        if index in self.lost:
            raise NvmlError("GPU is lost")
        return index


def test_a_counter_is_read_from_where_it_stood() -> None:
    clock, fake = FakeClock(), FakeNvml({"energy_mj": 7_000}, {"energy_mj": 1_000})
    meters = nvml.find(fake, clock)
    assert [(meter.name, meter.domain) for meter in meters] == [
        ("gpu-0", Domain.GPU),
        ("gpu-1", Domain.GPU),
    ]
    fake.gpus = [{"energy_mj": 607_000}, {"energy_mj": 2_000}]
    clock.now_s += 2
    now = read_all(meters)
    assert now["gpu-0"].joules == pytest.approx(600)
    assert now["gpu-1"].joules == pytest.approx(1)
    assert now["gpu-0"].provenance is Provenance.MEASURED
    assert now["gpu-0"].period_s == 2
    assert "counter of millijoules" in now["gpu-0"].method


def test_without_a_counter_powers_are_added_up() -> None:
    clock, fake = FakeClock(), FakeNvml({"power_mw": 100_000})
    (meter,) = nvml.find(fake, clock)
    clock.now_s += 2
    fake.gpus = [{"power_mw": 200_000}]
    now = meter.read()
    assert (now.joules, now.period_s) == (pytest.approx(300), 2)
    assert "samples of the GPU's milliwatts" in now.method


def test_a_lost_gpu_is_unavailable_and_others_go_on() -> None:
    clock, fake = FakeClock(), FakeNvml({"energy_mj": 0}, {"energy_mj": 0})
    meters = nvml.find(fake, clock)
    fake.lost = {0}
    fake.gpus = [{"energy_mj": 5_000}, {"energy_mj": 5_000}]
    clock.now_s += 2
    now = read_all(meters)
    assert (now["gpu-0"].joules, now["gpu-0"].provenance) == (None, Provenance.UNAVAILABLE)
    assert "GPU is lost" in now["gpu-0"].method
    assert now["gpu-1"].joules == pytest.approx(5)


def test_a_gpu_that_comes_back_goes_on_from_there() -> None:
    clock, fake = FakeClock(), FakeNvml({"energy_mj": 0})
    (meter,) = nvml.find(fake, clock)
    fake.lost = {0}
    clock.now_s += 2
    meter.read()
    fake.lost = set()
    for energy_mj in (90_000, 93_000):
        fake.gpus = [{"energy_mj": energy_mj}]
        clock.now_s += 2
        now = meter.read()
    assert (now.joules, now.period_s) == (pytest.approx(3), 2)
    assert "in 1 gaps" in now.method


def test_a_gpu_that_says_neither_is_unavailable() -> None:
    (meter,) = nvml.find(FakeNvml({}), FakeClock())
    assert meter.read().provenance is Provenance.UNAVAILABLE


def test_without_driver_there_is_no_gpu() -> None:
    def fail() -> None:
        raise NvmlError("Driver Not Loaded")

    assert nvml.find(FakeNvml({"energy_mj": 1}, init=fail)) == []


def test_without_module_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvml.load() is None
    assert nvml.find(nvml.load()) == []


def test_the_module_is_the_one_of_nvidia(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = ModuleType("pynvml")
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    assert nvml.load() is fake
