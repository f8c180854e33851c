"""RAPL on trees of files: every part of a host counted once, and nothing made up."""

from pathlib import Path

import pytest

from ddlp.core.meters import rapl
from ddlp.core.types import Domain, Provenance
from tests.core.meters.fake_host import RANGE_UJ, FakeClock, FakePowercap, read_all


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def tree(tmp_path: Path) -> FakePowercap:
    return FakePowercap(tmp_path / "powercap")


def joules(tree: FakePowercap, clock: FakeClock, after: dict[Path, int]) -> dict[str, float | None]:
    """What each meter says after two seconds in which counters came to stand there."""
    meters = rapl.find(tree.root, clock)
    for file, uj in after.items():
        file.write_text(f"{uj}\n")
    clock.now_s += 2
    return {name: now.joules for name, now in read_all(meters).items()}


def test_one_package(tree: FakePowercap, clock: FakeClock) -> None:
    file = tree.zone("intel-rapl:0", "package-0", 5_000_000)
    (meter,) = rapl.find(tree.root, clock)
    assert (meter.name, meter.domain) == ("package-0", Domain.PACKAGE)
    file.write_text("65000000")
    clock.now_s += 2
    now = meter.read()
    assert (now.joules, now.period_s) == (pytest.approx(60), 2)
    assert now.provenance is Provenance.MEASURED
    assert str(file) in now.method


def test_two_packages_with_memory_each(tree: FakePowercap, clock: FakeClock) -> None:
    after = {
        tree.zone("intel-rapl:0", "package-0"): 10_000_000,
        tree.zone("intel-rapl:0:0", "dram"): 1_000_000,
        tree.zone("intel-rapl:1", "package-1"): 20_000_000,
        tree.zone("intel-rapl:1:0", "dram"): 2_000_000,
    }
    assert joules(tree, clock, after) == {
        "package-0": 10,
        "dram-0": 1,
        "package-1": 20,
        "dram-1": 2,
    }


def test_dies_of_a_package_are_told_apart(tree: FakePowercap, clock: FakeClock) -> None:
    after = {
        tree.zone("intel-rapl:0", "package-0-die-0"): 1_000_000,
        tree.zone("intel-rapl:0:0", "dram"): 2_000_000,
        tree.zone("intel-rapl:1", "package-0-die-1"): 3_000_000,
        tree.zone("intel-rapl:1:0", "dram"): 4_000_000,
    }
    assert joules(tree, clock, after) == {
        "package-0-die-0": 1,
        "dram-0-die-0": 2,
        "package-0-die-1": 3,
        "dram-0-die-1": 4,
    }


def test_parts_of_a_package_are_not_counted_again(tree: FakePowercap, clock: FakeClock) -> None:
    after = {
        tree.zone("intel-rapl:0", "package-0"): 10_000_000,
        tree.zone("intel-rapl:0:0", "core"): 7_000_000,
        tree.zone("intel-rapl:0:1", "uncore"): 2_000_000,
    }
    assert joules(tree, clock, after) == {"package-0": 10}


def test_the_platform_is_told_apart_from_packages(tree: FakePowercap, clock: FakeClock) -> None:
    after = {
        tree.zone("intel-rapl:0", "package-0"): 10_000_000,
        tree.zone("intel-rapl:1", "psys"): 40_000_000,
    }
    assert joules(tree, clock, after) == {"package-0": 10, "psys": 40}
    domains = {meter.name: meter.domain for meter in rapl.find(tree.root, clock)}
    assert domains == {"package-0": Domain.PACKAGE, "psys": Domain.PSYS}


def test_two_ways_to_one_counter_are_one_meter(tree: FakePowercap, clock: FakeClock) -> None:
    after = {
        tree.zone("intel-rapl-mmio:0", "package-0"): 10_000_111,
        tree.zone("intel-rapl:0", "package-0"): 10_000_000,
    }
    assert joules(tree, clock, after) == {"package-0": 10}


def test_of_two_ways_the_readable_one_is_taken(tree: FakePowercap, clock: FakeClock) -> None:
    tree.unreadable_zone("intel-rapl:0", "package-0")
    after = {tree.zone("intel-rapl-mmio:0", "package-0"): 3_000_000}
    assert joules(tree, clock, after) == {"package-0": 3}


def test_a_tree_of_nested_zones_is_read_as_well(tmp_path: Path, clock: FakeClock) -> None:
    """As below /sys/devices/virtual/powercap, which containers get mounted."""
    tree = FakePowercap(tmp_path / "powercap")
    after = {
        tree.zone("intel-rapl/intel-rapl:0", "package-0"): 10_000_000,
        tree.zone("intel-rapl/intel-rapl:0/intel-rapl:0:0", "core"): 9_000_000,
        tree.zone("intel-rapl/intel-rapl:0/intel-rapl:0:1", "dram"): 2_000_000,
    }
    assert joules(tree, clock, after) == {"package-0": 10, "dram-0": 2}


def test_links_beside_nested_zones_count_nothing_twice(tmp_path: Path, clock: FakeClock) -> None:
    """As in /sys/class/powercap, where links lie beside each other and lead into the nest."""
    devices = FakePowercap(tmp_path / "devices")
    after = {
        devices.zone("intel-rapl/intel-rapl:0", "package-0"): 10_000_000,
        devices.zone("intel-rapl/intel-rapl:0/intel-rapl:0:0", "dram"): 2_000_000,
    }
    links = tmp_path / "class"
    links.mkdir()
    for inside in (
        "intel-rapl",
        "intel-rapl/intel-rapl:0",
        "intel-rapl/intel-rapl:0/intel-rapl:0:0",
    ):
        (links / Path(inside).name).symlink_to(devices.root / inside)
    tree = FakePowercap(links)
    assert joules(tree, clock, after) == {"package-0": 10, "dram-0": 2}


def test_amd_has_packages_without_memory(tree: FakePowercap, clock: FakeClock) -> None:
    after = {
        tree.zone("intel-rapl:0", "package-0", range_uj=65_532_610_987): 10_000_000,
        tree.zone("intel-rapl:0:0", "core"): 1_000_000,
    }
    assert joules(tree, clock, after) == {"package-0": 10}


def test_a_counter_that_wraps_goes_on(tree: FakePowercap, clock: FakeClock) -> None:
    file = tree.zone("intel-rapl:0", "package-0", RANGE_UJ - 100_000_000)
    assert joules(tree, clock, {file: 50_000_000}) == {"package-0": pytest.approx(150)}


def test_a_counter_that_was_reset_is_no_wrap(tree: FakePowercap, clock: FakeClock) -> None:
    file = tree.zone("intel-rapl:0", "package-0", 9_000_000)
    (meter,) = rapl.find(tree.root, clock)
    for uj in (1_000_000, 5_000_000):
        file.write_text(str(uj))
        clock.now_s += 2
        now = meter.read()
    assert (now.joules, now.period_s) == (pytest.approx(4), 2)
    assert "it was reset 1 times" in now.method


def test_a_file_that_may_not_be_read_comes_with_its_remedy(
    tree: FakePowercap, clock: FakeClock
) -> None:
    file = tree.unreadable_zone("intel-rapl:0", "package-0")
    (meter,) = rapl.find(tree.root, clock)
    now = meter.read()
    assert (now.joules, now.provenance) == (None, Provenance.UNAVAILABLE)
    assert now.period_s == 0
    for word in (str(file), "chmod a+r", "zeusd", "DDLP_ZEUSD_SOCKET"):
        assert word in now.method


def test_a_file_that_goes_and_comes_back_leaves_a_gap(tree: FakePowercap, clock: FakeClock) -> None:
    file = tree.zone("intel-rapl:0", "package-0", 0)
    (meter,) = rapl.find(tree.root, clock)
    clock.now_s += 2
    file.write_text("10000000")
    assert meter.read().joules == 10
    file.unlink()
    clock.now_s += 2
    gone = meter.read()
    assert gone.provenance is Provenance.UNAVAILABLE
    assert f"{file} is not there" in gone.method
    clock.now_s += 2
    file.write_text("500000000")
    meter.read()
    clock.now_s += 2
    file.write_text("503000000")
    back = meter.read()
    assert (back.joules, back.period_s) == (13, 4)
    assert "in 1 gaps it could not be read, and they are not counted" in back.method


@pytest.mark.parametrize("text", ["", "n/a", "-5", "1.5e6", "٣", "\x00"])
def test_garbage_is_unavailable_and_not_0(tree: FakePowercap, clock: FakeClock, text: str) -> None:
    tree.zone("intel-rapl:0", "package-0", text)
    (meter,) = rapl.find(tree.root, clock)
    now = meter.read()
    assert (now.joules, now.provenance) == (None, Provenance.UNAVAILABLE)
    assert "not a number" in now.method


def test_bytes_that_are_no_text_are_unavailable(tree: FakePowercap, clock: FakeClock) -> None:
    tree.zone("intel-rapl:0", "package-0").write_bytes(b"\xff\xfe")
    (meter,) = rapl.find(tree.root, clock)
    assert meter.read().provenance is Provenance.UNAVAILABLE


def test_a_range_that_is_garbage_only_costs_the_wrap(tree: FakePowercap, clock: FakeClock) -> None:
    file = tree.zone("intel-rapl:0", "package-0", 9_000_000)
    (file.parent / "max_energy_range_uj").write_text("?")
    (meter,) = rapl.find(tree.root, clock)
    for uj in (10_000_000, 1_000_000, 3_000_000):
        file.write_text(str(uj))
        clock.now_s += 2
        now = meter.read()
    assert now.joules == pytest.approx(3)


def test_without_powercap_there_is_no_meter(tmp_path: Path) -> None:
    assert rapl.find(tmp_path / "nothing") == []
    (tmp_path / "dtpm").mkdir()
    assert rapl.find(tmp_path) == []


def test_zones_without_a_name_are_left_out(tree: FakePowercap) -> None:
    (tree.zone("intel-rapl:0", "package-0").parent / "name").unlink()
    assert rapl.find(tree.root) == []


def test_top_zones_have_their_names_by_number(tree: FakePowercap) -> None:
    tree.unreadable_zone("intel-rapl:0", "package-0")
    tree.zone("intel-rapl:0:0", "dram")
    tree.zone("intel-rapl:1", "psys")
    tree.zone("intel-rapl-mmio:0", "package-0")
    assert rapl.zone_names(tree.root) == {0: "package-0", 1: "psys"}
