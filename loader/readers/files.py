"""What readers of files share: a file has the size that was committed, and is given back once."""

import logging
from collections import deque
from pathlib import Path

from ddlp.core.errors import DamagedBatch
from ddlp.core.passing import failed_words, is_passing
from ddlp.core.store import path_of, release
from ddlp.core.store.reading import reading
from ddlp.loader.readers.base import Wanted

_late: deque[Path] = deque(maxlen=4096)
"""Files of this process that an error kept from being given back, though it may have passed."""

log = logging.getLogger(__name__)


def find_file(wanted: Wanted) -> Path:
    """The file of a batch; raises where it is not there, or not as large as it was."""
    path = path_of(wanted.location)
    with reading("stat", path):
        nbytes = path.stat().st_size
    if nbytes != wanted.nbytes:
        raise DamagedBatch(f"{path} has {nbytes} bytes, not {wanted.nbytes}")
    return path


def give_back_file(path: Path) -> None:
    """Give a consumed batch's room back; where that is not allowed it goes with its run.

    What failed for the moment is tried again with the next one: nobody may wait here.
    """
    for _ in range(len(_late)):
        try:
            _give_back(_late.popleft())
        except IndexError:  # another thread was quicker
            break
    _give_back(path)


def _give_back(path: Path) -> None:
    try:
        release(path)
    except OSError as error:
        if is_passing(error):
            if not _late:
                log.warning("%s; it is given back later", failed_words(error, "rename", path))
            _late.append(path)
            return
        log.warning("%s stays until its run ends: it cannot be given back (%s)", path, error)
