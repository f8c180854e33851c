"""View models of the pages for keys and for signing in."""

from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from ddlp.core.messages.keys import KeyInfo
from ddlp.core.settings import LOOPBACK, Settings
from ddlp.core.types import Scope
from ddlp.server.identity import Identity
from ddlp.server.keys import UP
from ddlp.server.security import needed_scope

_MAY = {
    Scope.READ: "see runs, datasets, devices and figures, and export them",
    Scope.WORK: "what read may, and what workers and trainers do: make, fetch and report batches",
    Scope.ADMIN: "everything: make and end runs, add and remove datasets, allow folders, make and "
    "revoke keys",
}
_FOR = {
    Scope.READ: "people who look on, and Prometheus",
    Scope.WORK: "DDLP_KEY of workers and of training code",
    Scope.ADMIN: "people who run things here",
}


@dataclass(frozen=True)
class ScopeRow:
    """What a scope is for."""

    name: str
    may: str
    meant_for: str


@dataclass(frozen=True)
class KeyRow:
    """One key."""

    name: str
    scope: str
    state: str
    """`live` or `revoked`."""
    created_at: float
    last_used_at: float | None
    revoked_at: float | None
    note: str
    address: str
    """What revokes it, as method and path."""
    question: str


@dataclass(frozen=True)
class KeysView:
    """The page of keys."""

    required: bool
    loopback: bool
    """Whether only this machine reaches the server."""
    rows: list[KeyRow]
    scopes: list[ScopeRow]


@dataclass(frozen=True)
class SignInView:
    """The page for signing in."""

    target: str
    """Where it leads to."""
    required: bool
    refused: str
    """Why the key that is used now is not enough, if so."""


def keys_view(found: list[KeyInfo], settings: Settings, used: Identity | None) -> KeysView:
    """All keys, those that are good first."""
    rows = [_row(info, used) for info in found]
    rows.sort(key=lambda row: row.revoked_at is not None)
    return KeysView(
        required=settings.keys == "required",
        loopback=settings.host in LOOPBACK,
        rows=rows,
        scopes=[ScopeRow(s.value, _MAY[s], _FOR[s]) for s in Scope],
    )


def sign_in_view(wanted: str, required: bool, used: Identity | None) -> SignInView:
    """The form, and what was wrong with the key in use."""
    target = local_path(wanted)
    needed = needed_scope("GET", urlsplit(target).path)
    refused = ""
    if used is not None and not used.scope.covers(needed):
        refused = (
            f"You are signed in with key {used.name}, whose scope is {used.scope}. "
            f"{target} needs a key of scope {needed}."
        )
    return SignInView(target, required, refused)


def local_path(wanted: str) -> str:
    """A place on this server to go to; the front page for all that leads elsewhere."""
    plain = wanted.isprintable() and "\\" not in wanted
    return wanted if plain and wanted.startswith("/") and not wanted.startswith("//") else "/"


def _row(info: KeyInfo, used: Identity | None) -> KeyRow:
    mine = used is not None and used.name == info.name
    notes = ["the key in use here"] if mine else []
    if info.name == UP:
        notes.append("of the workers that ddlp up started; made anew at each start")
    warning = "You are signed in with it. " if mine else ""
    return KeyRow(
        name=info.name,
        scope=info.scope.value,
        state="live" if info.revoked_at is None else "revoked",
        created_at=info.created_at,
        last_used_at=info.last_used_at,
        revoked_at=info.revoked_at,
        note="; ".join(notes),
        address=f"POST /api/v1/keys/{quote(info.name, safe='')}/revoke",
        question=f"Revoke {info.name}? {warning}Whatever uses it is refused at once, for good.",
    )
