"""How large a body may be on each route, and that no more of it is read."""

import asyncio
import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from starlette.types import Message, Scope

from ddlp.core.types import Prong
from ddlp.server.bodies import holds_nul
from tests.server.apps import app_of, client_of
from tests.server.conftest import Plane
from tests.server.driving import register

JSON = {"Content-Type": "application/json"}
MIB = 1 << 20


@pytest.fixture
def client(plane: Plane) -> Iterator[TestClient]:
    with client_of(plane) as found:
        yield found


@pytest.mark.parametrize(
    ("path", "most"),
    [("/session", 4096), ("/runs", MIB), ("/pipelines", MIB), ("/leases/report", 16 * MIB)],
)
def test_a_body_is_as_large_as_its_route_allows(client: TestClient, path: str, most: int) -> None:
    fits = client.post(f"/api/v1{path}", content=b" " * most, headers=JSON)
    assert fits.status_code in (400, 422)
    answer = client.post(f"/api/v1{path}", content=b" " * (most + 1), headers=JSON)
    assert answer.status_code == 413
    assert f"{most:,} bytes" in answer.json()["detail"]


async def ask(plane: Plane, headers: dict[str, str], parts: list[bytes]) -> tuple[int, int]:
    """Send a body in parts; gives the status, and how many parts were asked for."""
    taken, statuses = 0, list[int]()

    async def receive() -> Message:
        nonlocal taken
        taken += 1
        return {"type": "http.request", "body": parts[taken - 1], "more_body": taken < len(parts)}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope: Scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/session",
        "raw_path": b"/api/v1/session",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), *raw],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "scheme": "http",
        "root_path": "",
        "http_version": "1.1",
    }
    await app_of(plane)(scope, receive, send)
    return statuses[0], taken


def test_nothing_is_read_of_what_is_said_to_be_too_large(plane: Plane) -> None:
    parts = [b"x" * MIB] * 600
    said = {**JSON, "Content-Length": str(600 * MIB)}
    assert asyncio.run(ask(plane, said, parts)) == (413, 0)
    assert asyncio.run(ask(plane, {**JSON, "Content-Length": "9" * 5000}, parts)) == (413, 0)
    assert asyncio.run(ask(plane, {**JSON, "Content-Length": "-1"}, parts)) == (422, 0)
    chunked = {**JSON, "Transfer-Encoding": "chunked"}
    assert asyncio.run(ask(plane, chunked, parts)) == (413, 1)
    assert asyncio.run(ask(plane, {**chunked, "Content-Type": "text/plain"}, parts)) == (415, 0)


def test_a_report_of_many_bad_samples_is_taken(client: TestClient, plane: Plane) -> None:
    register(plane, Prong.CPU)
    lease = {"run": "3d0ea6a8-7c3f-4dd8-8f2b-6c2f9ac3d0b9", "epoch": 0, "index": 0, "token": 1}
    bad = [{"sample": n, "name": f"{n}.jpg", "reason": "r" * 150} for n in range(20_000)]
    made = {"lease": lease, "nbytes": 1, "checksum": 1, "seconds": 1, "cpu_s": 1, "bad": bad}
    body = {"device": "cpu", "made": [made]}
    assert len(json.dumps(body)) > 3 * MIB
    answer = client.post("/api/v1/leases/report", json=body)
    assert answer.status_code == 200
    assert len(answer.json()["denied"]) == 1


@given(st.text(alphabet='\0\\u0a"/', max_size=12), st.booleans())
def test_a_nul_is_found_however_many_backslashes_are_before_it(said: str, ascii_only: bool) -> None:
    body = json.dumps({"name": said, said: 1}, ensure_ascii=ascii_only).encode()
    assert holds_nul(body) == ("\0" in said)


def test_a_body_of_as_many_brackets_as_levels_is_read(client: TestClient) -> None:
    for levels, is_deep in ((199, False), (201, True)):
        nested = "[" * levels + "]" * levels
        body = f'{{"name": "p", "transforms": {nested}}}'
        answer = client.post("/api/v1/pipelines", content=body, headers=JSON)
        assert (answer.status_code, "nested deeper" in answer.text) == (422, is_deep)
