"""Checks that a device says what it draws, how that is known, and whether it is emulated."""

from ddlp.cli.conformance.findings import Finding, failed, passed
from ddlp.core.messages import DeviceInfo
from ddlp.core.types import DeviceKind, Provenance

CHECK = "power"


def power_finding(device: DeviceInfo, emulated_prongs: list[str]) -> Finding:
    """What a device and a run of it say."""
    if device.emulated != (device.kind is DeviceKind.EMULATED_CSD):
        return failed(CHECK, f"its kind is {device.kind}, but emulated is {device.emulated}")
    if device.emulated and device.prong.value not in emulated_prongs:
        return failed(CHECK, "it is emulated, but a run that it worked for does not say so")
    reading = device.energy
    if reading is not None and reading.joules is not None and not reading.method:
        return failed(CHECK, "it says joules, but not how it knows them")
    known = reading is not None and reading.provenance is not Provenance.UNAVAILABLE
    if device.power.active_w is None and not known:
        return failed(
            CHECK,
            f"nobody knows what it draws ({device.power.source}); declare its watts with "
            "DDLP_CSD_ACTIVE_W, or name the file in which it reports them",
        )
    if not device.power.source:
        return failed(CHECK, "it does not say where its watts come from")
    return passed(CHECK, "; ".join([_watts(device), _joules(device), _label(device)]))


def _watts(device: DeviceInfo) -> str:
    if device.power.active_w is None:
        return "no watts are declared"
    return f"{device.power.active_w:g} W a busy slot ({device.power.source})"


def _joules(device: DeviceInfo) -> str:
    if device.energy is None or device.energy.joules is None:
        return "no joules reported"
    return f"{device.energy.joules:.1f} J {device.energy.provenance}"


def _label(device: DeviceInfo) -> str:
    return "labelled as emulated" if device.emulated else "not emulated"
