"""Profiles are found, checked, and say where each of their figures comes from."""

from pathlib import Path

import pytest

from ddlp.core.errors import InvalidInput
from ddlp.core.settings import Settings
from ddlp.workers.csd.profile import FOLDER, chosen_profile, find_profile, known_profiles


@pytest.mark.parametrize("name", known_profiles())
def test_every_profile_is_whole_and_called_as_its_file(name: str) -> None:
    profile = find_profile(name)
    assert profile.name == name
    figures = (profile.cores, profile.speed, profile.active_w, profile.idle_w)
    assert all(len(figure.source) > 10 for figure in (*figures, profile.link_bytes_per_s))
    assert profile.active_w.value >= profile.idle_w.value
    assert profile.power_source.startswith(f"profile {name}: ")


def test_the_default_is_what_an_emulated_device_always_was() -> None:
    profile = find_profile("default")
    assert (profile.cores.value, profile.speed.value, profile.active_w.value) == (1, 0.3, 7.0)
    assert profile.in_words().startswith("1 core at 0.3 of a host core, 7 W busy")


def test_four_slow_cores_count_together() -> None:
    profile = find_profile("arm-quad")
    assert profile.host_cores == pytest.approx(0.8)
    assert profile.in_words().startswith("4 cores at 0.2 of a host core")


def test_the_figure_from_a_paper_is_labelled_as_our_own_derivation() -> None:
    speed = find_profile("paper-ratio").speed
    assert speed.value == 0.235
    assert "our own derivation" in speed.source


def test_a_profile_can_lie_anywhere(tmp_path: Path) -> None:
    text = (FOLDER / "default.toml").read_text().replace('"default"', '"mine"')
    (tmp_path / "mine.toml").write_text(text)
    assert find_profile(str(tmp_path / "mine.toml")).name == "mine"


def test_an_unknown_name_lists_the_known_ones() -> None:
    known = ", ".join(known_profiles())
    with pytest.raises(InvalidInput, match=f"no CSD profile 'quick'; known profiles: {known}"):
        find_profile("quick")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"none.toml cannot be read \(No such file.*default"):
        find_profile(str(tmp_path / "none.toml"))


@pytest.mark.parametrize(
    ("change", "to", "said"),
    [
        ("value = 0.3", "value = 3", "speed.value: Input should be less than or equal to 1"),
        ("value = 0.3", "value = nan", "speed.value"),
        ("value = 1\n", "value = 0\n", "cores.value"),
        ("value = 7.0", "value = -7.0", "active_w.value"),
        ("value = 2e9", "value = 0", "link_bytes_per_s.value"),
        ('source = "assumed: a drive that waits"', "", "idle_w.source: Field required"),
        ("[idle_w]", "[idle_watts]", "idle_w: Field required"),
        ('name = "default"', 'name = "A B"', "name: String should match"),
        ('name = "default"', "name = default", "is not TOML"),
    ],
)
def test_a_wrong_profile_is_one_line_that_says_where(
    tmp_path: Path, change: str, to: str, said: str
) -> None:
    text = (FOLDER / "default.toml").read_text()
    assert change in text
    path = tmp_path / "wrong.toml"
    path.write_text(text.replace(change, to))
    with pytest.raises(InvalidInput) as caught:
        find_profile(str(path))
    assert str(path) in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_text_is_no_toml(tmp_path: Path) -> None:
    (tmp_path / "raw.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="is not TOML"):
        find_profile(str(tmp_path / "raw.toml"))


def test_settings_win_over_the_profile_and_are_named_as_the_source() -> None:
    profile = chosen_profile(Settings(csd_profile="arm-quad", csd_speed=0.5, csd_active_w=12))
    assert (profile.cores.value, profile.speed.value, profile.active_w.value) == (4, 0.5, 12)
    assert profile.speed.source == "DDLP_CSD_SPEED"
    assert "DDLP_CSD_ACTIVE_W" in profile.power_source
