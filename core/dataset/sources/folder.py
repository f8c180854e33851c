"""A folder of images with one subfolder a class."""

import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ddlp.core.dataset.check import reason_of
from ddlp.core.dataset.files import IMAGE_SUFFIXES, is_image, shown
from ddlp.core.dataset.labels import is_class_name
from ddlp.core.dataset.layout import SampleRow
from ddlp.core.dataset.progress import ScanOptions
from ddlp.core.dataset.sources.base import Classes, Listing, counted, named
from ddlp.core.dataset.sources.links import Links
from ddlp.core.dataset.sources.loose import LooseSource
from ddlp.core.errors import InvalidInput
from ddlp.core.passing import is_passing


class FolderSource(LooseSource):
    """The order is by class, then by path, whatever the disk says; hidden names are left out."""

    kind = "folder"

    def __init__(self, uri: Path, options: ScanOptions) -> None:
        super().__init__(uri, options)
        self._links = Links(str(self.root))
        self._others: Counter[str] = Counter()
        """Files that are left out, by their endings."""

    @property
    def root(self) -> Path:
        """The folder itself."""
        return self.uri

    @property
    def expected(self) -> str:
        """A class's folder with images."""
        loose = sum(is_image(name) for name in _entries(str(self.uri))[0])
        if loose:
            return (
                f"{self.uri} has images ({loose:,}) but no class folders, so they have no "
                f"labels; sort them into {self.uri}/CLASS/IMAGE, or write a manifest with "
                "the columns path and label"
            )
        endings = " ".join(sorted(IMAGE_SUFFIXES))
        return (
            f"{self.uri} holds no images; expected {self.uri}/CLASS/IMAGE "
            f"with one of the endings {endings}"
        )

    def list_samples(self, listing: Listing) -> Classes:
        """Name every image below a class's folder."""
        names, _ = _entries(str(self.root))
        classes = tuple(sorted(name[:-1] for name in names if name.endswith("/")))
        counts, deeper = Counter[str](), False
        for label, name in enumerate(classes):
            if not is_class_name(name):
                raise InvalidInput(
                    f"the folder {name!r} of {self.root} cannot be a class name; rename it"
                )
            for path in self._images(name, listing):
                listing.add(os.fsencode(path), SampleRow(0, 0, label=label))
                counts[name] += 1
                deeper = deeper or path.count("/") > 1
        self._tell(listing, [name for name in names if not name.endswith("/")])
        if empty := [name for name in classes if not counts[name]]:
            listing.note(
                f"Class folders without images, which are classes without samples: {named(empty)} "
                f"({len(empty):,} of {len(classes):,})."
            )
        if len(classes) == 1 and deeper:
            listing.note(
                f"There is one class only, {classes[0]}. If its subfolders are the classes, add "
                f"{self.root / classes[0]} instead."
            )
        return classes, None

    def _tell(self, listing: Listing, loose: list[str]) -> None:
        """Say which files are no samples."""
        images = sum(map(is_image, loose))
        if images:
            listing.note(
                f"Images directly in {self.root} that were left out for lack of a class folder: "
                f"{images:,}."
            )
        if self._others:
            listing.note(f"Files that were left out for their endings: {counted(self._others)}.")

    def _images(self, top: str, listing: Listing) -> Iterator[str]:
        """Images below a folder, by path; only the folders on the way are held in memory."""
        above = frozenset({os.path.realpath(self.root)})
        way = [self._enter(f"{top}/", above, listing)]
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
        """A folder's images and folders, sorted; none if it is a link that is not followed."""
        path = os.path.join(self.root, folder[:-1])
        real = os.path.realpath(path)
        self._fence.check_real(path, real)
        why = self._links.why_skipped(path, real, above)
        if why is not None:
            listing.reject(shown(os.fsencode(path)), why)
            return folder, iter(()), above
        try:
            names, links = self.patience.call("list", path, partial(_entries, path))
        except OSError as error:
            listing.reject(shown(os.fsencode(path)), reason_of(error))
            return folder, iter(()), above
        wanted = sorted(name for name in names if name.endswith("/") or is_image(name))
        self._others.update(
            os.path.splitext(name)[1].lower() or "no ending"
            for name in names
            if not name.endswith("/") and not is_image(name)
        )
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
    except OSError as error:
        if is_passing(error):
            raise
        return False
