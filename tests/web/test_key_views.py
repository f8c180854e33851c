"""The pages of keys and for signing in, in words; and where signing in may lead to."""

from typing import Any

import pytest

from ddlp.core.messages.keys import KeyInfo
from ddlp.core.settings import Settings
from ddlp.core.types import Scope
from ddlp.server.identity import Identity
from ddlp.web.key_views import KeyRow, keys_view, local_path, sign_in_view

BOSS = Identity("boss", Scope.ADMIN)


def key(name: str, **changes: Any) -> KeyInfo:
    usual: dict[str, Any] = {
        "scope": Scope.READ,
        "created_at": 5.0,
        "last_used_at": None,
        "revoked_at": None,
    }
    return KeyInfo(name=name, **usual | changes)


def rows(*found: KeyInfo, used: Identity | None = None) -> list[KeyRow]:
    return keys_view(list(found), Settings(), used).rows


def test_good_keys_stand_first_in_the_order_in_which_they_came() -> None:
    found = rows(key("old", revoked_at=9.0), key("b"), key("gone", revoked_at=8.0), key("a"))
    assert [row.name for row in found] == ["b", "a", "old", "gone"]
    assert [row.state for row in found] == ["live", "live", "revoked", "revoked"]


def test_a_key_that_was_not_used_yet_has_no_time_of_use() -> None:
    [found] = rows(key("a", scope=Scope.WORK))
    assert (found.scope, found.last_used_at, found.note) == ("work", None, "")


def test_revoking_is_asked_about_with_what_it_means() -> None:
    [mine] = rows(key("boss"), used=BOSS)
    [other] = rows(key("a/b?"), used=BOSS)
    assert mine.note == "the key in use here"
    assert mine.question == (
        "Revoke boss? You are signed in with it. Whatever uses it is refused at once, for good."
    )
    assert other.question == "Revoke a/b?? Whatever uses it is refused at once, for good."
    assert other.address == "POST /api/v1/keys/a%2Fb%3F/revoke"


def test_the_key_of_the_servers_own_workers_says_whose_it_is() -> None:
    [found] = rows(key("up", scope=Scope.WORK))
    assert found.note == "of the workers that ddlp up started; made anew at each start"


def test_a_server_that_others_reach_without_a_key_says_so() -> None:
    found = keys_view([], Settings(host="0.0.0.0", unsafe_listen=True), None)
    assert not found.loopback
    assert keys_view([], Settings(keys="required"), None).required


def test_every_scope_says_what_it_may_and_for_whom_it_is() -> None:
    found = keys_view([], Settings(), None)
    assert not found.required
    assert found.loopback
    assert [scope.name for scope in found.scopes] == [scope.value for scope in Scope]
    assert all(scope.may and scope.meant_for for scope in found.scopes)


@pytest.mark.parametrize("wanted", ["/", "/runs/r50?epoch=2", "/runs/new?clone=a%20b", "/keys#x"])
def test_signing_in_leads_on_to_what_was_wanted(wanted: str) -> None:
    assert local_path(wanted) == sign_in_view(wanted, True, None).target == wanted


@pytest.mark.parametrize(
    "wanted",
    [
        "",
        "runs",
        "//evil.example",
        "///evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "/\n/evil.example",
    ],
)
def test_signing_in_never_leads_to_another_server(wanted: str) -> None:
    assert local_path(wanted) == "/"


def test_a_key_that_is_not_enough_is_named_with_what_is_needed() -> None:
    found = sign_in_view("/keys", True, Identity("guest", Scope.READ))
    assert found.refused == (
        "You are signed in with key guest, whose scope is read. /keys needs a key of scope admin."
    )
    assert sign_in_view("/keys", True, BOSS).refused == ""
    assert sign_in_view("/runs/r50", True, Identity("guest", Scope.READ)).refused == ""
    assert sign_in_view("/keys", True, None).refused == ""
