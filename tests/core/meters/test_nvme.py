"""The table of power states of a drive, as bytes and as watts."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddlp.core.errors import InvalidInput
from ddlp.core.meters import nvme
from ddlp.core.meters.nvme import IDENTIFY_BYTES, NvmePower, PowerState, parse_identify
from ddlp.core.types import Provenance


def descriptor(
    most: int, flags: int = 0, idle: tuple[int, int] = (0, 0), active: tuple[int, int] = (0, 0)
) -> bytes:
    """32 bytes by their places in the specification; places that mean nothing here are ones."""
    made = bytearray(b"\xff" * 32)
    struct.pack_into("<H", made, 0, most)
    made[3] = flags
    struct.pack_into("<H", made, 16, idle[0])
    made[18] = idle[1] << 6
    struct.pack_into("<H", made, 20, active[0])
    made[22] = active[1] << 6 | 0b010  # the workload that it is typical of
    return bytes(made)


def identify(*states: bytes) -> bytes:
    made = bytearray(b"\xff" * IDENTIFY_BYTES)
    made[263] = len(states) - 1
    made[2048 : 2048 + 32 * len(states)] = b"".join(states)
    return bytes(made)


DRIVE = identify(
    descriptor(2500, idle=(500, 2), active=(1800, 2)),
    descriptor(1200),
    descriptor(9000, flags=0b11, idle=(250, 1)),
)


def test_each_figure_has_its_own_scale() -> None:
    assert parse_identify(DRIVE) == [
        PowerState(0, max_w=25.0, idle_w=5.0, active_w=18.0, operational=True),
        PowerState(1, max_w=12.0, idle_w=None, active_w=None, operational=True),
        PowerState(2, max_w=0.9, idle_w=0.025, active_w=None, operational=False),
    ]


def test_a_scale_of_0_or_a_reserved_one_means_not_reported() -> None:
    (state,) = parse_identify(identify(descriptor(100, idle=(7, 0), active=(7, 3))))
    assert (state.idle_w, state.active_w) == (None, None)


def test_all_32_states_are_read() -> None:
    states = parse_identify(identify(*(descriptor(100 + number) for number in range(32))))
    assert [state.max_w for state in states] == [
        pytest.approx(1 + number / 100) for number in range(32)
    ]


@pytest.mark.parametrize("data", [b"", bytes(4095), b"\xff" * IDENTIFY_BYTES])
def test_what_is_no_table_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        parse_identify(data)


@given(st.binary(min_size=2048, max_size=2048), st.integers(0, 31), st.integers(0, 31))
def test_no_bytes_give_watts_that_cannot_be(table: bytes, last: int, present: int) -> None:
    data = bytearray(IDENTIFY_BYTES)
    data[263] = last
    data[2048:] = table
    power = NvmePower.of_table(parse_identify(bytes(data)), present, "drive")
    for watts in (power.active_w, power.idle_w):
        assert watts is None or 0 < watts <= 65_535 * 0.01
    assert power.energy(3, 4).period_s == 7


def of(data: bytes, present: int) -> NvmePower:
    return NvmePower.of_controller(Path("/dev/nvme9"), lambda _: (data, present))


def test_busy_and_idle_time_have_their_own_watts() -> None:
    reading = of(DRIVE, 0).energy(busy_s=10, idle_s=100)
    assert (reading.joules, reading.provenance) == (10 * 18 + 100 * 5, Provenance.MODELLED)
    assert reading.period_s == 110
    for word in ("10.0 s busy × 18 W", "100.0 s idle × 5 W", "/dev/nvme9", "typically"):
        assert word in reading.method


def test_where_a_typical_figure_is_missing_the_highest_is_used_and_said() -> None:
    reading = of(DRIVE, 1).energy(busy_s=10, idle_s=100)
    assert reading.joules == 120
    assert "state 1 at most 12 W" in reading.method
    assert "its idle time is not counted" in reading.method


def test_a_drive_that_sleeps_works_in_its_first_operational_state() -> None:
    power = of(DRIVE, 2)
    assert (power.active_w, power.idle_w) == (18.0, 0.025)
    asleep = identify(descriptor(2500, active=(1800, 2)), descriptor(3, flags=0b10))
    assert of(asleep, 1).idle_w == 0.03


def test_a_table_without_watts_is_unavailable() -> None:
    reading = of(identify(descriptor(0)), 0).energy(1, 1)
    assert (reading.joules, reading.provenance) == (None, Provenance.UNAVAILABLE)
    assert "no watts for state 0" in reading.method


def test_a_drive_that_cannot_be_asked_is_unavailable_with_its_remedy(tmp_path: Path) -> None:
    for controller in (tmp_path / "nvme0", Path("/dev/null")):
        reading = NvmePower.of_controller(controller).energy(1, 1)
        assert (reading.joules, reading.provenance) == (None, Provenance.UNAVAILABLE)
        assert f"{controller} cannot be asked" in reading.method
        assert "run as root" in reading.method


def test_the_kernel_is_asked_for_the_table_and_the_present_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for the kernel: it reads the command's fields by their places in nvme_ioctl.h."""
    asked: list[tuple[int, int, int]] = []

    def ioctl(device: int, request: int, command: bytearray) -> int:
        assert request == 3 << 30 | len(command) << 16 | ord("N") << 8 | 0x41
        length, dword10 = struct.unpack_from("=II", command, 36)
        asked.append((command[0], dword10, length))
        if command[0] == 0x0A:
            struct.pack_into("=I", command, 68, 0xFFFFFFE1)
        return 0

    monkeypatch.setattr(nvme.fcntl, "ioctl", ioctl)
    device = tmp_path / "nvme0"
    device.touch()
    data, state = nvme.ask_controller(device)
    assert asked == [(0x06, 1, 4096), (0x0A, 2, 0)]
    assert (len(data), state) == (4096, 1)


def test_a_status_that_the_drive_returns_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvme.fcntl, "ioctl", lambda *_: 0x4002)
    (tmp_path / "nvme0").touch()
    assert "status 0x4002" in NvmePower.of_controller(tmp_path / "nvme0").words
