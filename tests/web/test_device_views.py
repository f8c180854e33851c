"""What the pages say of devices, meters and events."""

from typing import Any

import pytest

from ddlp.core.energy import PowerModel
from ddlp.core.messages import DeviceInfo, RoomInfo
from ddlp.core.messages.reports import HostMeterInfo
from ddlp.core.messages.work import WattsInfo
from ddlp.core.types import DeviceHealth, DeviceKind, Prong, Provenance
from ddlp.web.device_views import DeviceView, Room, device_view, meter_view


def view(**fields: Any) -> DeviceView:
    usual: dict[str, Any] = {
        "name": "csd0",
        "prong": Prong.CSD,
        "kind": DeviceKind.EMULATED_CSD,
        "emulated": True,
        "slots": 2,
        "host": "here",
        "engine": "fused-2",
        "store": "file:///drive",
        "serves": None,
        "room": RoomInfo(),
        "power": PowerModel(active_w=None, source="nobody"),
        "live": True,
        "last_seen_at": 5.0,
    }
    return device_view(DeviceInfo(**{**usual, **fields}))


def test_what_is_not_known_is_no_number() -> None:
    found = view()
    assert (found.rate, found.made, found.watts, found.busy) == ("—", "—", "—", "")
    assert found.provenance is None
    assert found.room == Room("—", None)
    assert found.emulated


@pytest.mark.parametrize(
    ("many", "words"),
    [
        (None, ""),
        (0, ""),
        (1, "1 unsigned message dropped"),
        (1200, "1,200 unsigned messages dropped"),
    ],
)
def test_messages_that_nobody_signed_are_worth_a_word(many: int | None, words: str) -> None:
    found = view(dropped_messages=many)
    assert found.dropped == words


def test_figures_have_units_and_say_how_they_are_known() -> None:
    draws = WattsInfo(watts=7.25, provenance=Provenance.MEASURED, method="its counter")
    found = view(images_per_s=1234.4, images_made=9000, busy=0.456, draws=draws)
    assert (found.rate, found.made, found.busy) == ("1,234", "9,000", "46 % busy")
    assert (found.watts, found.provenance, found.method) == ("7.2 W", "measured", "its counter")


@pytest.mark.parametrize(
    ("room", "expected"),
    [
        (RoomInfo(used_bytes=25, free_bytes=75), Room("75 bytes free of 100 bytes", 25)),
        (RoomInfo(used_bytes=2_000_000), Room("2.0 MB used", None)),
        (RoomInfo(free_bytes=3_000), Room("3.0 kB free", None)),
        (RoomInfo(used_bytes=0, free_bytes=0), Room("0 bytes free of 0 bytes", None)),
    ],
)
def test_the_room_of_a_store_is_a_share_only_where_both_parts_are_known(
    room: RoomInfo, expected: Room
) -> None:
    assert view(room=room).room == expected


@pytest.mark.parametrize(
    ("ahead_s", "said"),
    [
        (None, ""),
        (0.4, ""),
        (-1.9, ""),
        (960.0, "Its clock is 16 min 0 s ahead."),
        (-7200.0, "Its clock is 2 h 0 min behind."),
    ],
)
def test_a_clock_that_is_off_is_told(ahead_s: float | None, said: str) -> None:
    assert view(clock_ahead_s=ahead_s).clock == said


def test_what_can_be_done_follows_from_its_health() -> None:
    [drain] = view().actions
    assert (drain.label, drain.send) == ("Drain", "POST /api/v1/devices/csd0/drain")
    assert drain.question is not None
    assert "finishes what it holds" in drain.question
    [resume] = view(drained_at=4.0, health=DeviceHealth.DRAINED).actions
    assert (resume.label, resume.question) == ("Resume", None)
    [remove] = view(live=False, health=DeviceHealth.SILENT).actions
    assert (remove.label, remove.send, remove.danger) == (
        "Remove",
        "DELETE /api/v1/devices/csd0",
        True,
    )


def test_a_meter_tells_its_average_and_one_that_knows_nothing_has_no_figure() -> None:
    fields = {
        "host": "here",
        "name": "package-0",
        "domain": "package",
        "joules": 500.0,
        "idle_j": 300.0,
        "runs_j": 150.0,
        "other_j": 50.0,
        "provenance": Provenance.MEASURED,
        "method": "RAPL",
        "period_s": 20.0,
        "updated_at": 5.0,
    }
    found = meter_view(HostMeterInfo(**fields))
    assert (found.watts, found.joules, found.runs) == ("25.0 W", "500 J", "150 J")
    nothing = {**fields, "joules": 0.0, "provenance": Provenance.UNAVAILABLE}
    found = meter_view(HostMeterInfo(**nothing))
    assert (found.watts, found.joules, found.runs, found.idle) == ("—", "—", "—", "—")
