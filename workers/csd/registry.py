"""Finds drivers by name: DDLP's own, and those that installed packages add by entry point.

A package adds one by naming, in the group `ddlp.csd_drivers`, what makes a driver from the
settings. Its code is loaded only when its driver is asked for.
"""

from importlib.metadata import EntryPoint, entry_points

from ddlp.core.errors import InvalidInput
from ddlp.core.settings import Settings
from ddlp.workers.csd.agent import AgentCsd
from ddlp.workers.csd.driver import CsdDriver, MakeDriver
from ddlp.workers.csd.emulated import EmulatedCsd

GROUP = "ddlp.csd_drivers"

DRIVERS: dict[str, MakeDriver] = {
    "agent": AgentCsd.from_settings,
    "emulated": EmulatedCsd.from_settings,
}

_PARTS = ("store", "describe", "start", "stop", "health", "energy")


def make_driver(settings: Settings) -> CsdDriver:
    """The driver of the device that the settings describe."""
    name = settings.csd_driver
    found = list(entry_points(group=GROUP, name=name))
    if name in DRIVERS and found:
        raise InvalidInput(
            f"{_package(found[0])} adds a CSD driver {name!r}, which is the name of one of DDLP's "
            "own; uninstall it, or have it renamed"
        )
    if name == "agent" and settings.csd_profile != "default":
        raise InvalidInput(
            f"profile {settings.csd_profile!r} is for emulated devices, and the driver is agent; "
            "leave one of the two out"
        )
    if name in DRIVERS:
        return DRIVERS[name](settings)
    if not found:
        known = ", ".join(known_drivers())
        raise InvalidInput(f"there is no CSD driver {name!r}; known drivers: {known}")
    if len(found) > 1:
        packages = ", ".join(map(_package, found))
        raise InvalidInput(
            f"there is more than one CSD driver {name!r}: {packages} add it; uninstall all but one"
        )
    return _made(found[0], settings)


def known_drivers() -> list[str]:
    """All names, DDLP's own and those that packages add."""
    return sorted({*DRIVERS, *(entry.name for entry in entry_points(group=GROUP))})


def _made(entry: EntryPoint, settings: Settings) -> CsdDriver:
    who = f"CSD driver {entry.name!r} of {_package(entry)}"
    try:
        driver: CsdDriver = entry.load()(settings)
        missing = [part for part in _PARTS if not hasattr(driver, part)]
    except InvalidInput:
        raise
    except Exception as error:  # the border to a package's code, which raises whatever it likes
        reason = str(error) or type(error).__name__
        raise InvalidInput(f"{who} cannot be made by {entry.value}: {reason}") from error
    if missing:
        raise InvalidInput(f"{who}: what {entry.value} makes has no {', '.join(missing)}")
    return driver


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown package"
