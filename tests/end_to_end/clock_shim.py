"""A library that sets the clock of single processes back or forth, loaded before all others."""

import functools
import shutil
import subprocess
from pathlib import Path

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static time_t ahead_s(void) {
    const char *given = getenv("CLOCK_AHEAD_S");
    return given ? atol(given) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *found) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, found);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        found->tv_sec += ahead_s();
    return result;
}

int gettimeofday(struct timeval *found, void *zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    found->tv_sec = now.tv_sec;
    found->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *found) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return (time_t)-1;
    if (found) *found = now.tv_sec;
    return now.tv_sec;
}
"""


@functools.cache
def compiler() -> str | None:
    """Return the C compiler of this machine."""
    return shutil.which("cc")


def build(folder: Path) -> Path:
    """Build the library."""
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(_SOURCE)
    command = [str(compiler()), "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return library


def ahead(library: Path, seconds: int) -> dict[str, str]:
    """Return the variables that set the clock of a process ahead, or back."""
    return {"LD_PRELOAD": str(library), "CLOCK_AHEAD_S": str(seconds)}
