"""Keys: random, shown once, kept as a hash; who shows a good one is known by its name.

A key is looked up by its hash in memory. Keys that another process made are found in the database
when they are first shown; those that another process revoked are noticed within seconds.
"""

import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Callable

from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.orm import Session

from ddlp.core.errors import Conflict, InvalidInput, NotFound, TooMany, Unavailable
from ddlp.core.messages.keys import KeyInfo, KeyMade
from ddlp.core.outage import Outage
from ddlp.core.types import Scope
from ddlp.server.attempts import Attempts
from ddlp.server.database import Database, away
from ddlp.server.identity import LOCAL, Identity
from ddlp.server.ledger import audit
from ddlp.server.models import ApiKey

PREFIX = "ddlp_"
UP = "up"
"""The key of the parts that `ddlp up` starts."""

_RESERVED = frozenset({LOCAL, "server", UP})
_RANDOM_BYTES = 32
_MOST_UNKNOWN = 20
_PERIOD_S = 2.0
_USE_PERIOD_S = 60.0
"""The last use is written at most so often."""

log = logging.getLogger(__name__)


def digest(key: str) -> str:
    """What is kept of a key."""
    return hashlib.sha256(key.encode()).hexdigest()


def add(session: Session, name: str, scope: Scope, now: float) -> KeyMade:
    """Make a key; the answer is the only place where it can be read."""
    if name in _RESERVED:
        raise InvalidInput(f"a key cannot be called {name!r}, which DDLP uses itself; choose again")
    if _find(session, name) is not None:
        raise Conflict(f"there is, or was, a key called {name}; names are not used twice")
    return _insert(session, name, scope, now)


def replace_own(session: Session, now: float) -> KeyMade:
    """A new key for the parts that `ddlp up` starts, in place of the one before."""
    old = _find(session, UP)
    if old is not None:
        session.delete(old)
        session.flush()
    return _insert(session, UP, Scope.WORK, now)


def is_good(session: Session, key: str) -> bool:
    """Whether a key was made here and not revoked since."""
    query = select(ApiKey.id).where(ApiKey.hash == digest(key), ApiKey.revoked_at.is_(None))
    return session.scalar(query) is not None


def revoke(session: Session, name: str, now: float) -> KeyInfo:
    """Make a key useless for good; doing so twice is harmless."""
    row = _find(session, name)
    if row is None:
        raise NotFound(f"there is no key {name}; list them with: ddlp keys list")
    if row.revoked_at is None:
        row.revoked_at = now
        audit(session, "key.revoke", name, now, scope=row.scopes[0])
    return info(row)


def list_all(session: Session) -> list[KeyInfo]:
    """All keys there are and were, the newest first."""
    rows = session.scalars(select(ApiKey).order_by(ApiKey.created_at.desc(), ApiKey.name))
    return [info(row) for row in rows]


def has_admin(session: Session) -> bool:
    """Whether somebody can administer a server that asks for keys."""
    good = session.scalars(select(ApiKey.scopes).where(ApiKey.revoked_at.is_(None)))
    return any(Scope.ADMIN.value in scopes for scopes in good)


def info(row: ApiKey) -> KeyInfo:
    """A key as it is told of."""
    return KeyInfo(
        name=row.name,
        scope=Scope(row.scopes[0]),
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        revoked_at=row.revoked_at,
    )


class Keyring(threading.Thread):
    """The good keys in memory, by their hashes; when they were used is written now and then."""

    def __init__(
        self,
        database: Database,
        clock: Callable[[], float] = time.time,
        attempts: Attempts | None = None,
    ) -> None:
        super().__init__(name="keys", daemon=True)
        self._attempts = attempts or Attempts(_MOST_UNKNOWN)
        self._database = database
        self._clock = clock
        self._known: dict[str, Identity] = {}
        self._used: dict[str, float] = {}
        self._saved: dict[str, float] = {}
        self._reading = threading.Lock()
        self._stopping = threading.Event()
        self.read()

    def run(self) -> None:
        """Write what was used, and read what others changed, until told to stop."""
        outage = Outage(log, "keys cannot be read, those known stay good")
        while not self._stopping.wait(_PERIOD_S):
            try:
                self.save_uses()
                self.read()
            except (SQLAlchemyError, Unavailable) as error:
                outage.failed(error)
            else:
                outage.succeeded()

    def stop(self) -> None:
        """End, and write the last uses."""
        self._stopping.set()
        if self.is_alive():
            self.join(timeout=10)
        try:
            self.save_uses(every=True)
        except (SQLAlchemyError, Unavailable) as error:
            log.warning("when keys were used last is lost: %s", error)

    def check(self, key: str) -> Identity | None:
        """Who shows this key, as far as is known here: one look into a table."""
        found = self._known.get(digest(key))
        if found is not None:
            self._used[found.name] = self._clock()
        return found

    def knows(self, identity: Identity) -> bool:
        """Whether a key that was good still is, as far as is known here."""
        return identity in self._known.values()

    def find(self, key: str, address: str) -> Identity | None:
        """Who shows a key that is not known here; an address that tries many is refused unheard."""
        hashed = digest(key)
        if self._attempts.known(address, hashed):
            return None
        wait_s = self._attempts.wait_s(address)
        if wait_s > 0:
            raise TooMany(
                f"{address} has shown too many keys that are not known; try again in {wait_s:.0f} s"
            )
        found = self.search(key)
        if found is None:
            self._attempts.note(address, hashed)
        return found

    def search(self, key: str) -> Identity | None:
        """The same for a key that is not known here, and may have been made by another process."""
        if not key.startswith(PREFIX):
            return None
        try:
            with self._database.session() as session:
                if not is_good(session, key):
                    return None
            self.read()
        except SQLAlchemyError as error:
            raise away(error) from error
        return self.check(key)

    def read(self) -> None:
        """Take over what the database says: revoked keys are good no longer."""
        # One after the other: what was read first must not be taken over last.
        with self._reading, self._database.session() as session:
            rows = session.scalars(select(ApiKey).where(ApiKey.revoked_at.is_(None)))
            self._known = {row.hash: Identity(row.name, Scope(row.scopes[0])) for row in rows}

    def save_uses(self, *, every: bool = False) -> None:
        """Write when keys were used last, where what is written is a minute old."""
        due = {
            name: at
            for name, at in self._used.copy().items()
            if at > self._saved.get(name, 0.0) + (0.0 if every else _USE_PERIOD_S)
        }
        if not due:
            return
        with self._database.session() as session:
            for name, at in due.items():
                session.execute(update(ApiKey).where(ApiKey.name == name).values(last_used_at=at))
        self._saved |= due


def _find(session: Session, name: str) -> ApiKey | None:
    return session.scalar(select(ApiKey).where(ApiKey.name == name))


def _insert(session: Session, name: str, scope: Scope, now: float) -> KeyMade:
    key = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    session.add(ApiKey(name=name, hash=digest(key), scopes=[scope.value], created_at=now))
    audit(session, "key.create", name, now, scope=scope.value)
    try:
        session.flush()
    except IntegrityError as error:
        raise Conflict(f"a key called {name} was made just now; choose another name") from error
    return KeyMade(name=name, scope=scope, created_at=now, key=key)
