"""Loaded at the start of every process of a stack that tests do harm to: it kills itself on demand.

A trap is a file in the folder TRAPS, named after the moment at which it springs; the process that
takes it away is killed there, as by kill -9, or by the signal that the file names.
"""

import http.client
import os
import re
import signal
import sqlite3.dbapi2
import sys
from typing import Any


def spring(moment: str) -> None:
    trap = os.path.join(os.environ["TRAPS"], moment)
    try:
        with open(trap) as file:
            name = file.read() or "SIGKILL"
        os.unlink(trap)
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.Signals[name])


def trap_requests(kind: type[http.client.HTTPConnection]) -> None:
    """Moments `before-claim`, `after-claim` and so on: around a request, by its last word."""
    request, getresponse = kind.request, kind.getresponse
    last = "word_of_the_request"

    def trapped_request(self: Any, method: str, url: str, *rest: Any, **options: Any) -> None:
        setattr(self, last, url.rpartition("/")[2])
        spring(f"before-{getattr(self, last)}")
        request(self, method, url, *rest, **options)

    def trapped_getresponse(self: Any) -> http.client.HTTPResponse:
        response = getresponse(self)
        spring(f"after-{getattr(self, last)}")
        return response

    kind.request, kind.getresponse = trapped_request, trapped_getresponse  # type: ignore


class Connection(sqlite3.Connection):
    """Moments `before-commit-runs`, `after-commit-runs`: by the tables that were written to."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.tables: set[str] = set()
        self.set_trace_callback(self.note)

    def note(self, statement: str) -> None:
        if found := re.match(r"INSERT INTO (\w+)", statement):
            self.tables.add(found[1])

    def commit(self) -> None:
        tables, self.tables = self.tables, set()
        for table in tables:
            spring(f"before-commit-{table}")
        super().commit()
        for table in tables:
            spring(f"after-commit-{table}")

    def rollback(self) -> None:
        self.tables = set()
        super().rollback()


def trap_commits() -> None:
    connect = sqlite3.dbapi2.connect

    def trapped_connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        return connect(*arguments, factory=Connection, **options)

    sqlite3.dbapi2.connect = trapped_connect  # type: ignore


if "TRAPS" in os.environ:
    trap_requests(http.client.HTTPConnection)
    if "serve" in sys.orig_argv:
        trap_commits()
