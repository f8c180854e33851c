"""Watts and joules by device: emulation, what is apart, and the unknown."""

import pytest

from ddlp.core.messages.reports import Joules
from ddlp.core.types import Provenance
from ddlp.web.energy_views import energy_view
from tests.web.examples import device_report


def test_a_device_says_watts_joules_and_how_they_are_known() -> None:
    [row] = energy_view([device_report("csd", "csd0", emulated=True)], 300).rows
    assert (row.device, row.what, row.emulated) == ("csd0", "CSD", True)
    assert (row.watts, row.per_image, row.total) == ("0.5 W", "0.25 J", "25 J")
    assert (row.provenance, row.method) == ("modelled", "x")


def test_what_serves_all_images_is_divided_by_all_that_were_made() -> None:
    [row] = energy_view([device_report("dram", "vm", images=0)], 250).rows
    assert row.per_image == "0.1 J"


def test_idle_power_stands_apart() -> None:
    found = energy_view([device_report("cpu", "cpu-vm"), device_report("idle", "vm")], 100)
    assert [row.what for row in found.rows] == ["CPU workers"]
    assert [row.what for row in found.apart] == ["idle"]


def test_the_unknown_is_a_dash() -> None:
    unknown = Joules(joules=None, provenance=Provenance.UNAVAILABLE, method="nobody says")
    [row] = energy_view([device_report("cpu", "cpu-vm", energy=[unknown])], 100).rows
    assert (row.watts, row.per_image, row.total) == ("—", "—", "—")
    assert row.provenance == "unavailable"


@pytest.mark.parametrize(
    ("joules", "text"),
    [
        (0.0, "0 J"),
        (0.000001234, "1.23 µJ"),
        (0.001234, "1.23 mJ"),
        (9.876, "9.88 J"),
        (12_345.6, "12,346 J"),
    ],
)
def test_joules_have_three_digits_or_no_fraction(joules: float, text: str) -> None:
    known = Joules(joules=joules, provenance=Provenance.MEASURED, method="x", period_s=1.0)
    [row] = energy_view([device_report("cpu", "cpu-vm", energy=[known])], 100).rows
    assert row.total == text


def test_a_column_has_one_unit_and_no_powers_of_ten() -> None:
    def known(joules: float) -> list[Joules]:
        return [Joules(joules=joules, provenance=Provenance.MODELLED, method="x", period_s=2.0)]

    small = device_report("csd", "csd0", energy=known(0.00992))
    large = device_report("cpu", "cpu-vm", energy=known(3456.0))
    found = energy_view([large, small], 100).rows
    assert [row.watts for row in found] == ["1,728 W", "0.005 W"]
    assert [row.per_image for row in found] == ["34.6 J", "< 0.001 J"]
    assert [row.total for row in found] == ["3,456 J", "0.01 J"]
