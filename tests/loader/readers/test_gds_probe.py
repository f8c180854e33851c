"""Every cause for which drives are not read straight into a device is found, and explained."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ddlp.loader.readers import gds_probe
from ddlp.loader.readers.gds_probe import (
    Cause,
    CudaDriver,
    Driver,
    Refusal,
    device_refusal,
    file_refusal,
    size_refusal,
    uses_p2p,
)
from tests.loader.readers import stub_driver


@dataclass(frozen=True)
class Machine:
    """A machine on which everything works, but for what a test says."""

    problem: str | None = None
    devices: int = 1
    kvikio_problem: str | None = None
    asked: str | None = None
    compat: bool = False
    udev: bool = True
    kernel_path: bool = True
    least: int = 1000

    def start(self) -> str | None:
        return self.problem

    def device_count(self) -> int:
        return self.devices

    def import_kvikio(self) -> str | None:
        return self.kvikio_problem

    def asks_for_compat(self) -> str | None:
        return self.asked

    def prefers_compat(self) -> bool:
        return self.compat

    def sees_udev(self) -> bool:
        return self.udev

    def has_kernel_path(self) -> bool:
        return self.kernel_path

    def least_bytes(self) -> int:
        return self.least


def test_a_machine_on_which_all_is_well_is_not_refused() -> None:
    assert device_refusal("cuda:0", Machine()) is None


@pytest.mark.parametrize(
    ("machine", "cause", "words"),
    [
        (Machine(problem="libcuda.so.1: no file"), Cause.NO_DRIVER, "no file.*install it"),
        (Machine(devices=0), Cause.NO_DEVICE, "nvidia-smi"),
        (Machine(kvikio_problem="No module"), Cause.NO_KVIKIO, r"No module.*ddlp\[gds\]"),
        (Machine(asked="KVIKIO_COMPAT_MODE"), Cause.COMPAT_MODE, "KVIKIO_COMPAT_MODE.*unset"),
        (Machine(udev=False), Cause.UDEV_HIDDEN, "--volume /run/udev:/run/udev:ro"),
        (Machine(kernel_path=False), Cause.NO_KERNEL_PATH, "modprobe nvidia-fs.*use_pci_p2pdma"),
        (Machine(compat=True), Cause.COMPAT_MODE, "nvidia-cufile"),
    ],
    ids=lambda value: str(value) if isinstance(value, Cause) else "",
)
def test_each_cause_is_told_with_its_remedy(machine: Driver, cause: Cause, words: str) -> None:
    refusal = device_refusal("cuda", machine)
    assert refusal is not None
    assert refusal.cause is cause
    assert re.search(words, refusal)


@pytest.mark.parametrize("device", ["cpu", "meta", "mps"])
def test_other_devices_are_refused_without_looking_for_a_driver(device: str) -> None:
    class Untouched(Machine):
        def start(self) -> str | None:
            raise AssertionError

    refusal = device_refusal(device, Untouched())
    assert refusal is not None
    assert refusal.cause is Cause.NOT_CUDA
    assert device in refusal


@pytest.mark.parametrize("broken", [{"problem": "it is not there"}, {"devices": 0}])
def test_kvikio_is_not_imported_before_a_driver_with_a_device_is_known(
    broken: dict[str, Any],
) -> None:
    class Untouched(Machine):
        def import_kvikio(self) -> str | None:
            raise AssertionError

    assert device_refusal("cuda", Untouched(**broken)) is not None


def test_kvikio_is_asked_nothing_before_it_can_be_imported() -> None:
    class Untouched(Machine):
        def asks_for_compat(self) -> str | None:
            raise AssertionError

    assert device_refusal("cuda", Untouched(kvikio_problem="there is none")) is not None


def test_a_refusal_is_a_sentence_that_knows_its_cause() -> None:
    refusal = Refusal(Cause.TOO_SMALL, "it is small")
    assert refusal == "it is small"
    assert f"no: {refusal}" == "no: it is small"
    assert refusal.cause is Cause.TOO_SMALL


def test_a_file_that_takes_no_direct_reads_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "batch"
    path.write_bytes(bytes(8192))
    monkeypatch.setattr(gds_probe, "direct_read_refusal", lambda path: "it takes no O_DIRECT")
    refusal = file_refusal(path)
    assert refusal is not None
    assert refusal.cause is Cause.NO_DIRECT
    assert "ext4" in refusal


def test_a_file_that_is_gone_is_not_a_matter_of_the_path(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        file_refusal(tmp_path / "gone")


def test_sizes_are_named_in_a_refusal() -> None:
    assert size_refusal(16384, 16384) is None
    assert re.search("100 bytes.*16384.*KVIKIO_GDS_THRESHOLD", str(size_refusal(100, 16384)))


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ('{"properties": {"use_pci_p2pdma": true}}', True),
        ('{\n  // by default\n  "use_pci_p2pdma" : true, // for NVMe\n}', True),
        ('{\n  // "use_pci_p2pdma": true\n}', False),
        ('{"properties": {"use_pci_p2pdma": false}}', False),
        ("", False),
    ],
)
def test_transfers_between_pci_devices_are_found_in_cufiles_settings(
    tmp_path: Path, text: str, uses: bool
) -> None:
    config = tmp_path / "cufile.json"
    config.write_text(text)
    assert uses_p2p(config) is uses


def test_settings_that_are_not_there_say_nothing(tmp_path: Path) -> None:
    assert not uses_p2p(tmp_path / "cufile.json")


QUESTIONS = """
import json, sys
from ddlp.loader.readers.gds_probe import CudaDriver, device_refusal
driver = CudaDriver()
answers = {"start": driver.start(), "devices": driver.device_count()}
refusal = device_refusal("cuda:0")
answers |= {"cause": refusal and refusal.cause, "imported": "kvikio" in sys.modules}
if answers["imported"]:
    answers |= {"asked": driver.asks_for_compat(), "compat": driver.prefers_compat()}
    answers |= {"least": driver.least_bytes()}
print(json.dumps(answers))
"""


def asked(folder: Path, **settings: str) -> dict[str, Any]:
    """What the real probe finds on the stub, in a process of its own."""
    ran = subprocess.run(
        [sys.executable, "-c", QUESTIONS],
        env=stub_driver.environment(stub_driver.library(folder), **settings),
        capture_output=True,
        text=True,
        check=True,
    )
    answers: dict[str, Any] = json.loads(ran.stdout)
    return answers


def test_a_driver_that_does_not_start_is_found_out(tmp_path: Path) -> None:
    answers = asked(tmp_path, STUB_START="999")
    assert "999" in answers["start"]
    assert (answers["cause"], answers["imported"]) == (Cause.NO_DRIVER, False)


@pytest.mark.parametrize("settings", [{"STUB_DEVICES": "0"}, {"STUB_START": "100"}])
def test_a_driver_without_devices_is_found_out(tmp_path: Path, settings: dict[str, str]) -> None:
    answers = asked(tmp_path, **{"STUB_DEVICES": "0", **settings})
    assert (answers["start"], answers["devices"]) == (None, 0)
    assert (answers["cause"], answers["imported"]) == (Cause.NO_DEVICE, False)


def test_compat_mode_that_somebody_asked_for_is_found_out(tmp_path: Path) -> None:
    answers = asked(tmp_path, KVIKIO_COMPAT_MODE="ON", KVIKIO_GDS_THRESHOLD="65536")
    assert (answers["start"], answers["devices"], answers["imported"]) == (None, 1, True)
    assert (answers["asked"], answers["compat"]) == ("KVIKIO_COMPAT_MODE", True)
    assert answers["cause"] == Cause.COMPAT_MODE
    assert answers["least"] == 65536


def test_what_else_is_missing_on_this_machine_is_found_out(tmp_path: Path) -> None:
    """It depends on the machine; only the order of the questions does not."""
    answers = asked(tmp_path)
    driver = CudaDriver()
    expected = Cause.NO_KERNEL_PATH if driver.sees_udev() else Cause.UDEV_HIDDEN
    if driver.sees_udev() and driver.has_kernel_path():
        pytest.skip("this machine can do what the test wants to be missing")
    assert answers["cause"] == expected
    assert answers["asked"] is None


@pytest.mark.parametrize("variable", ["CUFILE_USE_PCIP2PDMA", "CUFILE_FORCE_COMPAT_MODE"])
def test_cufiles_variables_count_when_they_are_true(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    monkeypatch.setattr(gds_probe, "_NVIDIA_FS", (tmp_path / "nvidia-fs",))
    monkeypatch.setenv("CUFILE_ENV_PATH_JSON", str(tmp_path / "none.json"))
    for value, counts in (("1", True), ("true", True), ("0", False), ("", False)):
        monkeypatch.setenv(variable, value)
        if variable == "CUFILE_USE_PCIP2PDMA":
            assert CudaDriver().has_kernel_path() is counts
        else:
            pytest.importorskip("kvikio")
            found = CudaDriver().asks_for_compat()
            assert (found == "CUFILE_FORCE_COMPAT_MODE") is counts


def test_nvidias_module_is_found_where_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gds_probe, "_NVIDIA_FS", (tmp_path / "nvidia-fs",))
    monkeypatch.setenv("CUFILE_ENV_PATH_JSON", str(tmp_path / "none.json"))
    assert not CudaDriver().has_kernel_path()
    (tmp_path / "nvidia-fs").mkdir()
    assert CudaDriver().has_kernel_path()
