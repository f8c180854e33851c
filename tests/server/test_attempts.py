"""Whoever guesses keys is refused unheard for a while; others are not."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from ddlp.core.types import Scope
from ddlp.server import keys
from ddlp.server.attempts import WINDOW_S, Attempts
from tests.server.apps import client_of
from tests.server.conftest import Plane


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_address_has_so_many_tries_a_minute() -> None:
    clock = Clock()
    attempts = Attempts(3, clock)
    for number in range(3):
        assert attempts.wait_s("10.0.0.1") == 0
        attempts.note("10.0.0.1", f"key{number}")
    clock.now += 20
    assert attempts.wait_s("10.0.0.1") == WINDOW_S - 20
    assert attempts.known("10.0.0.1", "key0")
    assert attempts.wait_s("10.0.0.2") == 0
    clock.now += WINDOW_S - 20
    assert attempts.wait_s("10.0.0.1") == 0
    assert not attempts.known("10.0.0.1", "key0")


def test_the_same_wrong_key_counts_once() -> None:
    attempts = Attempts(2, Clock())
    for _ in range(100):
        attempts.note("10.0.0.1", "old")
    assert attempts.wait_s("10.0.0.1") == 0


def test_addresses_of_one_site_count_together_and_memory_is_bounded() -> None:
    attempts = Attempts(2, Clock())
    for number in range(2):
        attempts.note(f"2001:db8::{number + 1:x}", f"key{number}")
    assert attempts.wait_s("2001:db8::ffff") > 0
    assert attempts.wait_s("2001:db8:0:1::1") == 0
    for number in range(5000):
        attempts.note(f"10.{number >> 8}.{number & 255}.1", "key")
    assert len(attempts._failed) <= 4096


@pytest.fixture
def client(plane: Plane) -> Iterator[TestClient]:
    with plane.database.session() as session:
        keys.add(session, "boss", Scope.ADMIN, 1.0)
    settings = plane.settings.model_copy(update={"keys": "required"})
    with client_of(plane, settings) as found:
        yield found


def test_guesses_are_refused_wherever_a_key_is_shown_and_a_good_key_is_not(
    plane: Plane, client: TestClient
) -> None:
    with plane.database.session() as session:
        good = keys.add(session, "ann", Scope.READ, 2.0).key
    assert client.get("/api/v1/runs", headers={"Authorization": f"Bearer {good}"}).is_success
    for number in range(20):
        shown = f"ddlp_{number}"
        if number % 2:
            answer = client.post("/api/v1/session", json={"key": shown})
        else:
            answer = client.get("/api/v1/runs", headers={"Authorization": f"Bearer {shown}"})
        assert answer.status_code == 401
    for answer in (
        client.post("/api/v1/session", json={"key": "ddlp_more"}),
        client.get("/api/v1/runs", headers={"Authorization": "Bearer ddlp_more"}),
    ):
        assert answer.status_code == 429
        assert "too many keys" in answer.json()["detail"]
        assert "ddlp_more" not in answer.text
    again = client.get("/api/v1/runs", headers={"Authorization": "Bearer ddlp_1"})
    assert again.status_code == 401, "a fleet with an old key is told so"
    assert client.get("/api/v1/runs", headers={"Authorization": f"Bearer {good}"}).is_success
