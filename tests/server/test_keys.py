"""Keys: shown once, kept as a hash, good until they are revoked, and named in the audit trail."""

import re
from pathlib import Path

import pytest
from sqlalchemy import select

from ddlp.core.errors import Conflict, InvalidInput, KeyRefused, NotFound
from ddlp.core.types import Prong, RunState, Scope
from ddlp.server import keys
from ddlp.server.identity import Identity, acting_as, actor, current
from ddlp.server.keys import Keyring
from ddlp.server.models import ApiKey, AuditEvent
from tests.conftest import Locked, UpProcess
from tests.server.conftest import Plane
from tests.server.driving import new_run, register

CROP = [{"name": "centre-crop", "size": 8}]


@pytest.fixture
def ring(plane: Plane) -> Keyring:
    """A keyring that is driven by hand."""
    return Keyring(plane.database, clock=lambda: plane.now)


def make(plane: Plane, name: str, scope: Scope = Scope.READ) -> str:
    with plane.database.session() as session:
        return keys.add(session, name, scope, plane.now).key


def last_used(plane: Plane, name: str) -> float | None:
    with plane.database.session() as session:
        return session.scalar(select(ApiKey.last_used_at).where(ApiKey.name == name))


@pytest.mark.parametrize("wanted", Scope)
def test_each_scope_covers_those_before_it(wanted: Scope) -> None:
    order = [Scope.READ, Scope.WORK, Scope.ADMIN]
    assert [s for s in order if s.covers(wanted)] == order[order.index(wanted) :]


def test_of_a_key_only_a_hash_is_kept(plane: Plane) -> None:
    key = make(plane, "ann")
    assert re.fullmatch(r"ddlp_[\w-]{43}", key)
    with plane.database.session() as session:
        row = session.scalars(select(ApiKey)).one()
        kept = " ".join(str(value) for value in vars(row).values())
        event = session.scalars(select(AuditEvent).where(AuditEvent.action == "key.create")).one()
    assert row.hash == keys.digest(key)
    assert key not in kept
    assert key not in str(event.detail)
    assert make(plane, "ben") != key


@pytest.mark.parametrize("name", ["local", "server", "up"])
def test_names_that_mean_something_else_are_refused(plane: Plane, name: str) -> None:
    with pytest.raises(InvalidInput, match="uses itself"):
        make(plane, name)


def test_a_name_is_not_used_twice_even_after_its_key_was_revoked(plane: Plane) -> None:
    make(plane, "ann")
    with plane.database.session() as session:
        keys.revoke(session, "ann", plane.now)
    with pytest.raises(Conflict, match="names are not used twice"):
        make(plane, "ann")


def test_a_key_is_known_by_its_name_until_it_is_revoked(plane: Plane, ring: Keyring) -> None:
    key = make(plane, "ann", Scope.WORK)
    assert ring.check(key) is None
    assert ring.search(key) == ring.check(key) == Identity("ann", Scope.WORK)
    with plane.database.session() as session:
        keys.revoke(session, "ann", plane.now)
        keys.revoke(session, "ann", plane.now + 5)
        assert keys.list_all(session)[0].revoked_at == plane.now
    ring.read()
    assert ring.check(key) is None
    assert ring.search(key) is None
    assert ring.search("ddlp_wrong") is None
    with plane.database.session() as session, pytest.raises(NotFound, match="no key nobody"):
        keys.revoke(session, "nobody", plane.now)


def test_the_last_use_is_written_at_most_once_a_minute(plane: Plane, ring: Keyring) -> None:
    key = make(plane, "ann")
    ring.read()
    ring.check(key)
    assert last_used(plane, "ann") is None
    ring.save_uses()
    assert last_used(plane, "ann") == 1000.0
    plane.now = 1030.0
    ring.check(key)
    ring.save_uses()
    assert last_used(plane, "ann") == 1000.0
    plane.now = 1070.0
    ring.check(key)
    ring.save_uses()
    assert last_used(plane, "ann") == 1070.0
    plane.now = 1071.0
    ring.check(key)
    ring.stop()
    assert last_used(plane, "ann") == 1071.0


def test_the_key_of_up_is_a_new_one_at_each_start(plane: Plane, ring: Keyring) -> None:
    def start() -> str:
        with plane.database.session() as session:
            return keys.replace_own(session, plane.now).key

    first, second = start(), start()
    assert ring.search(first) is None
    assert ring.search(second) == Identity("up", Scope.WORK)


def test_somebody_must_be_able_to_administer(plane: Plane) -> None:
    make(plane, "ann", Scope.WORK)
    with plane.database.session() as session:
        assert not keys.has_admin(session)
    make(plane, "boss", Scope.ADMIN)
    with plane.database.session() as session:
        assert keys.has_admin(session)
        keys.revoke(session, "boss", plane.now)
        assert not keys.has_admin(session)


def test_what_is_done_in_the_dispatchers_thread_has_the_name_of_who_asked(
    plane: Plane, images: Path
) -> None:
    register(plane, Prong.CPU)
    run = new_run(plane, images)
    with acting_as(Identity("ann", Scope.ADMIN)):
        paused = plane.dispatcher.change_state(run, RunState.PAUSED)
        assert actor() == "ann"
    assert current() is None
    paused.result(timeout=10)
    plane.dispatcher.change_state(run, RunState.RUNNING).result(timeout=10)
    with plane.database.session() as session:
        query = select(AuditEvent.action, AuditEvent.actor).order_by(AuditEvent.id)
        found = [tuple(row) for row in session.execute(query)]
    assert ("run.paused", "ann") in found
    assert ("run.running", "local") in found


def test_a_key_is_made_used_and_revoked_over_http(locked: Locked) -> None:
    with locked.up.client(locked.admin) as boss:
        made = boss.post("/keys", {"name": "dora", "scope": "admin"})
        with locked.up.client(made["key"]) as dora:
            dora.post("/pipelines", {"name": "doras", "transforms": CROP})
            [event] = dora.get("/audit?action=pipeline.add&subject=doras")
            assert event["actor"] == "dora"
            assert boss.post("/keys/dora/revoke")["revoked_at"] is not None
            with pytest.raises(KeyRefused, match="was revoked"):
                dora.get("/runs")
        listed = {key["name"]: key for key in boss.get("/keys")}
        assert "key" not in listed["dora"]
        assert listed["up"]["scope"] == "work"
        with pytest.raises(Conflict):
            boss.post("/keys", {"name": "dora"})
        with pytest.raises(InvalidInput, match="scope"):
            boss.post("/keys", {"name": "eve", "scope": "king"})


def test_a_key_names_who_acts_where_none_is_needed(up: UpProcess) -> None:
    with up.client() as nobody:
        key = nobody.post("/keys", {"name": "carl", "scope": "admin"})["key"]
        with up.client(key) as carl:
            carl.post("/pipelines", {"name": "carls", "transforms": CROP})
        [event] = nobody.get("/audit?action=pipeline.add&subject=carls")
        assert event["actor"] == "carl"
        nobody.post("/keys/carl/revoke")
