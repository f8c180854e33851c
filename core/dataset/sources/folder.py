"""A folder of images with one subfolder a class."""

import os
from collections.abc import Iterator
from pathlib import Path

from ddlp.core.dataset.check import reason_of
from ddlp.core.dataset.files import IMAGE_SUFFIXES, is_image, shown
from ddlp.core.dataset.labels import is_class_name
from ddlp.core.dataset.layout import SampleRow
from ddlp.core.dataset.sources.base import Classes, Listing
from ddlp.core.dataset.sources.loose import LooseSource
from ddlp.core.errors import InvalidInput


class FolderSource(LooseSource):
    """The order is by class, then by path, whatever the disk says; hidden names are left out."""

    kind = "folder"

    @property
    def root(self) -> Path:
        """The folder itself."""
        return self.uri

    @property
    def expected(self) -> str:
        """A class's folder with images."""
        endings = " ".join(sorted(IMAGE_SUFFIXES))
        return (
            f"{self.uri} holds no images; expected {self.uri}/CLASS/IMAGE "
            f"with one of the endings {endings}"
        )

    def list_samples(self, listing: Listing) -> Classes:
        """Name every image below a class's folder."""
        names, _ = _entries(str(self.root))
        classes = tuple(sorted(name[:-1] for name in names if name.endswith("/")))
        for label, name in enumerate(classes):
            if not is_class_name(name):
                raise InvalidInput(
                    f"the folder {name!r} of {self.root} cannot be a class name; rename it"
                )
            for path in self._images(name, listing):
                listing.add(os.fsencode(path), SampleRow(0, 0, label=label))
        return classes, None

    def _images(self, top: str, listing: Listing) -> Iterator[str]:
        """Images below a folder, by path; only the folders on the way are held in memory."""
        way = [self._enter(f"{top}/", frozenset(), listing)]
        while way:
            folder, names, above = way[-1]
            name = next(names, None)
            if name is None:
                way.pop()
            elif name.endswith("/"):
                way.append(self._enter(folder + name, above, listing))
            else:
                yield folder + name

    def _enter(
        self, folder: str, above: frozenset[str], listing: Listing
    ) -> tuple[str, Iterator[str], frozenset[str]]:
        """A folder's images and folders, sorted; none if it is a link to a folder above it."""
        path = os.path.join(self.root, folder[:-1])
        real = os.path.realpath(path)
        self._fence.check_real(path, real)
        if real in above:
            return folder, iter(()), above
        try:
            names, links = _entries(path)
        except OSError as error:
            listing.reject(shown(os.fsencode(path)), reason_of(error))
            return folder, iter(()), above
        wanted = sorted(name for name in names if name.endswith("/") or is_image(name))
        for name in wanted:
            if name in links and not name.endswith("/"):
                self._fence.check(os.path.join(path, name))
        return folder, iter(wanted), above | {real}


def _entries(folder: str) -> tuple[list[str], set[str]]:
    """What a folder holds but for hidden names, folders marked by a slash; and which are links."""
    names, links = [], set()
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            names.append(f"{entry.name}/" if _is_folder(entry) else entry.name)
            if entry.is_symlink():
                links.add(names[-1])
    return names, links


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
