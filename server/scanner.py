"""Scans datasets in the background: a few at a time, each in a child, with progress to ask for."""

import logging
import queue
import shutil
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar, cast

from sqlalchemy.orm import Session

from ddlp.core.dataset import ScanOptions, ScanProgress, move_index
from ddlp.core.dataset.scan_process import remove_traces, scan_apart
from ddlp.core.errors import DdlpError, Unavailable
from ddlp.core.messages import ScanInfo
from ddlp.core.outage import Outage
from ddlp.core.settings import Settings
from ddlp.server import datasets, roots
from ddlp.server.database import AWAY, Database
from ddlp.server.models import Dataset

AT_ONCE = 2
WAITING = 64
_AGAIN_S = 1.0
_STOP_S = 3.0

R = TypeVar("R")

log = logging.getLogger(__name__)


class _Scan:
    """One scan under way or waiting for its turn."""

    def __init__(self, row: Dataset) -> None:
        self.row = row
        self.progress = ScanInfo()
        self.unwanted = threading.Event()

    def report(self, now: ScanProgress) -> None:
        """Take note of how far it has come."""
        self.progress = ScanInfo(
            found=now.found, done=now.done, rejected=now.rejected, bytes=now.bytes
        )


class Scanner:
    """Owns the threads that look after the children; the rows say what became of each scan."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._scans: dict[uuid.UUID, _Scan] = {}
        self._stopping = threading.Event()
        self._queue: queue.SimpleQueue[_Scan | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._serve, name=f"scan-{number}", daemon=True)
            for number in range(AT_ONCE)
        ]

    def start(self) -> None:
        """Clear up after an earlier server, and begin again what it was scanning when it ended."""
        with self._database.session() as session:
            rows = datasets.scanning(session)
        sweep(self._settings.home / "indexes")
        for row in rows:
            self.begin(row)
        for thread in self._threads:
            thread.start()

    def check_room(self) -> None:
        """Refuse more than can sensibly wait."""
        if len(self._scans) >= WAITING:
            raise Unavailable(f"{WAITING} scans are under way or waiting; try again later")

    def begin(self, row: Dataset) -> None:
        """Scan a dataset as soon as there is a thread for it."""
        self._scans[row.id] = _Scan(row)
        self._queue.put(self._scans[row.id])

    def progress(self, dataset_id: uuid.UUID) -> ScanInfo | None:
        """How far a scan has come; None where there is none."""
        found = self._scans.get(dataset_id)
        return found.progress if found else None

    def forget(self, dataset_id: uuid.UUID) -> None:
        """A dataset was removed: its scan is not wanted any more."""
        found = self._scans.get(dataset_id)
        if found is not None:
            found.unwanted.set()

    def stop(self) -> None:
        """End all scans, and wait a little for their threads; what is not done begins again."""
        self._stopping.set()
        for _ in self._threads:
            self._queue.put(None)
        deadline = time.monotonic() + _STOP_S
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))

    def _serve(self) -> None:
        while (scan := self._queue.get()) is not None and not self._stopping.is_set():
            try:
                self._work(scan)
            except Exception:  # the border of the thread, which goes on with the next
                log.exception("the outcome of the scan of %s cannot be written", scan.row.uri)
            finally:
                self._scans.pop(scan.row.id, None)

    def _work(self, scan: _Scan) -> None:
        if not self._with_database(lambda session: datasets.is_known(session, scan.row.id)):
            return  # it was removed before its turn came
        try:
            self._scan(scan)
            left = self._with_database(lambda session: datasets.finish(session, scan.row.id))
            for path, replaces in left or ():  # none if the server ends: the next begins again
                clear_away(path, replaces)
            return
        except DdlpError as error:
            reason = str(error)
        except Exception as error:  # whoever asks must learn of it
            log.exception("the scan of %s failed", scan.row.uri)
            reason = f"{type(error).__name__}: {error}"
        remove_traces(Path(scan.row.index_path))
        self._with_database(lambda session: datasets.fail(session, scan.row.id, reason))

    def _scan(self, scan: _Scan) -> None:
        def unwanted() -> bool:
            return self._stopping.is_set() or scan.unwanted.is_set()

        folders = self._with_database(lambda session: roots.allowed(session, self._settings))
        if folders is None:
            return
        place = datasets.place_of(self._settings, folders, scan.row)
        check = cast(Literal["quick", "full"], scan.row.check)
        options = ScanOptions(allowed=folders.roots, check=check, as_classes=scan.row.as_classes)
        scan_apart(place, Path(scan.row.index_path), options, scan.report, unwanted)

    def _with_database(self, action: Callable[[Session], R]) -> R | None:
        """Do something in the database, however long that is away; None where the server ends."""
        outage = Outage(log, "the outcome of a scan cannot be written")
        while not self._stopping.is_set():
            try:
                with self._database.session() as session:
                    return action(session)
            except AWAY as error:
                self._stopping.wait(max(_AGAIN_S, outage.failed(error)))
        return None


def sweep(folder: Path) -> None:
    """Remove the folders of scans that a killed server left; finished indexes may be another's."""
    for left in folder.glob(".*.idx.*"):
        shutil.rmtree(left, ignore_errors=True)


def clear_away(index: Path, replaces: Path | None) -> None:
    """Remove an index that nobody needs where it lies, or put it in the place of another one."""
    if replaces is not None:
        move_index(index, replaces)
    remove_traces(index)
