"""A request that makes something is done once, however often it is sent with its Idempotency-Key.

The answer is kept in the transaction in which the thing is made: whoever repeats the request gets
that answer, also after a crash in between. An answer may hold a key, of which the database keeps
only a hash: so answers are encrypted with their Idempotency-Key, of which only a hash is kept too.
"""

import base64
import hashlib
import json
from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import Depends, Header, Request
from sqlalchemy import delete, update
from sqlalchemy.orm import Session

from ddlp.core.errors import InvalidInput, Unavailable
from ddlp.core.messages import Message
from ddlp.server.database import Database, insert_of
from ddlp.server.identity import actor
from ddlp.server.models import KeptAnswer

M = TypeVar("M", bound=Message)

_KeyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="Random characters, such as a UUID. The same key with the same body gets the "
        "same answer, and makes nothing again; with another body it is refused.",
    ),
]


class Once:
    """A request that makes something, and its key if it has one."""

    def __init__(self, key: str | None, request: str, now: float) -> None:
        self._key = key
        self._now = now
        """By the clock of the dispatcher, which lets keys expire."""
        self._request = request
        self._id = _digest(actor(), key or "")

    def answer(self, session: Session, kind: type[M], make: Callable[[], M]) -> tuple[M, bool]:
        """What is made now, or what was answered before; and whether it is new."""
        if self._key is None:
            return make(), True
        row = {"id": self._id, "request": self._request, "answer": "", "at": self._now}
        claim = insert_of(session)(KeptAnswer).values(row).on_conflict_do_nothing()
        claim = claim.returning(KeptAnswer.id)
        # Of two at once, the second waits here until the first is written or undone.
        if session.scalar(claim) is None:
            known = self.known(session, kind)
            if known is None:  # it was forgotten this moment
                raise Unavailable("the Idempotency-Key has just expired; send the request again")
            return known, False
        made = make()
        sealed = base64.b64encode(self._encrypt(made.model_dump_json().encode())).decode()
        session.execute(update(KeptAnswer).where(KeptAnswer.id == self._id).values(answer=sealed))
        return made, True

    def answer_after(self, database: Database, kind: type[M], begin: Callable[[], M]) -> M:
        """The same for what has transactions of its own, and is there already if begun twice."""
        with database.session() as session:
            known = self.known(session, kind)
        if known is not None:
            return known
        begun = begin()
        with database.session() as session:
            return self.answer(session, kind, lambda: begun)[0]

    def known(self, session: Session, kind: type[M]) -> M | None:
        """What was answered before, if anything."""
        row = session.get(KeptAnswer, self._id) if self._key is not None else None
        if row is None:
            return None
        if row.request != self._request:
            raise InvalidInput(
                "this Idempotency-Key was used for another request; send each new request with a "
                "new key"
            )
        return kind.model_validate_json(self._encrypt(base64.b64decode(row.answer)))

    def _encrypt(self, text: bytes) -> bytes:
        """Encrypt or decrypt: each key is used for one text only."""
        stream = hashlib.shake_256(f"answer {self._id} {self._key}".encode()).digest(len(text))
        return bytes(a ^ b for a, b in zip(text, stream, strict=True))


async def get_once(request: Request, idempotency_key: _KeyHeader = None) -> Once:
    """How often the request at hand may take effect."""
    asked = "" if idempotency_key is None else _sense(await request.body())
    now = request.app.state.context.dispatcher.now()
    return Once(idempotency_key, _digest(request.method, request.url.path, asked), now)


OnceDep = Annotated[Once, Depends(get_once)]


def forget_answers(session: Session, kept_h: float, now: float) -> None:
    """Let keys expire."""
    session.execute(delete(KeptAnswer).where(KeptAnswer.at < now - kept_h * 3600))


def _sense(body: bytes) -> str:
    """The same for two bodies that say the same; a route that reads nothing of one takes any."""
    try:
        return json.dumps(json.loads(body), sort_keys=True) if body else ""
    except ValueError:
        return f"not JSON: {body.hex()}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
