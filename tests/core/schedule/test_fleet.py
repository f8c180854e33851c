"""The pace of devices: what it takes to move it, and how the figures of a prong add up."""

import pytest

from ddlp.core.schedule import Pace
from ddlp.core.schedule.fleet import Fleet
from ddlp.core.types import Prong


def fleet(**devices: tuple[Prong, int]) -> Fleet:
    """Devices that serve a run of batches of ten samples."""
    made = Fleet(batch_size=10)
    made.set_devices(devices)
    return made


def follow(*seconds: float) -> Pace:
    pace = Pace()
    for each_s in seconds:
        pace.add(each_s, 1)
    return pace


def test_the_first_batches_are_averaged() -> None:
    assert follow(2.0).sample_s == pytest.approx(2.0)
    assert follow(2.0, 8.0).sample_s == pytest.approx(4.0)
    assert follow(1.0, 8.0, 1.0).sample_s == pytest.approx(2.0)


def test_one_batch_that_took_long_moves_the_pace_no_further_than_one_that_took_short() -> None:
    usual = [1.0] * 20
    up, down = follow(*usual, 100.0).sample_s, follow(*usual, 0.01).sample_s
    assert up * down == pytest.approx(1.0)
    assert up == pytest.approx(100**0.25)


def test_a_device_that_recovers_is_believed_after_a_few_batches() -> None:
    slow = follow(*[10.0] * 50)
    for _ in range(10):
        slow.add(1.0, 1)
    assert slow.sample_s < 1.2


@pytest.mark.parametrize(("seconds", "samples"), [(0.0, 5), (0.0, 0), (1e-12, 1)])
def test_a_batch_that_took_no_time_has_a_pace_above_zero(seconds: float, samples: int) -> None:
    pace = Pace()
    pace.add(seconds, samples)
    assert 0 < pace.sample_s < 1e-6


def test_a_short_batch_says_as_much_of_the_pace_as_a_full_one() -> None:
    devices = fleet(a=(Prong.CPU, 1))
    devices.learn("a", 5.0, 10)
    devices.learn("a", 1.0, 2)
    assert devices.device_s("a") == pytest.approx(5.0)


def test_rates_of_slots_and_devices_add_up() -> None:
    devices = fleet(a=(Prong.CPU, 4), b=(Prong.CPU, 1), c=(Prong.CSD, 2))
    for name, seconds in (("a", 2.0), ("b", 1.0), ("c", 4.0)):
        devices.learn(name, seconds, 10)
    assert devices.slots(Prong.CPU) == 5
    assert devices.per_s(Prong.CPU) == pytest.approx(4 / 2 + 1 / 1)
    assert devices.batch_s(Prong.CPU) == pytest.approx(5 / 3)
    assert devices.rates() == pytest.approx({Prong.CPU: 3.0, Prong.CSD: 0.5})


def test_what_is_not_known_is_not_made_up() -> None:
    devices = fleet(a=(Prong.CPU, 1))
    assert devices.rates() == {Prong.CPU: None, Prong.CSD: None}
    assert devices.device_s("a") is None
    assert devices.device_s("stranger") is None
    assert devices.device_s(None) is None


def test_a_new_device_is_expected_to_be_like_the_others_of_its_prong() -> None:
    devices = fleet(a=(Prong.CPU, 1), b=(Prong.CPU, 3))
    devices.learn("a", 2.0, 10)
    assert devices.device_s("b") == pytest.approx(2.0)
    assert devices.per_s(Prong.CPU) == pytest.approx(2.0)


def test_a_device_that_is_gone_counts_no_more_and_is_remembered() -> None:
    devices = fleet(a=(Prong.CPU, 1), b=(Prong.CPU, 1))
    devices.learn("a", 1.0, 10)
    devices.learn("b", 4.0, 10)
    devices.set_devices({"b": (Prong.CPU, 1)})
    assert devices.batch_s(Prong.CPU) == pytest.approx(4.0)
    devices.set_devices({})
    assert devices.alive(Prong) == set()
    devices.set_devices({"a": (Prong.CPU, 2)})
    assert devices.per_s(Prong.CPU) == pytest.approx(2.0)
    assert devices.alive(Prong) == {Prong.CPU}


def test_while_a_batch_takes_longer_than_the_pace_says_its_own_time_counts() -> None:
    devices = fleet(a=(Prong.CSD, 1))
    devices.learn("a", 1.0, 10)
    devices.note_waiting({"a": [0.5]})
    assert devices.batch_s(Prong.CSD) == pytest.approx(1.0)
    devices.note_waiting({"a": [30.0]})
    assert devices.batch_s(Prong.CSD) == pytest.approx(30.0)
    devices.note_waiting({})
    assert devices.batch_s(Prong.CSD) == pytest.approx(1.0)


def test_one_slot_that_is_late_does_not_slow_the_others_down() -> None:
    devices = fleet(a=(Prong.CPU, 4))
    devices.learn("a", 1.0, 10)
    devices.note_waiting({"a": [100.0, 0.5, 0.2]})
    assert devices.per_s(Prong.CPU) == pytest.approx(3 + 1 / 100)


def test_a_prong_is_calibrated_when_each_of_its_devices_is() -> None:
    devices = fleet(a=(Prong.CPU, 1), b=(Prong.CPU, 1))
    for _ in range(3):
        devices.learn("a", 1.0, 10)
    assert not devices.calibrated(Prong.CPU, 3)
    for _ in range(3):
        devices.learn("b", 1.0, 10)
    assert devices.calibrated(Prong.CPU, 3)
    assert not devices.calibrated(Prong.CPU, 4)
    assert not devices.calibrated(Prong.CSD, 0), "a prong without a device is not"


def test_what_was_learned_in_an_earlier_run_is_used_until_more_is_known() -> None:
    devices = fleet(a=(Prong.CPU, 1), b=(Prong.CPU, 1))
    devices.learn("b", 1.0, 10)
    for name in ("a", "b", "later"):
        devices.recall(name, Prong.CPU, Pace(10, 0.5))
    assert devices.device_s("a") == pytest.approx(5.0)
    assert devices.device_s("b") == pytest.approx(1.0)
    assert devices.slots(Prong.CPU) == 2, "it does not serve because it is remembered"


def test_a_stranger_teaches_nothing() -> None:
    devices = fleet(a=(Prong.CPU, 1))
    devices.learn("stranger", 100.0, 10)
    assert devices.rates() == {Prong.CPU: None, Prong.CSD: None}
