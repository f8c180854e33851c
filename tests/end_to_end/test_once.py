"""Every request that makes something can be repeated with its Idempotency-Key."""

import http.client
import json
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from ddlp.core.client import Client
from tests.conftest import SMALL_PIPELINE, UpProcess, make_images, wait_until


def send(up: UpProcess, path: str, body: dict[str, Any], key: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(urlsplit(up.url).netloc, timeout=30)
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    connection.request("POST", f"/api/v1{path}", json.dumps(body), headers)
    response = connection.getresponse()
    found = json.loads(response.read())
    connection.close()
    return response.status, found


def unique(word: str) -> str:
    return f"{word}-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def origin(up: UpProcess) -> str:
    """A cancelled run, which can be tried again and repeated."""
    with up.client() as client:
        body = {"name": unique("once"), "dataset": "fruit", "pipeline": "small", "epochs": 1}
        made = client.post("/runs", {**body, "batch_size": 8}, once=True)
        client.post(f"/runs/{made['name']}/cancel")
    return str(made["name"])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/runs", {"dataset": "fruit", "pipeline": "small", "batch_size": 8, "name": "{}"}),
        ("/runs/{origin}/clone", {"name": "{}"}),
        ("/runs/{origin}/retry", {"name": "{}"}),
        ("/keys", {"name": "{}", "scope": "read"}),
        ("/pipelines", {"name": "{}", **SMALL_PIPELINE}),
        ("/roots", {"path": "{folder}"}),
        ("/datasets", {"name": "{}", "uri": "{images}"}),
    ],
)
def test_it_is_made_once(
    up: UpProcess, origin: str, images: Path, path: str, body: dict[str, Any], tmp_path: Path
) -> None:
    places = {"{}": unique("made"), "{images}": str(images), "{folder}": str(tmp_path)}
    given = {name: places.get(str(value), value) for name, value in body.items()}
    path, key = path.format(origin=origin), str(uuid.uuid4())
    status, first = send(up, path, given, key)
    assert status in (201, 202), first
    assert send(up, path, given, key) == (status, first)
    field = next(iter(body))
    status, refused = send(up, path, {**given, field: unique("other")}, key)
    assert status == 422
    assert "Idempotency-Key" in refused["detail"]
    assert send(up, path, given, "with a space")[0] == 422


def test_a_packing_is_begun_once(up: UpProcess, api: Client, scratch: Path) -> None:
    name = unique("packed")
    make_images(scratch / name, 5)
    api.post("/datasets", {"name": name, "uri": str(scratch / name)}, once=True)
    wait_until(lambda: api.get(f"/datasets/{name}")["state"] == "ready")
    body = {"name": f"{name}-p", "into": str(scratch / f"{name}-p")}
    key = str(uuid.uuid4())
    status, first = send(up, f"/datasets/{name}/pack", body, key)
    assert status == 202, first
    assert send(up, f"/datasets/{name}/pack", body, key) == (status, first)
    status, _ = send(up, f"/datasets/{name}/pack", {**body, "name": "other"}, key)
    assert status == 422
    wait_until(lambda: api.get(f"/datasets/{name}-p")["state"] == "ready")


def test_a_rescan_is_begun_once(up: UpProcess, api: Client, scratch: Path) -> None:
    name, key = unique("again"), str(uuid.uuid4())
    make_images(scratch / name, 5)
    api.post("/datasets", {"name": name, "uri": str(scratch / name)}, once=True)
    wait_until(lambda: api.get(f"/datasets/{name}")["state"] == "ready")
    status, first = send(up, f"/datasets/{name}/rescan", {}, key)
    assert status == 202, first
    wait_until(lambda: api.get(f"/datasets/{name}")["rescan"]["state"] == "unchanged")
    assert send(up, f"/datasets/{name}/rescan", {}, key) == (status, first)
    assert api.get(f"/datasets/{name}")["rescan"]["state"] == "unchanged"
