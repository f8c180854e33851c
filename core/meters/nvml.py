"""NVML: joules of NVIDIA GPUs, through `nvidia-ml-py` (`pip install 'ddlp[energy]'`).

Volta and later count millijoules by themselves. Of earlier ones the power is sampled and added up.
"""

import importlib
import logging
import time
from typing import Any

from ddlp.core.energy import EnergyReading
from ddlp.core.meters.base import Clock, Meter, reading, unavailable
from ddlp.core.meters.tally import CounterTally, PowerTally
from ddlp.core.types import Domain

_MILLI = 1e-3

log = logging.getLogger(__name__)


class GpuMeter:
    """One GPU: its counter, or samples of its power where it has none."""

    domain = Domain.GPU

    def __init__(self, nvml: Any, index: int, clock: Clock = time.monotonic) -> None:
        self.name = f"gpu-{index}"
        self._nvml = nvml
        self._index = index
        self._clock = clock
        self._counted = CounterTally(_MILLI)
        self._sampled = PowerTally()
        self._counts = True
        self.read()

    def read(self) -> EnergyReading:
        """Joules since it was made; a GPU that is lost is unavailable until it comes back."""
        try:
            return self._read()
        except self._nvml.NVMLError as error:
            self._tally.lose()
            reason = f"NVML cannot read {self.name}: {error}; nvidia-smi shows whether it is lost"
            return unavailable(reason, self._tally.covered_s)

    @property
    def _tally(self) -> CounterTally | PowerTally:
        return self._counted if self._counts else self._sampled

    def _read(self) -> EnergyReading:
        handle = self._nvml.nvmlDeviceGetHandleByIndex(self._index)
        if self._counts:
            try:
                value_mj = self._nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
            except self._nvml.NVMLError_NotSupported:
                self._counts = False
            else:
                self._counted.take(self._clock(), int(value_mj))
                return self._answer("NVML: the GPU's counter of millijoules")
        power_mw = self._nvml.nvmlDeviceGetPowerUsage(handle)
        self._sampled.take(self._clock(), int(power_mw) * _MILLI)
        return self._answer("NVML: samples of the GPU's milliwatts, added up over time")

    def _answer(self, method: str) -> EnergyReading:
        return reading(self._tally.joules, method + self._tally.mishaps, self._tally.covered_s)


def load() -> Any | None:
    """The module, or None where it is not installed."""
    try:
        return importlib.import_module("pynvml")
    except ImportError:
        return None


def find(nvml: Any | None, clock: Clock = time.monotonic) -> list[Meter]:
    """A meter for each GPU of the host; none without the module or the driver."""
    if nvml is None:
        return []
    try:
        nvml.nvmlInit()
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        log.debug("no GPU is metered: %s", error)
        return []
    return [GpuMeter(nvml, index, clock) for index in range(count)]
