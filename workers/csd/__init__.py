"""Computational storage devices: the driver interface, its drivers, and profiles to emulate.

`driver` is the interface; `agent` is a real device's own Linux, `emulated` a worker held to a
`profile` by a `throttle`; `registry` finds a driver by name.
"""

from ddlp.workers.csd.driver import CsdDriver, Description, EnergyReading, Health, Pace
from ddlp.workers.csd.profile import CsdProfile, find_profile, known_profiles
from ddlp.workers.csd.registry import DRIVERS, known_drivers, make_driver

__all__ = [
    "DRIVERS",
    "CsdDriver",
    "CsdProfile",
    "Description",
    "EnergyReading",
    "Health",
    "Pace",
    "find_profile",
    "known_drivers",
    "known_profiles",
    "make_driver",
]
