"""Make system calls of running processes fail for a while, with the errors of a real system.

`strace` attaches to the processes and answers the calls instead of the kernel.
"""

import functools
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_ATTACHED = "attached"


@functools.cache
def cannot_attach() -> str:
    """Return why errors cannot be injected on this machine, or an empty string."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        try:
            with failing([process.pid], "openat", "EIO"):
                return ""
        except RuntimeError as error:
            return str(error)
        finally:
            process.kill()


@contextmanager
def failing(processes: list[int], calls: str, error: str) -> Iterator[None]:
    """Have these calls of the processes, and of all their threads, fail with an error."""
    attached = [option for process in processes for option in ("-p", str(process))]
    inject = ["-e", f"trace={calls}", "-e", f"inject={calls}:error={error}"]
    tracer = subprocess.Popen(
        ["strace", "-f", "-o", "/dev/null", *inject, *attached], stderr=subprocess.PIPE, text=True
    )
    assert tracer.stderr is not None
    try:
        for _ in processes:
            line = tracer.stderr.readline()
            if _ATTACHED not in line:
                raise RuntimeError(f"strace cannot attach: {line.strip() or 'it ended'}")
        yield
    finally:
        tracer.terminate()
        tracer.stderr.close()
        tracer.wait(30)
