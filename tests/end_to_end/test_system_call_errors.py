"""System calls of one part fail for a second: the epoch is exact, and the run goes on."""

import time

import pytest

from ddlp.core.client import Client
from tests.conftest import UpProcess, wait_until
from tests.end_to_end.harm import pool
from tests.end_to_end.system_calls import cannot_attach, failing
from tests.end_to_end.test_epoch import ONCE
from tests.end_to_end.trainer import new_run
from tests.loops import Loop, counts

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

LASTS_S = 1.0
OPENING = "open,openat"
READING = "pread64,preadv,preadv2"
WRITING = "pwrite64,pwritev,pwritev2"
RENAMING = "rename,renameat,renameat2"
SYNCING = "fsync,fdatasync"
GROWING = "ftruncate,fallocate"
LISTING = "getdents64"
LOOKING = "stat,statx,newfstatat"

WORKER_ERRORS = [
    (OPENING, "EMFILE"),
    (OPENING, "EIO"),
    (OPENING, "ENOMEM"),
    (OPENING, "ESTALE"),
    (READING, "EIO"),
    (WRITING, "EIO"),
    (WRITING, "ENOSPC"),
    (RENAMING, "EIO"),
    (RENAMING, "ENOSPC"),
    (GROWING, "ENOSPC"),
    (SYNCING, "EIO"),
    (LOOKING, "EIO"),
    ("mmap", "ENOMEM"),
    ("connect", "ETIMEDOUT"),
]
SERVER_ERRORS = [
    (OPENING, "EMFILE"),
    ("accept,accept4", "EMFILE"),
    (READING, "EIO"),
    (WRITING, "EIO"),
    (WRITING, "ENOSPC"),
    (SYNCING, "EIO"),
    ("connect", "ECONNREFUSED"),
]
TRAINER_ERRORS = [
    (OPENING, "EMFILE"),
    (OPENING, "EIO"),
    (READING, "EIO"),
    (LOOKING, "EIO"),
    ("mmap", "ENOMEM"),
    ("connect", "ETIMEDOUT"),
]
SCENARIOS = [
    *(("cpu", *error) for error in WORKER_ERRORS),
    *(("csd", *error) for error in WORKER_ERRORS),
    *(("serve", *error) for error in SERVER_ERRORS),
    *(("trainer", *error) for error in TRAINER_ERRORS),
]


@pytest.fixture(autouse=True)
def _attachable() -> None:
    if reason := cannot_attach():
        pytest.skip(reason)


@pytest.mark.parametrize(
    ("part", "calls", "error"), SCENARIOS, ids=["-".join(found) for found in SCENARIOS]
)
def test_an_error_that_passes_loses_nothing_and_ends_nothing(
    victim: UpProcess, client: Client, part: str, calls: str, error: str
) -> None:
    run = new_run(client, batch_size=1, strategy="wrr")
    with Loop() as loop:
        loop.open(run=run, url=victim.url, prefetch=2)
        got = loop.take(5)
        with failing(_processes(victim, loop, part), calls, error):
            loop.tell("take", None)
            time.sleep(LASTS_S)
        got += loop.answer()
        assert counts(got) == ONCE
        wait_until(lambda: client.get(f"/runs/{run}")["state"] == "completed", 60)
    certificate = client.get(f"/runs/{run}/epochs/0/certificate")
    assert certificate["exactly_once"]
    assert not certificate["isolated"]
    assert not certificate["bad"]


def _processes(stack: UpProcess, loop: Loop, part: str) -> list[int]:
    if part == "trainer":
        return [loop.pid]
    main = stack.children()[part]
    return [main, *pool(main)] if part in ("cpu", "csd") else [main]
