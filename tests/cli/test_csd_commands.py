"""The commands for devices: profiles with their sources, and errors that name what is known."""

import json
from pathlib import Path

from ddlp.workers.csd import find_profile, known_profiles
from tests.cli.test_up import ddlp


def test_profiles_are_listed_and_their_sources_told() -> None:
    rows = ddlp("csd", "profiles").stdout.splitlines()[1:]
    assert [row.split()[0] for row in rows] == known_profiles()
    told = json.loads(ddlp("csd", "profiles", "--json").stdout)
    assert told == [find_profile(name).model_dump() for name in known_profiles()]
    assert all(profile["speed"]["source"] for profile in told)


def test_a_worker_with_an_unknown_profile_or_driver_says_what_there_is() -> None:
    options = ("worker", "--prong", "csd")
    profile = ddlp(*options, "--profile", "quick", redis_url="redis://127.0.0.1:1/0")
    assert profile.returncode == 2
    known = ", ".join(known_profiles())
    assert f"no CSD profile 'quick'; known profiles: {known}" in profile.stderr
    driver = ddlp(*options, "--driver", "nvme", redis_url="redis://127.0.0.1:1/0")
    assert driver.returncode == 2
    assert "no CSD driver 'nvme'; known drivers: agent, emulated" in driver.stderr
    assert driver.stderr.count("\n") == 1


def test_a_wrong_profile_is_said_before_anything_is_started(tmp_path: Path) -> None:
    answer = ddlp(
        "up", "--home", str(tmp_path / "home"), "--port", "0", "--csd", "1", csd_profile="quick"
    )
    assert answer.returncode == 2
    assert "no CSD profile 'quick'" in answer.stderr
    assert not (tmp_path / "home").exists()


def test_a_profile_is_not_for_the_cpu() -> None:
    answer = ddlp("worker", "--prong", "cpu", "--profile", "fast")
    assert answer.returncode == 2
    assert "--driver and --profile are for --prong csd, not cpu" in answer.stderr
