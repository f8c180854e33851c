"""Chooses the engine: the fused one where it was built and works, else the reference."""

import functools
import os

from ddlp.core.errors import InvalidInput
from ddlp.core.image.backend import Backend
from ddlp.core.image.reference import Reference

_WANTED = "DDLP_ENGINE"


@functools.cache
def _choice() -> tuple[Backend, str | None]:
    wanted = os.environ.get(_WANTED, "auto")
    if wanted not in ("auto", "fused", "reference"):
        raise InvalidInput(f"{_WANTED}={wanted!r} is not auto, fused or reference")
    if wanted == "reference":
        return Reference(), f"{_WANTED}=reference asks for it"
    try:
        from ddlp.core.image.fused import Fused
    except ImportError as error:
        if wanted == "fused":
            raise InvalidInput(
                f"{_WANTED}=fused, but the kernel cannot be used: {error}"
            ) from error
        return Reference(), f"the kernel cannot be used: {error}"
    return Fused(), None


def backend() -> Backend:
    """The engine in use."""
    return _choice()[0]


def engine_name() -> str:
    """Its name, with the revision of its arithmetic."""
    return backend().name


def engine_reason() -> str | None:
    """Why it is not the fused one; None where it is."""
    return _choice()[1]
