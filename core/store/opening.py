"""Opens a store by its address."""

from dataclasses import dataclass

from ddlp.core.codecs import Codec, check
from ddlp.core.store.address import StoreAddress
from ddlp.core.store.base import BatchStore
from ddlp.core.store.folder import FolderStore


@dataclass(frozen=True)
class StoreOptions:
    """How a store is used."""

    quota_bytes: int | None = None
    """What all runs together may take up in it."""
    codec: Codec = Codec.OFF
    """How tensors are compressed."""

    def __post_init__(self) -> None:
        check(self.codec)


def open_store(address: StoreAddress, options: StoreOptions | None = None) -> BatchStore:
    """The store at an address."""
    options = options or StoreOptions()
    if address.folder is not None:
        return FolderStore(address.folder, quota_bytes=options.quota_bytes, codec=options.codec)
    from ddlp.core.store.s3 import S3Store

    return S3Store(address, options)
