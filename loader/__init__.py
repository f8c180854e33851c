"""The library that training code imports: `from ddlp.loader import DualLoader`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ddlp.loader.dual import DualLoader

__all__ = ["DualLoader"]


def __getattr__(name: str) -> Any:
    """Import PyTorch only where it is asked for: the processes beside a trainer need none of it."""
    if name != "DualLoader":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ddlp.loader.dual import DualLoader

    globals()[name] = DualLoader
    return DualLoader
