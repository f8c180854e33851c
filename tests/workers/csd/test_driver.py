"""What a description promises, and the host's CPU behind the same interface."""

import pytest

from ddlp.core.energy import PowerModel
from ddlp.core.errors import InvalidInput
from ddlp.core.settings import Settings
from ddlp.core.types import DeviceKind, Provenance
from ddlp.workers.csd.driver import Description, Pace
from ddlp.workers.csd.host import HostCpu

SIX_WATTS = PowerModel(active_w=6, source="test")


def test_a_device_without_cores_is_refused() -> None:
    with pytest.raises(InvalidInput, match="0 cores"):
        Description(DeviceKind.CSD, "x", 0, SIX_WATTS)


@pytest.mark.parametrize(("slots", "watts"), [(1, 6), (2, 6), (4, 3)])
def test_processes_that_share_a_devices_cores_share_its_watts(slots: int, watts: float) -> None:
    described = Description(DeviceKind.CSD, "x", 2, SIX_WATTS)
    assert described.power_of_a_slot(slots).active_w == watts


def test_a_hosts_processes_are_charged_for_cpu_time_whatever_their_number() -> None:
    assert Description(DeviceKind.HOST, "x", 2, SIX_WATTS).power_of_a_slot(9) == SIX_WATTS


def test_unknown_watts_stay_unknown() -> None:
    unknown = PowerModel(active_w=None, source="nobody")
    assert Description(DeviceKind.CSD, "x", 1, unknown).power_of_a_slot(2) == unknown


def test_the_hosts_cpu_needs_no_care() -> None:
    host = HostCpu(Settings(cpu_workers=3, cpu_active_w=8))
    assert host.describe().kind is DeviceKind.HOST
    assert host.describe().cores == 3
    assert host.start(slots=3) == Pace()
    assert host.health().ok
    host.stop()
    reading = host.energy(busy_s=2, idle_s=9)
    assert (reading.joules, reading.provenance) == (48, Provenance.MODELLED)
