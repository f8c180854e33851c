"""Drivers are found by name: our own, those of packages, and what is wrong with others."""

from pathlib import Path

import pytest

from ddlp.core.errors import InvalidInput
from ddlp.core.settings import Settings
from ddlp.workers.csd.agent import AgentCsd
from ddlp.workers.csd.emulated import EmulatedCsd
from ddlp.workers.csd.registry import known_drivers, make_driver


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, package: str, entries: str) -> None:
    """A package as pip leaves one behind."""
    about = folder / f"{package}-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
    (about / "entry_points.txt").write_text(f"[ddlp.csd_drivers]\n{entries}\n")
    monkeypatch.syspath_prepend(str(folder))


@pytest.mark.parametrize(("name", "kind"), [("agent", AgentCsd), ("emulated", EmulatedCsd)])
def test_our_own_are_found(name: str, kind: type, tmp_path: Path) -> None:
    assert isinstance(make_driver(Settings(home=tmp_path, csd_driver=name)), kind)


def test_an_unknown_one_lists_the_known(tmp_path: Path) -> None:
    assert known_drivers() == ["agent", "emulated"]
    with pytest.raises(InvalidInput, match="no CSD driver 'nvme'; known drivers: agent, emulated"):
        make_driver(Settings(home=tmp_path, csd_driver="nvme"))


def test_a_package_adds_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "mine", "mine = ddlp.workers.csd.agent:AgentCsd.from_settings")
    assert known_drivers() == ["agent", "emulated", "mine"]
    assert isinstance(make_driver(Settings(home=tmp_path, csd_driver="mine")), AgentCsd)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("nowhere:Driver", "cannot be made by nowhere:Driver: No module named 'nowhere'"),
        ("builtins:len", "cannot be made by builtins:len: "),
        ("builtins:repr", "makes has no store, describe, start, stop, health, energy"),
    ],
)
def test_a_broken_one_is_laid_to_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, said: str
) -> None:
    install(tmp_path, monkeypatch, "broken", f"broken = {value}")
    with pytest.raises(InvalidInput) as caught:
        make_driver(Settings(home=tmp_path, csd_driver="broken"))
    assert "CSD driver 'broken' of broken 1" in str(caught.value)
    assert said in str(caught.value)


def test_a_name_of_ours_cannot_be_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "sly", "agent = builtins:repr")
    with pytest.raises(InvalidInput, match="sly 1 adds a CSD driver 'agent'"):
        make_driver(Settings(home=tmp_path, csd_driver="agent"))


def test_two_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "one", "same = builtins:repr")
    install(tmp_path, monkeypatch, "two", "same = builtins:repr")
    with pytest.raises(InvalidInput, match="more than one CSD driver 'same'"):
        make_driver(Settings(home=tmp_path, csd_driver="same"))


def test_what_a_driver_has_to_say_of_its_settings_is_said_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no CSD profile 'none'"):
        make_driver(Settings(home=tmp_path, csd_profile="none"))
