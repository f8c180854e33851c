"""Forecasts from known paces: the sums can be done by hand, and what is unknown stays so."""

import pytest

from ddlp.core.energy import PowerModel
from ddlp.core.outlook import KnownDevice, Outlook, outlook_prongs
from ddlp.core.types import Prong, Provenance

BOTH = (Prong.CPU, Prong.CSD)


def device(
    name: str,
    prong: Prong,
    slots: int = 1,
    sample_s: float | None = None,
    active_w: float | None = 10.0,
) -> KnownDevice:
    power = PowerModel(active_w=active_w, source="test")
    return KnownDevice(name, prong, slots, power, sample_s=sample_s, known_from="here")


def outlook(*devices: KnownDevice, prongs: tuple[Prong, ...] = BOTH, **fields: float) -> Outlook:
    return Outlook(
        batches=100,
        images=1000,
        epochs=3,
        prongs=outlook_prongs(devices, prongs),
        trainer_per_s=fields.get("trainer_per_s"),
    )


CPU = device("cpu", Prong.CPU, slots=4, sample_s=0.04)  # 100 images/s, 40 W
CSD = device("csd", Prong.CSD, slots=2, sample_s=0.08, active_w=5)  # 25 images/s, 10 W


def test_rates_add_up_and_the_ends_meet_where_both_are_done_at_once() -> None:
    found = outlook(CPU, CSD)
    assert [prong.images_per_s for prong in found.prongs] == pytest.approx([100, 25])
    assert found.made_per_s == pytest.approx(125)
    assert found.meeting_point == 80
    assert [found.images_of(prong) for prong in found.prongs] == [800, 200]
    assert (found.epoch_s, found.run_s) == pytest.approx((8, 24))


def test_joules_are_watts_of_busy_slots_by_what_each_prong_makes() -> None:
    found = outlook(CPU, CSD)
    assert [prong.joules_per_image for prong in found.prongs] == pytest.approx([0.4, 0.4])
    assert found.joules == pytest.approx((40 + 10) * 24)
    assert found.prongs[0].provenance is Provenance.MODELLED


def test_a_strategy_of_one_prong_uses_that_one_alone() -> None:
    found = outlook(CPU, CSD, prongs=(Prong.CSD,))
    assert found.images_per_s == pytest.approx(25)
    assert found.meeting_point is None
    assert found.joules_per_image == pytest.approx(0.4)


def test_a_device_without_a_pace_is_taken_to_be_like_the_others_of_its_prong() -> None:
    found = outlook(CPU, device("new", Prong.CPU, slots=4), prongs=(Prong.CPU,))
    assert found.images_per_s == pytest.approx(200)


def test_a_prong_of_which_nothing_is_known_leaves_the_whole_unknown() -> None:
    found = outlook(CPU, device("csd", Prong.CSD))
    assert found.prongs[0].images_per_s == pytest.approx(100)
    assert found.prongs[1].images_per_s is None
    assert found.made_per_s is None
    assert (found.epoch_s, found.run_s, found.meeting_point, found.joules) == (None,) * 4
    assert found.prongs[1].method == "no pace is known yet"


def test_without_a_live_device_of_one_prong_the_other_makes_everything() -> None:
    found = outlook(CPU)
    assert found.images_per_s == pytest.approx(100)
    assert found.meeting_point is None
    assert found.joules_per_image == pytest.approx(0.4)
    assert outlook().made_per_s is None


def test_unknown_watts_stay_unknown_and_are_named() -> None:
    found = outlook(CPU, device("quiet", Prong.CSD, sample_s=0.04, active_w=None))
    assert found.images_per_s == pytest.approx(125)
    assert found.joules is None
    assert found.prongs[1].provenance is Provenance.UNAVAILABLE
    assert "quiet" in found.prongs[1].method


def test_watts_that_are_declared_to_be_none_are_known() -> None:
    assert outlook(device("free", Prong.CPU, sample_s=0.1, active_w=0)).joules == 0


def test_a_slower_trainer_decides_how_long_it_takes_but_not_where_the_ends_meet() -> None:
    found = outlook(CPU, CSD, trainer_per_s=50)
    assert found.limited_by_trainer
    assert found.images_per_s == 50
    assert found.epoch_s == pytest.approx(20)
    assert found.meeting_point == 80
    assert not outlook(CPU, CSD, trainer_per_s=500).limited_by_trainer
    assert outlook(CPU, CSD, trainer_per_s=500).images_per_s == pytest.approx(125)
