"""Pins memory of the host, so that an accelerator can fetch it by itself."""

from typing import Protocol

import torch

from ddlp.core.errors import Unavailable

_PORTABLE = 1
"""Pinned for every device of the process, whichever is current."""


class Pinning(Protocol):
    """Keeps memory where it is."""

    def pin(self, address: int, nbytes: int) -> None:
        """From now on; raises where that is refused."""

    def unpin(self, address: int) -> None:
        """No longer: the memory is about to go."""


class CudaPinning:
    """Registers memory with the CUDA driver."""

    def pin(self, address: int, nbytes: int) -> None:
        """Lock its pages, and show them to the device."""
        runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
        result = runtime.cudaHostRegister(address, nbytes, _PORTABLE)
        if result != runtime.cudaError.success:
            raise Unavailable(
                f"{nbytes} bytes of memory cannot be pinned for the accelerator ({result}); free "
                "some of the host's memory, raise its limit (ulimit -l), or lower prefetch"
            )

    def unpin(self, address: int) -> None:
        """Let its pages be ordinary ones again."""
        torch.cuda.cudart().cudaHostUnregister(address)  # type: ignore[no-untyped-call]


def pinning_for(device: torch.device | str) -> Pinning | None:
    """What a device's transfers want; None where pinned memory has no use."""
    return CudaPinning() if torch.device(device).type == "cuda" else None
