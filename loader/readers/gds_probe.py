"""Decides whether GPUDirect Storage can be used here, and if not, says why and what would help.

Without a driver KvikIO can be imported, but every read fails; told to leave out its own checks it
may hang. So it is asked last, and its compatibility mode is left as it is.
"""

import ctypes
import os
import re
from enum import StrEnum
from pathlib import Path
from typing import Protocol, Self

import torch

from ddlp.core.filesystem import direct_read_refusal

_NO_DEVICE = 100
"""What the driver says where there is none."""
_NVIDIA_FS = (Path("/proc/driver/nvidia-fs"), Path("/sys/module/nvidia_fs"))
_UDEV = Path("/run/udev")
_CUFILE_JSON = "/etc/cufile.json"
_COMMENT = re.compile(r"(?:^|\s)//.*")
_P2P = re.compile(r'"use_pci_p2pdma"\s*:\s*true\b')
_TRUE = frozenset({"1", "true", "yes", "on"})


class Cause(StrEnum):
    """Why bytes do not go from a drive straight into an accelerator."""

    NOT_CUDA = "not-cuda"
    NO_DRIVER = "no-driver"
    NO_DEVICE = "no-device"
    NO_KVIKIO = "no-kvikio"
    COMPAT_MODE = "compat-mode"
    UDEV_HIDDEN = "udev-hidden"
    NO_KERNEL_PATH = "no-kernel-path"
    NO_DIRECT = "no-direct"
    TOO_SMALL = "too-small"
    COMPRESSED = "compressed"
    NO_FOLD = "no-fold"
    READ_FAILED = "read-failed"


class Refusal(str):
    """A cause in words, with the remedy."""

    cause: Cause

    def __new__(cls, cause: Cause, words: str) -> Self:
        """A text that also knows which of the causes it is."""
        made = super().__new__(cls, words)
        made.cause = cause
        return made


class Driver(Protocol):
    """What is asked of the machine: the thinnest edge, replaced in tests."""

    def start(self) -> str | None:
        """Load the CUDA driver and start it; what went wrong, or None."""

    def device_count(self) -> int:
        """Devices that a started driver sees."""

    def import_kvikio(self) -> str | None:
        """Import KvikIO, with a driver at hand; what went wrong, or None."""

    def asks_for_compat(self) -> str | None:
        """The setting by which somebody wants all reads to pass through the host."""

    def prefers_compat(self) -> bool:
        """Whether KvikIO, left to itself, reads through the host."""

    def sees_udev(self) -> bool:
        """Whether cuFile can find out which drive a file lies on."""

    def has_kernel_path(self) -> bool:
        """Whether the kernel can lead bytes from a drive to the device."""

    def least_bytes(self) -> int:
        """Transfers below this size pass through the host."""


class CudaDriver:
    """NVIDIA's driver, and KvikIO on top of it."""

    def start(self) -> str | None:
        """`cuInit`; a driver without devices has started."""
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            return str(error)
        result = int(self._library.cuInit(0))
        return None if result in (0, _NO_DEVICE) else f"cuInit gives error {result}"

    def device_count(self) -> int:
        """`cuDeviceGetCount`, which fails where none is there."""
        count = ctypes.c_int(0)
        return 0 if self._library.cuDeviceGetCount(ctypes.byref(count)) else count.value

    def import_kvikio(self) -> str | None:
        """Libraries that it needs may be missing, not only itself."""
        try:
            import kvikio
            import kvikio.defaults
        except (ImportError, OSError, RuntimeError) as error:
            return str(error)
        if not hasattr(kvikio, "SummaryMonitor"):
            return "it is too old to say by which way bytes went"
        return None

    def asks_for_compat(self) -> str | None:
        """KvikIO's own setting, or that of the library below it."""
        import kvikio
        import kvikio.defaults

        if kvikio.defaults.get("compat_mode") == kvikio.CompatMode.ON:
            return "KVIKIO_COMPAT_MODE"
        forced = os.environ.get("CUFILE_FORCE_COMPAT_MODE", "").lower() in _TRUE
        return "CUFILE_FORCE_COMPAT_MODE" if forced else None

    def prefers_compat(self) -> bool:
        """As KvikIO finds it: no libcufile, or the Windows Subsystem for Linux."""
        import kvikio.defaults

        return bool(kvikio.defaults.is_compat_mode_preferred())

    def sees_udev(self) -> bool:
        """Containers often do not."""
        return os.access(_UDEV, os.R_OK)

    def has_kernel_path(self) -> bool:
        """NVIDIA's module, or the kernel's own transfers between PCI devices."""
        if any(place.exists() for place in _NVIDIA_FS):
            return True
        if os.environ.get("CUFILE_USE_PCIP2PDMA", "").lower() in _TRUE:
            return True
        return uses_p2p(Path(os.environ.get("CUFILE_ENV_PATH_JSON", _CUFILE_JSON)))

    def least_bytes(self) -> int:
        """KVIKIO_GDS_THRESHOLD."""
        import kvikio.defaults

        return int(kvikio.defaults.get("gds_threshold"))


def uses_p2p(config: Path) -> bool:
    """Whether cuFile is set up for transfers between PCI devices; its JSON has comments."""
    try:
        text = config.read_text(errors="replace")
    except OSError:
        return False
    return any(_P2P.search(_COMMENT.sub("", line)) for line in text.splitlines())


def device_refusal(device: str, driver: Driver | None = None) -> Refusal | None:
    """Why a device cannot be read to from drives; None where it can."""
    if torch.device(device).type != "cuda":
        return Refusal(
            Cause.NOT_CUDA, f'it is for CUDA devices, such as device="cuda:0", not for {device!r}'
        )
    driver = driver or CudaDriver()
    return _driver_refusal(driver) or _path_refusal(driver)


def _driver_refusal(driver: Driver) -> Refusal | None:
    if (problem := driver.start()) is not None:
        return Refusal(
            Cause.NO_DRIVER,
            f"the CUDA driver cannot be used ({problem}); install it, and show it to containers",
        )
    if not driver.device_count():
        return Refusal(
            Cause.NO_DEVICE,
            "the CUDA driver sees no device; check nvidia-smi and CUDA_VISIBLE_DEVICES",
        )
    if (problem := driver.import_kvikio()) is not None:
        return Refusal(
            Cause.NO_KVIKIO,
            f"KvikIO cannot be used ({problem}); install it with: pip install 'ddlp[gds]'",
        )
    return None


def _path_refusal(driver: Driver) -> Refusal | None:
    if (setting := driver.asks_for_compat()) is not None:
        return Refusal(Cause.COMPAT_MODE, f"{setting} asks to read through the host; unset it")
    if not driver.sees_udev():
        return Refusal(
            Cause.UDEV_HIDDEN,
            f"cuFile needs {_UDEV}, which is not visible here; start the container with "
            f"--volume {_UDEV}:{_UDEV}:ro",
        )
    if not driver.has_kernel_path():
        return Refusal(
            Cause.NO_KERNEL_PATH,
            "the kernel has no path from drives to the device; load NVIDIA's module (modprobe "
            "nvidia-fs), or set use_pci_p2pdma in cufile.json",
        )
    if driver.prefers_compat():
        return Refusal(
            Cause.COMPAT_MODE,
            "KvikIO finds no libcufile that works here and would read through the host; install "
            "nvidia-cufile",
        )
    return None


def file_refusal(path: Path) -> Refusal | None:
    """Why files beside this one cannot be read into a device that is ready; None where they can.

    Raises where it cannot be read at all.
    """
    if (problem := direct_read_refusal(path)) is not None:
        return Refusal(
            Cause.NO_DIRECT, f"{problem}; put the store on a filesystem that does, such as ext4"
        )
    return None


def size_refusal(nbytes: int, least_bytes: int) -> Refusal | None:
    """Why so few bytes are not worth it; None where they are enough."""
    if nbytes >= least_bytes:
        return None
    return Refusal(
        Cause.TOO_SMALL,
        f"{nbytes} bytes are less than KvikIO reads directly ({least_bytes}); make batches "
        "larger, or lower KVIKIO_GDS_THRESHOLD",
    )
