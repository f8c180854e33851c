"""What readers of files share: a file has the size that was committed, and is given back once."""

import logging
from pathlib import Path

from ddlp.core.errors import DamagedBatch
from ddlp.core.store import path_of, release
from ddlp.core.store.reading import unreadable
from ddlp.loader.readers.base import Wanted

log = logging.getLogger(__name__)


def find_file(wanted: Wanted) -> Path:
    """The file of a batch; raises where it is not there, or not as large as it was."""
    path = path_of(wanted.location)
    try:
        nbytes = path.stat().st_size
    except OSError as error:
        raise unreadable(error, str(path)) from error
    if nbytes != wanted.nbytes:
        raise DamagedBatch(f"{path} has {nbytes} bytes, not {wanted.nbytes}")
    return path


def give_back_file(path: Path) -> None:
    """Give a consumed batch's room back; where that is not allowed it goes with its run."""
    try:
        release(path)
    except OSError as error:
        log.warning("%s stays until its run ends: it cannot be given back (%s)", path, error)
