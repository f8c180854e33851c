"""Each way a batch can be read: a place where it lies, and the reader that brings it from there."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ddlp.core.batchfile import BatchId
from ddlp.core.codecs import Codec
from ddlp.core.filesystem import direct_refusal
from ddlp.core.store import BatchStore, FolderStore, StoreAddress, StoredBatch, StoreOptions
from ddlp.core.store.names import batch_name
from ddlp.core.store.s3 import S3Store
from ddlp.core.store.served import StoreServer, access_token, new_key
from ddlp.core.types import ReadPath
from ddlp.loader.buffers import Buffers
from ddlp.loader.readers.base import Reader, Wanted
from ddlp.loader.readers.copied import CopyReader
from ddlp.loader.readers.direct import DirectReader
from ddlp.loader.readers.http import HttpReader
from ddlp.loader.readers.mapped import MappedReader
from ddlp.loader.readers.s3 import S3Reader

MAKERS: dict[ReadPath, Callable[[], Reader]] = {
    ReadPath.MMAP: MappedReader,
    ReadPath.COPY: lambda: CopyReader(Buffers()),
    ReadPath.DIRECT: lambda: DirectReader(Buffers()),
    ReadPath.HTTP: lambda: HttpReader(Buffers()),
    ReadPath.S3: lambda: S3Reader(Buffers()),
}
WAYS = [
    *((path, place) for path in (ReadPath.MMAP, ReadPath.COPY) for place in ("memory", "drive")),
    *((ReadPath.DIRECT, place) for place in ("memory", "drive")),
    *((ReadPath.HTTP, place) for place in ("memory", "drive")),
    (ReadPath.S3, "bucket"),
]


class Place(ABC):
    """Where batches lie, and can be tampered with."""

    store: BatchStore

    def wanted(self, batch: BatchId, stored: StoredBatch) -> Wanted:
        return Wanted(batch, stored.checksum, stored.nbytes, stored.location)

    @abstractmethod
    def get(self, name: str) -> bytes: ...

    @abstractmethod
    def put(self, name: str, raw: bytes) -> None: ...

    @abstractmethod
    def remove(self, name: str) -> None: ...

    @abstractmethod
    def has(self, name: str) -> bool: ...

    def close(self) -> None:
        """Nothing is open, as a rule."""
        return


class FolderPlace(Place):
    def __init__(self, root: Path, codec: Codec) -> None:
        self.root = root
        self.store = FolderStore(root, codec=codec)

    def get(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def put(self, name: str, raw: bytes) -> None:
        (self.root / name).write_bytes(raw)

    def remove(self, name: str) -> None:
        (self.root / name).unlink()

    def has(self, name: str) -> bool:
        return (self.root / name).exists()


class ServedPlace(FolderPlace):
    def __init__(self, root: Path, codec: Codec) -> None:
        super().__init__(root, codec)
        self.key = new_key()
        self.server = StoreServer(root, "http://127.0.0.1:0", self.key)
        self.server.start()

    def wanted(self, batch: BatchId, stored: StoredBatch) -> Wanted:
        name = name_of(batch)
        location = f"{self.server.url}/{name}"
        access = access_token(self.key, name)
        return replace(super().wanted(batch, stored), location=location, access=access)

    def close(self) -> None:
        self.server.stop()


class BucketPlace(Place):
    def __init__(self, address: StoreAddress, client: Any, codec: Codec) -> None:
        self.address, self.client = address, client
        self.store = S3Store(address, StoreOptions(codec=codec))

    def _where(self, name: str) -> dict[str, str]:
        return {"Bucket": self.address.bucket, "Key": f"{self.address.path}/{name}"}

    def get(self, name: str) -> bytes:
        raw: bytes = self.client.get_object(**self._where(name))["Body"].read()
        return raw

    def put(self, name: str, raw: bytes) -> None:
        self.client.put_object(**self._where(name), Body=raw)

    def remove(self, name: str) -> None:
        self.client.delete_object(**self._where(name))

    def has(self, name: str) -> bool:
        listed = self.client.list_objects_v2(
            Bucket=self.address.bucket, Prefix=f"{self.address.path}/{name}"
        )
        return bool(listed.get("Contents"))


def name_of(batch: BatchId) -> str:
    return batch_name(batch.run, batch.epoch, batch.index, batch.token)


def folder_place(path: ReadPath, root: Path, codec: Codec) -> Place:
    """A folder as a reader needs it."""
    if path is ReadPath.HTTP:
        return ServedPlace(root, codec)
    refusal = direct_refusal(root) if path is ReadPath.DIRECT else None
    if refusal is not None:
        pytest.skip(refusal)
    return FolderPlace(root, codec)
