"""The parts of checks that need no device."""

import uuid
from pathlib import Path

import numpy as np
import pytest

from ddlp.cli.conformance.findings import Outcome
from ddlp.cli.conformance.full import side_px
from ddlp.cli.conformance.power import power_finding
from ddlp.cli.conformance.stale import spent, traces
from ddlp.cli.conformance.trainer import differences
from ddlp.cli.conformance.waiting import happens
from ddlp.core.batchfile import layout
from ddlp.core.energy import EnergyReading, PowerModel
from ddlp.core.messages import DeviceInfo, Lease, RoomInfo
from ddlp.core.pipeline import Pipeline, PipelineSpec
from ddlp.core.store import batch_name
from ddlp.core.store.room import check_room
from ddlp.core.types import DeviceKind, Prong, Provenance

DEVICE = DeviceInfo(
    name="drive",
    prong=Prong.CSD,
    kind=DeviceKind.EMULATED_CSD,
    emulated=True,
    slots=1,
    host="here",
    engine="fused-2",
    store="file:///drive",
    serves=None,
    room=RoomInfo(),
    power=PowerModel(active_w=7, source="data sheet"),
    live=True,
    last_seen_at=1.0,
)
UNKNOWN = PowerModel(active_w=None, source="nobody said")
NO_READING = EnergyReading(joules=None, provenance=Provenance.UNAVAILABLE, method="no meter")
READING = EnergyReading(joules=3, provenance=Provenance.MEASURED, method="a counter")


@pytest.mark.parametrize(
    ("changes", "prongs", "outcome", "said"),
    [
        ({}, ["csd"], Outcome.PASSED, "7 W a busy slot (data sheet); no joules reported; labelled"),
        ({"energy": READING}, ["csd"], Outcome.PASSED, "3.0 J measured"),
        ({"power": UNKNOWN, "energy": READING}, ["csd"], Outcome.PASSED, "no watts are declared"),
        ({"power": UNKNOWN}, ["csd"], Outcome.FAILED, "nobody knows what it draws"),
        ({"power": UNKNOWN, "energy": NO_READING}, ["csd"], Outcome.FAILED, "DDLP_CSD_ACTIVE_W"),
        ({}, [], Outcome.FAILED, "a run that it worked for does not say so"),
        ({"emulated": False}, [], Outcome.FAILED, "emulated is False"),
        ({"kind": DeviceKind.CSD, "emulated": False}, [], Outcome.PASSED, "not emulated"),
        ({"power": PowerModel(active_w=7, source="")}, ["csd"], Outcome.FAILED, "where its watts"),
    ],
)
def test_a_device_says_what_it_draws_and_what_it_is(
    changes: dict[str, object], prongs: list[str], outcome: Outcome, said: str
) -> None:
    finding = power_finding(DEVICE.model_copy(update=changes), prongs)
    assert finding.outcome is outcome
    assert said in finding.found


@pytest.mark.parametrize("slots", [1, 4, 16])
@pytest.mark.parametrize("room_bytes", [1 << 20, 8 << 20, 256 << 20])
def test_a_server_takes_runs_that_fill_a_drive(room_bytes: int, slots: int) -> None:
    side = side_px(room_bytes, slots)
    steps = [{"name": "resize", "size": side}, {"name": "centre-crop", "size": side}]
    pipeline = Pipeline.parse(PipelineSpec(transforms=steps))
    _, nbytes = layout(pipeline.batch_tensors(1))
    assert check_room("it", slots, nbytes, room_bytes) is None
    assert 4 * 60 * nbytes > room_bytes, "four runs of sixty samples are more than it holds"


def test_batches_are_compared_bit_by_bit() -> None:
    zeros = {"images": np.zeros((2, 3), np.uint8), "labels": np.zeros(2, np.int64)}
    other = {name: array.copy() for name, array in zeros.items()}
    assert differences(zeros, other) == []
    other["images"][1, 2] = 1
    assert differences(zeros, other) == ["1 of 6 bytes of images differ from this host's"]
    other["labels"] = np.zeros(3, np.int64)
    assert "labels is int64(2,), not int64(3,)" in differences(zeros, other)
    assert differences(zeros, {"images": zeros["images"]}) == [
        "it holds images, labels, not images"
    ]


def test_values_that_are_equal_but_not_the_same_bits_differ() -> None:
    found, other = np.asarray([0.0], np.float32), np.asarray([-0.0], np.float32)
    [said] = differences({"images": found}, {"images": other})
    assert said == "1 of 4 bytes of images differ from this host's"


def test_stale_leases_leave_traces_wherever_they_are_worked_on(tmp_path: Path) -> None:
    first = Lease(run=uuid.uuid4(), epoch=0, index=3, token=5, places=((0, 4),))
    leases = spent(first)
    assert len({lease.token for lease in leases}) == 2
    assert traces(tmp_path, leases) == []
    path = tmp_path / batch_name(first.run, 0, 3, leases[1].token)
    (path.parent / "making").mkdir(parents=True)
    path.touch()
    (path.parent / "making" / "5-abc").touch()
    (path.parent / "making" / "55-abc").touch()
    assert sorted(found.name for found in traces(tmp_path, leases)) == sorted([path.name, "5-abc"])


def test_a_wait_has_an_end() -> None:
    assert happens(lambda: True, 0)
    assert not happens(lambda: False, 0.02, 0.005)
