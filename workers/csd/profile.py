"""Profiles: what an emulated device is like, as data with the source of every figure.

A profile is a TOML file. Those in `profiles/` are found by name, others by their path.
"""

import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ddlp.core.errors import InvalidInput
from ddlp.core.settings import Settings

FOLDER = Path(__file__).parent / "profiles"


class _Figure(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    source: str = Field(min_length=1, max_length=300)


class Cores(_Figure):
    """How many cores the device has."""

    value: int = Field(ge=1, le=256)


class Speed(_Figure):
    """How fast one of them is, relative to a core of the host."""

    value: float = Field(gt=0, le=1)


class Watts(_Figure):
    """What the whole device draws."""

    value: float = Field(ge=0, le=10_000)


class BytesPerSecond(_Figure):
    """How fast a finished batch gets to where it is read from."""

    value: float = Field(gt=0)


class CsdProfile(BaseModel):
    """What a device is like."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")
    about: str = Field(min_length=1, max_length=300)
    cores: Cores
    speed: Speed
    active_w: Watts
    idle_w: Watts
    link_bytes_per_s: BytesPerSecond

    @property
    def host_cores(self) -> float:
        """All of its cores together, in cores of the host."""
        return self.cores.value * self.speed.value

    @property
    def power_source(self) -> str:
        """Where its watts come from."""
        active, idle = self.active_w.source, self.idle_w.source
        both = active if active == idle else f"{active}; idle: {idle}"
        return f"profile {self.name}: {both}"[:200]

    def in_words(self) -> str:
        """What it is like, in a line."""
        number = "1 core" if self.cores.value == 1 else f"{self.cores.value} cores"
        return (
            f"{number} at {self.speed.value:g} of a host core, {self.active_w.value:g} W busy, "
            f"{self.idle_w.value:g} W idle, {self.link_bytes_per_s.value / 1e6:g} MB/s"
        )


def known_profiles() -> list[str]:
    """The names of the profiles that come with DDLP."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def find_profile(name: str) -> CsdProfile:
    """The profile of a name, or in the file at a path."""
    if name in known_profiles():
        return _read(FOLDER / f"{name}.toml")
    path = Path(name)
    if path.suffix == ".toml" or len(path.parts) > 1:
        return _read(path)
    raise InvalidInput(
        f"there is no CSD profile {name!r}; known profiles: {', '.join(known_profiles())}; "
        "or give the path of a TOML file"
    )


def chosen_profile(settings: Settings) -> CsdProfile:
    """The profile that the settings name, with what they set themselves in its place."""
    profile = find_profile(settings.csd_profile)
    changes: dict[str, Any] = {}
    if settings.csd_speed is not None:
        changes["speed"] = Speed(value=settings.csd_speed, source="DDLP_CSD_SPEED")
    if settings.csd_active_w is not None:
        changes["active_w"] = Watts(value=settings.csd_active_w, source="DDLP_CSD_ACTIVE_W")
    return profile.model_copy(update=changes)


def _read(path: Path) -> CsdProfile:
    try:
        found = tomllib.loads(path.read_text())
    except OSError as error:
        known = ", ".join(known_profiles())
        raise InvalidInput(
            f"the CSD profile {path} cannot be read ({error.strerror}); known profiles: {known}"
        ) from error
    except ValueError as error:  # no TOML, or no text at all
        raise InvalidInput(f"the CSD profile {path} is not TOML: {error}") from error
    try:
        return CsdProfile.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidInput(f"the CSD profile {path}: {where}: {first['msg']}") from error
