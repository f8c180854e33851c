"""What no database keeps is refused before it gets there, and no answer holds a statement."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from starlette.testclient import TestClient

from ddlp.core.types import Prong
from ddlp.server.models import AuditEvent
from tests.server.apps import client_of
from tests.server.conftest import Plane
from tests.server.driving import new_run, register

HUGE = 2**64
RUN = "fruit-run"


@pytest.fixture
def client(either_plane: Plane, images: Path) -> Iterator[TestClient]:
    register(either_plane, Prong.CPU)
    new_run(either_plane, images, name=RUN)
    with client_of(either_plane) as found:
        yield found


ADDRESSES = [
    "/api/v1/audit?before={}",
    "/audit?before={}",
    f"/api/v1/runs/{RUN}/bad-samples?before={{}}",
    "/api/v1/datasets/fruit/quarantine?offset={}",
    "/api/v1/datasets/fruit/rejected?offset={}",
    "/api/v1/datasets/fruit/samples?offset={}",
    "/api/v1/datasets/fruit/samples?seed={}",
    "/api/v1/datasets/fruit/samples/{}/thumbnail",
    "/api/v1/datasets/fruit/preview?epoch={}",
    f"/api/v1/runs/{RUN}/epochs/{{}}/certificate",
    f"/api/v1/runs/{RUN}/verify?first={{}}",
    f"/api/v1/runs/{RUN}/export?period={{}}",
    "/api/v1/runs?after={}",
]
WITH_NUL = [
    ("GET", "/api/v1/audit?subject=%00"),
    ("GET", "/api/v1/audit?action=a%00b"),
    ("GET", "/api/v1/datasets/fruit/preview?pipeline=%00"),
    ("GET", "/api/v1/runs/compare?run=%00&run=x"),
    ("GET", "/api/v1/runs?search=%00"),
    ("GET", "/runs/x%00r"),
    ("POST", "/api/v1/runs/x%00r/pause"),
    ("DELETE", "/api/v1/pipelines/x%00"),
]


def device(**changes: Any) -> dict[str, Any]:
    usual = {
        "name": "pool",
        "prong": "cpu",
        "kind": "host",
        "slots": 1,
        "host": "here",
        "incarnation": "3d0ea6a8-7c3f-4dd8-8f2b-6c2f9ac3d0b9",
        "engine": "fused",
        "store": "file:///tmp/store",
        "power": {"active_w": 1, "source": "test"},
    }
    return usual | changes


BODIES: list[tuple[str, dict[str, Any]]] = [
    ("/devices", device(host="a\0b")),
    ("/devices", device(room={"used_bytes": HUGE})),
    ("/devices", device(slots=True)),
    ("/devices", device(slots="1")),
    ("/devices", device(power={"active_w": "1", "source": "test"})),
    ("/runs", {"dataset": "fruit", "seed": HUGE}),
    ("/runs", {"dataset": "fruit", "batch_size": False}),
    ("/runs", {"dataset": "fruit", "reshuffle": 1}),
    ("/runs/cancel", {"runs": ["a\0"]}),
    ("/pipelines", {"name": "p", "transforms": [{"name": "resize", "size": HUGE}]}),
    ("/pipelines", {"name": "p", "transforms": [{"name": "a\0"}]}),
    (f"/runs/{RUN}/extend", {"epochs": 1e300}),
    ("/datasets", {"uri": "/x\0"}),
    ("/roots", {"path": "/x\0"}),
]


def test_no_number_is_beyond_64_bits_and_no_text_holds_a_nul(client: TestClient) -> None:
    for path, number in itertools.product(ADDRESSES, (HUGE, -HUGE, 10**400)):
        assert client.get(path.format(number)).status_code == 422, path
    for method, path in WITH_NUL:
        answer = client.request(method, path, json=None if method == "GET" else {})
        assert answer.status_code == 422, path
        assert "NUL" in answer.text
    for path, body in BODIES:
        assert client.post(f"/api/v1{path}", json=body).status_code == 422, (path, body)


@pytest.fixture
def bare(plane: Plane) -> Iterator[TestClient]:
    with client_of(plane) as found:
        yield found


def test_a_backslash_before_a_code_is_no_nul(bare: TestClient) -> None:
    answer = bare.post("/api/v1/runs", json={"dataset": "fruit", "strategy": "\\u0000"})
    assert "NUL" not in answer.text
    assert answer.status_code == 422


def test_a_body_is_nested_only_so_deep(bare: TestClient) -> None:
    deep = json.loads("[" * 190 + "]" * 190)
    for levels, words in ((deep, "transforms"), ([deep] * 20, "transforms")):
        answer = bare.post("/api/v1/pipelines", json={"name": "p", "transforms": levels})
        assert (answer.status_code, words in answer.text) == (422, True)
    body = b'{"name": "p", "transforms": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    answer = bare.post(
        "/api/v1/pipelines", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 422
    assert "nested deeper" in answer.text


def test_an_error_of_the_database_is_told_without_its_statement(
    plane: Plane,
) -> None:
    with client_of(plane) as client, plane.database.engine.begin() as connection:
        connection.execute(text(f"alter table {AuditEvent.__tablename__} rename to elsewhere"))
    for path in ("/api/v1/audit", "/audit"):
        answer = client.get(path)
        assert answer.status_code == 503
        assert "select" not in answer.text.lower()
        assert "no such table" in answer.text
