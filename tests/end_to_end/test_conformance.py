"""`ddlp csd conformance` on the real stack: a good device passes, a wrong one fails where it is."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddlp.core.exit_codes import ExitCode
from tests.cli.test_up import ddlp
from tests.conftest import UpProcess, wait_until
from tests.end_to_end.device_worker import DeviceWorker
from tests.end_to_end.harm import broker_url

CHECKS = ["bytes", "whole or absent", "stale token", "power", "full drive"]
QUOTA = str(8 << 20)
BROKEN = str(Path(__file__).parent / "broken")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("conformance")


@pytest.fixture(scope="module")
def host(folder: Path) -> Iterator[UpProcess]:
    """A stack without a drive."""
    with UpProcess(folder / "home", [folder], cpu_workers="1", csd_devices="0") as running:
        yield running


def alive(host: UpProcess) -> list[str]:
    """The drives that the server counts on."""
    with host.client() as client:
        found = client.get("/devices")
    return [device["name"] for device in found if device["live"] and device["prong"] == "csd"]


def examine(host: UpProcess, folder: Path, name: str) -> tuple[dict[str, tuple[str, str]], int]:
    """What is found of a device, by check, and the command's status."""
    wait_until(lambda: alive(host) == [name], 30)  # one that left is missed after a while
    settings = {"url": host.url, "redis_url": broker_url(host), "wait_timeout_s": "20"}
    options = ("--name", name, "--data", str(folder / "reference"), "--json")
    answer = ddlp("csd", "conformance", *options, **settings)
    assert answer.stdout, answer.stderr
    found = {row["check"]: (row["outcome"], row["found"]) for row in json.loads(answer.stdout)}
    assert list(found) == CHECKS
    return found, answer.returncode


def test_an_emulated_device_conforms(host: UpProcess, folder: Path) -> None:
    with DeviceWorker(host, "good", csd_profile="fast", store_quota_bytes=QUOTA):
        found, status = examine(host, folder, "good")
    assert {outcome for outcome, _ in found.values()} == {"passed"}, found
    assert status == 0
    assert "36 tensors of 12 batches are the same bytes" in found["bytes"][1]
    assert "labelled as emulated" in found["power"][1]
    assert "has used up its quota of 8388608 bytes" in found["full drive"][1]


@pytest.mark.long
def test_what_cannot_be_checked_is_said_and_is_no_pass(host: UpProcess, folder: Path) -> None:
    with DeviceWorker(host, "roomy", csd_profile="fast"):
        found, status = examine(host, folder, "roomy")
    assert found.pop("full drive")[0] == "not checked"
    assert {outcome for outcome, _ in found.values()} == {"passed"}, found
    assert status == 1


@pytest.mark.parametrize(
    ("way", "check", "said"),
    [
        pytest.param(
            "flip_a_byte",
            "bytes",
            "1 of 61440 bytes of images differ from this host's",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "show_halves",
            "whole or absent",
            "visible before it was whole",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "ignore_denials",
            "stale token",
            "worked on a lease that counts no more",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "say_nothing_of_power", "power", "nobody knows what it draws", marks=pytest.mark.long
        ),
    ],
)
def test_a_wrong_device_fails_where_it_is_wrong(
    host: UpProcess, folder: Path, way: str, check: str, said: str
) -> None:
    python_path = os.pathsep.join(filter(None, [BROKEN, os.environ.get("PYTHONPATH")]))
    wrong = {"BROKEN": way, "PYTHONPATH": python_path}
    with DeviceWorker(host, "wrong", variables=wrong, csd_profile="fast"):
        found, status = examine(host, folder, "wrong")
    assert status == 1
    outcome, sentence = found[check]
    assert outcome == "failed", found
    assert said in sentence
    others = {name: found[name][0] for name in CHECKS if name != check}
    assert "failed" not in others.values(), found


@pytest.mark.long
def test_a_device_that_is_not_alone_on_its_prong_is_not_judged(
    host: UpProcess, folder: Path
) -> None:
    with DeviceWorker(host, "one"), DeviceWorker(host, "two"):
        wait_until(lambda: alive(host) == ["one", "two"], 30)
        answer = ddlp("csd", "conformance", "--name", "one", url=host.url)
    assert answer.returncode == ExitCode.REFUSED
    assert "two would do some of the work of prong csd in place of one" in answer.stderr
    gone = ddlp("csd", "conformance", "--name", "three", url=host.url)
    assert gone.returncode == ExitCode.NOT_FOUND
    assert "there is no device three; known devices: " in gone.stderr


@pytest.mark.long
def test_a_folder_that_the_server_may_not_read_is_refused_with_a_remedy(
    host: UpProcess, tmp_path: Path
) -> None:
    with DeviceWorker(host, "far"):
        wait_until(lambda: alive(host) == ["far"], 30)
        options = ("--name", "far", "--data", str(tmp_path / "elsewhere"))
        answer = ddlp("csd", "conformance", *options, url=host.url)
    assert answer.returncode == ExitCode.DENIED
    assert "or name another folder with --data" in answer.stderr
