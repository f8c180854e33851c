"""What every source is: a place where samples lie, and a way to collect them into an index."""

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ddlp.core.dataset.check import reason_of
from ddlp.core.dataset.files import shown
from ddlp.core.dataset.layout import SampleRow
from ddlp.core.dataset.parallel import in_order
from ddlp.core.dataset.progress import Progress, ScanOptions
from ddlp.core.dataset.spool import Spool
from ddlp.core.dataset.writer import IndexHead, IndexWriter
from ddlp.core.errors import InvalidInput, SystemFault
from ddlp.core.image import ImageHead
from ddlp.core.passing import is_passing
from ddlp.core.patience import Patience, fault_of

_CHUNK = 32
_REPORT_AFTER = 1000
_MOST_NAMED = 10
_BITS = 8
"""Of a channel, as batches have them."""

Classes = tuple[tuple[str, ...], npt.NDArray[np.uint32] | None]
"""Class names, and the class number that each label listed stands for (None: they are numbers)."""


class Source(ABC):
    """A dataset as it lies on disk."""

    kind: ClassVar[str]

    def __init__(self, uri: Path, options: ScanOptions) -> None:
        self.uri = uri
        self.options = options
        self.patience = Patience()
        self._good: Callable[[], object] | None = None
        """Looks again at the sample that was last found to be good."""

    @property
    @abstractmethod
    def root(self) -> Path:
        """The folder that names are relative to."""

    @property
    @abstractmethod
    def expected(self) -> str:
        """What is missing when there is no sample at all."""

    @abstractmethod
    def collect(self, writer: IndexWriter, progress: Progress) -> IndexHead:
        """Find all samples."""


class Listing:
    """The samples that a source names, before any of them is looked at."""

    def __init__(self, writer: IndexWriter, progress: Progress) -> None:
        self.writer = writer
        self.spool = Spool(writer.folder, "listing")
        self._progress = progress
        self._unsaid = 0

    def add(self, name: bytes, row: SampleRow) -> None:
        """Name a sample."""
        self.spool.append(name, row)
        self._unsaid += 1
        if self._unsaid >= _REPORT_AFTER:
            self.say(shown(name))

    def reject(self, name: str, reason: str) -> None:
        """Name what cannot be a sample."""
        self.writer.reject(name, reason)
        self._progress.add(found=1, done=1, rejected=1, current=name)

    def note(self, sentence: str) -> None:
        """Say what was left out, or taken in an unusual way."""
        self.writer.note(sentence)

    def say(self, current: str = "") -> None:
        """Report what was named."""
        self._progress.add(found=self._unsaid, current=current)
        self._unsaid = 0


class EncodedSource(Source):
    """A source of encoded images: they are listed first, then looked at by several threads."""

    def __init__(self, uri: Path, options: ScanOptions) -> None:
        super().__init__(uri, options)
        self._deep = 0
        self._counting = threading.Lock()

    @abstractmethod
    def list_samples(self, listing: Listing) -> Classes:
        """Name all samples in their order."""

    @abstractmethod
    def inspect(self, name: bytes, row: SampleRow) -> SampleRow:
        """Look at one sample and complete its row, or raise what is wrong with it."""

    def completed(self, row: SampleRow, head: ImageHead) -> SampleRow:
        """A row with what its image's head says; images of 16 bits are counted."""
        if head.bits > _BITS:
            with self._counting:
                self._deep += 1
        return row._replace(
            width=head.width, height=head.height, kind=head.kind, orientation=head.orientation
        )

    @abstractmethod
    def show(self, name: bytes, row: SampleRow) -> str:
        """What a sample is called in messages."""

    def collect(self, writer: IndexWriter, progress: Progress) -> IndexHead:
        """List the samples, then take those that can be used."""
        listing = Listing(writer, progress)
        try:
            classes, renumbered = self.list_samples(listing)
            listing.say()
        finally:
            listing.spool.close()
        chunks = listing.spool.chunks(_CHUNK)
        for results in in_order(self._judge, chunks, self.options.threads, progress.poll):
            self._take(results, writer, progress)
        if self._deep:
            writer.note(f"Images of 16 bits per channel that are scaled to 8 bits: {self._deep:,}.")
        return IndexHead(self.kind, self.root, classes, renumbered)

    def _judge(self, listed: tuple[bytes, SampleRow]) -> tuple[bytes, SampleRow, str | None]:
        name, row = listed
        try:
            inspect = partial(self._inspect, name, row)
            found = self.patience.wait_out_unless_lost(inspect, self._good)
            self._good = inspect
            return name, found, None
        except InvalidInput:
            raise
        except SystemFault as fault:
            if not fault.perhaps_lost:
                raise
            return name, row, str(fault)
        except Exception as error:  # the border to the decoders, which raise whatever they like
            return name, row, reason_of(error)

    def _inspect(self, name: bytes, row: SampleRow) -> SampleRow:
        try:
            return self.inspect(name, row)
        except OSError as error:
            if is_passing(error):
                raise fault_of(error, "read", self.show(name, row)) from error
            raise

    def _take(
        self,
        results: list[tuple[bytes, SampleRow, str | None]],
        writer: IndexWriter,
        progress: Progress,
    ) -> None:
        size = rejected = 0
        for name, row, problem in results:
            if problem is None:
                writer.samples.append(name, row)
                size += row.size
            else:
                writer.reject(self.show(name, row), problem)
                rejected += 1
        name, row, _ = results[-1]
        progress.add(done=len(results), rejected=rejected, size=size, current=self.show(name, row))


def counted(numbers: Mapping[str, int]) -> str:
    """How many of each, the most frequent first; of many kinds, the first ten."""
    most = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{name} ({number:,})" for name, number in most[:_MOST_NAMED])
    return shown + (", …" if len(most) > _MOST_NAMED else "")


def named(names: Sequence[str]) -> str:
    """Names in a sentence; of many, the first ten."""
    return ", ".join(names[:_MOST_NAMED]) + (", …" if len(names) > _MOST_NAMED else "")


def join(root: Path, name: bytes) -> bytes:
    """The path of a name below a root."""
    return os.path.join(os.fsencode(root), name)
