"""Scans datasets in the background: a few at a time, each in a thread, with progress to ask for."""

import logging
import shutil
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, cast

from ddlp.core.dataset import ScanOptions, ScanProgress, delete_index, scan
from ddlp.core.errors import DdlpError, Unavailable
from ddlp.core.messages import ScanInfo
from ddlp.core.settings import Settings
from ddlp.server import datasets
from ddlp.server.database import Database
from ddlp.server.models import Dataset

AT_ONCE = 2
WAITING = 64

log = logging.getLogger(__name__)


class _Scan:
    """One scan under way or waiting for its turn."""

    def __init__(self) -> None:
        self.progress = ScanInfo()
        self.unwanted = threading.Event()

    def report(self, now: ScanProgress) -> None:
        """Take note of how far it has come."""
        self.progress = ScanInfo(
            found=now.found, done=now.done, rejected=now.rejected, bytes=now.bytes
        )


class Scanner:
    """Owns the threads; the rows say what became of each scan."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._scans: dict[uuid.UUID, _Scan] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="scan")

    def start(self) -> None:
        """Say of scans that an earlier server left that they are over, and clear up after them."""
        with self._database.session() as session:
            interrupted = datasets.fail_interrupted(session)
        for row in interrupted:
            path = Path(row.index_path)
            delete_index(path)
            for left in path.parent.glob(f".{path.name}.*"):
                shutil.rmtree(left, ignore_errors=True)

    def check_room(self) -> None:
        """Refuse more than can sensibly wait."""
        if len(self._scans) >= WAITING:
            raise Unavailable(f"{WAITING} scans are under way or waiting; try again later")

    def begin(self, row: Dataset) -> None:
        """Scan a dataset as soon as there is a thread for it."""
        scan_ = _Scan()
        with self._lock:
            self._scans[row.id] = scan_
        self._pool.submit(self._work, row, scan_)

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
        """End all scans and their threads."""
        self._stopping.set()
        self._pool.shutdown(cancel_futures=True)

    def _work(self, row: Dataset, scan_: _Scan) -> None:
        try:
            reason = self._scan(row, scan_)
            self._write(row, reason)
        except Exception as error:  # the border of the thread: whoever asks must learn of it
            log.exception("the scan of %s failed", row.uri)
            self._write(row, f"{type(error).__name__}: {error}")
        finally:
            with self._lock:
                self._scans.pop(row.id, None)

    def _scan(self, row: Dataset, scan_: _Scan) -> str | None:
        """Scan and write the index; returns what went wrong."""

        def unwanted() -> bool:
            return self._stopping.is_set() or scan_.unwanted.is_set()

        check = cast(Literal["quick", "full"], row.check)
        options = ScanOptions(allowed=tuple(self._settings.roots), check=check)
        try:
            scan(Path(row.uri), Path(row.index_path), options, scan_.report, unwanted)
        except DdlpError as error:
            return str(error)
        return None

    def _write(self, row: Dataset, reason: str | None) -> None:
        """Write the outcome; one that was cut off by the server's end is settled at its start."""
        if self._stopping.is_set():
            return
        with self._database.session() as session:
            if reason is None and datasets.finish(session, row.id):
                return
            datasets.fail(session, row.id, reason or "")
        delete_index(Path(row.index_path))
