"""Scans in a process apart: a scan decodes whatever it is given, and a file can crash its decoder.

`python -m ddlp.core.dataset.scan_process` is given the number of the process that it ends with. It
reads a request, one line of JSON, from standard input, and stops once that is closed. It writes
lines of JSON to standard output: how far it is, again and again, and last how it ended.
"""

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, BinaryIO, Literal

from ddlp.core.dataset.progress import ScanOptions, ScanProgress
from ddlp.core.dataset.scan import scan
from ddlp.core.dataset.writer import delete_index
from ddlp.core.errors import Conflict, DdlpError, from_status
from ddlp.core.messages import Message
from ddlp.core.process import die_with_parent, own_stdout

_MODULE = "ddlp.core.dataset.scan_process"
_POLL_S = 0.1
_GRACE_S = 1.0
_GONE_S = 5.0


class ScanRequest(Message):
    """What the child is to scan, and how."""

    uri: Path
    into: Path
    allowed: tuple[Path, ...] | None
    check: Literal["quick", "full"]
    threads: int
    as_classes: bool = False

    @property
    def options(self) -> ScanOptions:
        """How to go about it."""
        return ScanOptions(self.allowed, self.check, self.as_classes, self.threads)


class ScanLine(Message):
    """What the child says: how far it is, or with a status how it ended; 0 is well."""

    found: int = 0
    done: int = 0
    rejected: int = 0
    bytes: int = 0
    current: str = ""
    status: int | None = None
    reason: str = ""

    @property
    def progress(self) -> ScanProgress:
        """How far it is."""
        return ScanProgress(self.found, self.done, self.rejected, self.bytes, self.current)


def scan_apart(
    uri: Path,
    into: Path,
    options: ScanOptions,
    report: Callable[[ScanProgress], None],
    stop: Callable[[], bool],
) -> None:
    """Do what `scan` does in a child; if that dies, the error names the signal and the last file.

    `report` and `stop` are called a few times a second by this thread. Whatever it raises, nothing
    is left behind.
    """
    request = ScanRequest(
        uri=uri,
        into=into,
        allowed=options.allowed,
        check=options.check,
        threads=options.threads,
        as_classes=options.as_classes,
    )
    try:
        with _child(request) as child:
            _follow(child, request, report, stop)
    except BaseException:
        remove_traces(into)
        raise


def remove_traces(into: Path) -> None:
    """Remove an index and what a scan that was ended left on the way to it."""
    delete_index(into)
    for folder in into.parent.glob(f".{into.name}.*"):
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _child(request: ScanRequest) -> Iterator["subprocess.Popen[bytes]"]:
    """A child at work on a request; it has ended afterwards, one way or the other."""
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", _MODULE, str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the parent, which then stops it
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        with contextlib.suppress(BrokenPipeError):  # it died at once, as its status will tell
            child.stdin.write(request.model_dump_json().encode() + b"\n")
            child.stdin.flush()
        yield child
    finally:
        _close(child.stdin)
        _end(child)
        child.stdout.close()


def _follow(
    child: "subprocess.Popen[bytes]",
    request: ScanRequest,
    report: Callable[[ScanProgress], None],
    stop: Callable[[], bool],
) -> None:
    """Pass on what the child says, until it said how it ended."""
    assert child.stdout is not None
    current = ""
    for raw in _lines(child.stdout):
        if stop():
            raise Conflict(f"the scan of {request.uri} was stopped; nothing of it was kept")
        if raw is None:
            continue
        line = ScanLine.model_validate_json(raw)
        if line.status == 0:
            return
        if line.status is not None:
            raise from_status(line.status, line.reason)
        current = line.current or current
        report(line.progress)
    raise DdlpError(_last_words(_end(child), request.uri, current))


def _lines(pipe: IO[bytes]) -> Iterator[bytes | None]:
    """The lines of a pipe up to its end; None now and then while there are none."""
    held = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if not selector.select(_POLL_S):
                yield None
                continue
            got = os.read(pipe.fileno(), 1 << 16)
            if not got:
                return
            *lines, held = (held + got).split(b"\n")
            yield from lines


def _end(child: "subprocess.Popen[bytes]") -> int | None:
    """Wait for the child's end, and bring it about if need be; None if even that does not help."""
    try:
        return child.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()
    try:
        return child.wait(_GONE_S)
    except subprocess.TimeoutExpired:  # it waits for a disk that does not answer
        return None


def _last_words(status: int | None, uri: Path, current: str) -> str:
    how = f"with status {status}"
    if status is not None and status < 0:
        how = f"by {signal.Signals(-status).name}"
    place = f"at or soon after {current}" if current else "at one of its first files"
    return (
        f"the scan of {uri} was ended {how} {place}; if a file there crashes its decoder, move it "
        "away, then scan it again"
    )


def _close(pipe: IO[bytes]) -> None:
    with contextlib.suppress(BrokenPipeError):
        pipe.close()


def serve(orders: BinaryIO, answers: BinaryIO) -> None:
    """The child: do one scan."""

    def say(line: ScanLine) -> None:
        answers.write(line.model_dump_json().encode() + b"\n")
        answers.flush()

    request = ScanRequest.model_validate_json(orders.readline())
    unwanted = threading.Event()
    threading.Thread(target=_wait_for_end, args=(orders.fileno(), unwanted), daemon=True).start()
    try:
        scan(
            request.uri,
            request.into,
            request.options,
            lambda now: say(ScanLine(**asdict(now))),
            unwanted.is_set,
        )
    except DdlpError as error:
        say(ScanLine(status=error.status, reason=str(error)))
    except Exception as error:  # the border of the process: whoever asked must learn of it
        traceback.print_exc()
        say(ScanLine(status=DdlpError.status, reason=f"{type(error).__name__}: {error}"))
    else:
        say(ScanLine(status=0))


def _wait_for_end(orders: int, unwanted: threading.Event) -> None:
    while os.read(orders, 1):
        pass
    unwanted.set()


def main() -> None:
    """Scan for the process that started this one."""
    die_with_parent(int(sys.argv[1]))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # sent to all of a service; its parent stops it
    with own_stdout() as answers:
        serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
