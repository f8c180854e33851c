"""Scans what lies at a path into an index."""

from collections.abc import Callable
from pathlib import Path

from ddlp.core.dataset.progress import Progress, ScanOptions, ScanProgress
from ddlp.core.dataset.sources import Source, recognise
from ddlp.core.dataset.writer import IndexSummary, IndexWriter, index_writer
from ddlp.core.errors import InvalidInput

_DEFAULTS = ScanOptions()


def _ignore(_: ScanProgress) -> None:
    pass


def _never() -> bool:
    return False


def scan(
    uri: Path,
    into: Path,
    options: ScanOptions = _DEFAULTS,
    report: Callable[[ScanProgress], None] = _ignore,
    stop: Callable[[], bool] = _never,
) -> IndexSummary:
    """Find the samples at a path and write their index; files that cannot be used are listed in it.

    The order of the samples depends on what is there alone. `report` is called a few times a second
    by the thread that scans; once `stop` answers yes, the scan raises a Conflict. Whatever it
    raises, nothing is left behind.
    """
    source = recognise(uri, options)
    progress = Progress(source.uri, report, stop)
    with index_writer(into) as writer:
        progress.poll()
        head = source.collect(writer, progress)
        if not writer.samples.count:
            raise InvalidInput(_nothing(source, writer))
        progress.poll()
        summary = writer.finish(head, into)
    progress.end()
    return summary


def _nothing(source: Source, writer: IndexWriter) -> str:
    """Why there is no sample at all."""
    if writer.first_rejected is None:
        return source.expected
    name, reason = writer.first_rejected
    return (
        f"no sample of {source.uri} can be used: {writer.rejected} were rejected, "
        f"first {name}: {reason}"
    )
