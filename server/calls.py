"""Calls to the dispatcher: what is to be done, who waits for it, and how it is answered."""

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.orm import Session

from ddlp.server import identity
from ddlp.server.board import Board
from ddlp.server.identity import Identity

Action = Callable[[Board, Session, float], Any]


@dataclass
class Call:
    """An action and who waits for it; a deferred one is answered later unless it fails."""

    action: Action
    answer: "Future[Any]"
    deferred: bool = False
    asked_by: Identity | None = field(default_factory=identity.current)
    """Whose key is behind it: known where the call is made, needed in the thread."""


class BadCallError(Exception):
    """A request failed in a way that nobody foresaw."""

    def __init__(self, answer: "Future[Any]", error: Exception) -> None:
        super().__init__(repr(error))
        self.answer = answer
        self.error = error


def settle(answer: "Future[Any]", result: Any) -> None:
    """Answer, unless whoever asked has gone meanwhile."""
    with suppress(InvalidStateError):
        if isinstance(result, Exception):
            answer.set_exception(result)
        else:
            answer.set_result(result)
