"""The kinds of datasets, and which of them lies at a path."""

import os
from functools import partial
from pathlib import Path

from ddlp.core.dataset.check import reason_of
from ddlp.core.dataset.files import is_image
from ddlp.core.dataset.progress import ScanOptions
from ddlp.core.dataset.shards import parse_shard_name
from ddlp.core.dataset.sources.arrays import ArraySource
from ddlp.core.dataset.sources.base import Source
from ddlp.core.dataset.sources.cifar import find_cifar
from ddlp.core.dataset.sources.folder import FolderSource
from ddlp.core.dataset.sources.manifest import READERS, ManifestSource
from ddlp.core.dataset.sources.packed import PackedSource
from ddlp.core.dataset.sources.splits import refuse_splits
from ddlp.core.dataset.sources.tar import COMPRESSED, TarSource
from ddlp.core.errors import InvalidInput
from ddlp.core.passing import is_passing
from ddlp.core.patience import Patience
from ddlp.core.urls import refuse_address

__all__ = ["SOURCES", "Source", "recognise"]

SOURCES: dict[str, type[Source]] = {
    source.kind: source
    for source in (FolderSource, ManifestSource, TarSource, ArraySource, PackedSource)
}

_BY_ENDING: dict[str, type[Source]] = {
    ".tar": TarSource,
    ".npz": ArraySource,
    ".npy": ArraySource,
    ".bin": ArraySource,
    ".ddlp": PackedSource,
    **dict.fromkeys(READERS, ManifestSource),
}
_TAKEN = (
    "give a folder with one subfolder a class, a folder of .tar or packed shards or of CIFAR's "
    f".bin files, or a file with one of the endings {' '.join(sorted(_BY_ENDING))}"
)


def recognise(uri: Path, options: ScanOptions) -> Source:
    """The source at a path, told by its ending or by what the folder holds."""
    refuse_address(uri)
    return Patience().call("open", uri, partial(_recognise, uri.absolute(), options))


def _recognise(uri: Path, options: ScanOptions) -> Source:
    try:
        if not os.path.lexists(uri) or not uri.exists():
            raise InvalidInput(f"{uri} does not exist; {_TAKEN}")
        kind = _folder_kind(uri) if uri.is_dir() else _file_kind(uri)
        if kind is FolderSource and not options.as_classes:
            refuse_splits(uri)
    except OSError as error:
        if is_passing(error):
            raise
        raise InvalidInput(f"{error.filename or uri}: {reason_of(error)}") from error
    return kind(uri, options)


def _file_kind(uri: Path) -> type[Source]:
    _refuse_compressed(uri)
    kind = _BY_ENDING.get(uri.suffix.lower())
    if kind is None:
        raise InvalidInput(f"{uri} is not a dataset of a known kind; {_TAKEN}")
    return kind


def _folder_kind(uri: Path) -> type[Source]:
    """Images in subfolders come first: other files may lie beside them."""
    names = [name for name in os.listdir(uri) if not name.startswith(".")]
    packed = any(parse_shard_name(name) for name in names)
    shards = any(name.lower().endswith(".tar") for name in names)
    binaries = any(name.endswith(".bin") for name in names)
    if (packed or shards or binaries) and not _holds_images(uri, names):
        if packed:
            return PackedSource
        if shards:
            return TarSource
        if find_cifar(uri) is not None:
            return ArraySource
    if not any((uri / name).is_dir() for name in names):
        for name in names:
            _refuse_compressed(uri / name)
    return FolderSource


def _holds_images(uri: Path, names: list[str]) -> bool:
    """Whether a subfolder has an image in it."""
    folders = [uri / name for name in names if (uri / name).is_dir()]
    readable = [folder for folder in folders if os.access(folder, os.R_OK | os.X_OK)]
    return any(is_image(name) for folder in readable for name in os.listdir(folder))


def _refuse_compressed(path: Path) -> None:
    if path.name.lower().endswith(COMPRESSED):
        raise InvalidInput(
            f"{path} is compressed: tar files are read in place, so decompress it first"
        )
