"""The library that training code imports: `from ddlp.loader import DualLoader`."""

from ddlp.loader.dual import DualLoader

__all__ = ["DualLoader"]
