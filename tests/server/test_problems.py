"""Errors are problem details with a stable type, and the description of the API says which come."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from ddlp.core.types import Prong
from ddlp.server import openapi
from ddlp.server.security import CHANGING
from tests.server.apps import app_of, client_of
from tests.server.conftest import Plane
from tests.server.driving import new_run, register

HEAD = ("type", "title", "status", "detail")


@pytest.fixture
def client(plane: Plane) -> Iterator[TestClient]:
    with client_of(plane) as found:
        yield found


@pytest.fixture
def described(plane: Plane) -> dict[str, Any]:
    return app_of(plane).openapi()


def operations(described: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, found in described["paths"].items():
        for method, operation in found.items():
            yield openapi.name_of(method, path), operation


def test_an_error_is_told_as_problem_details(client: TestClient) -> None:
    asked: list[tuple[str, str, dict[str, Any], int, str]] = [
        ("GET", "/api/v1/runs/nothing", {}, 404, "not-found"),
        ("GET", "/api/v1/nothing", {}, 404, "not-found"),
        ("GET", "/nothing", {}, 404, "not-found"),
        ("PUT", "/api/v1/runs", {}, 405, "wrong-method"),
        ("POST", "/api/v1/runs", {"content": "x"}, 415, "unsupported-media-type"),
        ("POST", "/api/v1/runs", {"json": {"dataset": "no"}}, 404, "not-found"),
        ("POST", "/api/v1/runs", {"json": {"dataset": 3}}, 422, "invalid-input"),
        ("GET", "/api/v1/runs", {"headers": {"Host": "x"}}, 400, "malformed-request"),
        ("GET", "/api/v1/runs", {"headers": {"Authorization": "Bearer x"}}, 401, "key-refused"),
        ("GET", "/api/v1/places", {"headers": {"Sec-Fetch-Site": "cross-site"}}, 403, None),
    ]
    for method, path, more, status, kind in asked:
        answer = client.request(method, path, **more)
        told = answer.json()
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert (answer.status_code, told["status"]) == (status, status), path
        assert told["type"] == f"urn:ddlp:problem:{kind or 'not-allowed'}"
        assert len(told["detail"]) > 20
        assert tuple(told)[:4] == HEAD
        assert ("WWW-Authenticate" in answer.headers) == (status == 401)
    assert client.put("/api/v1/runs").headers["Allow"] == "GET, POST"
    assert client.put("/api/v1/runs/compare").headers["Allow"] == "GET"


def test_each_value_that_cannot_be_used_is_named(client: TestClient) -> None:
    told = client.post("/api/v1/runs", json={"batch_size": "8", "epochs": 0}).json()
    assert [(entry["in"], entry["field"]) for entry in told["errors"]] == [
        ("body", "dataset"),
        ("body", "batch_size"),
        ("body", "epochs"),
    ]
    assert told["detail"] == "; ".join(f"{e['field']}: {e['detail']}" for e in told["errors"])
    [entry] = client.get("/api/v1/audit?before=x").json()["errors"]
    assert (entry["in"], entry["field"]) == ("query", "before")


def test_the_types_stay_as_they_are() -> None:
    names = [kind.removeprefix("urn:ddlp:problem:") for kind in openapi.kinds()]
    assert names == [
        "bad-sample",
        "conflict",
        "head-too-large",
        "internal-error",
        "invalid-input",
        "key-refused",
        "malformed-request",
        "not-allowed",
        "not-found",
        "stale-token",
        "timeout",
        "too-large",
        "too-many-attempts",
        "too-slow",
        "unavailable",
        "unsupported-media-type",
        "wrong-method",
    ]
    text = (Path(__file__).parents[2] / "docs" / "rest-api.md").read_text()
    assert re.findall(r"^\| `([\w-]+)` \| \d{3} \|", text, re.MULTILINE) == names


def test_every_operation_says_which_errors_it_answers(described: dict[str, Any]) -> None:
    names = {name for name, _ in operations(described)}
    assert set(openapi.OWN) | set(openapi.CONTENT) <= names
    for name, operation in operations(described):
        method = name.split()[0]
        assert method in {"GET"} | CHANGING
        answers = operation["responses"]
        assert {str(status) for status in openapi.EVERY} <= set(answers)
        assert ("415" in answers) == (method != "GET")
        for status, answer in answers.items():
            told = answer.get("content", {}).get("application/problem+json")
            assert (told is not None) == (int(status) >= 400), (name, status)
            assert answer["description"]
        assert ("{" not in name) or "404" in answers or name.endswith(("/leave", "/mark"))
    assert "HTTPValidationError" not in described["components"]["schemas"]


def numbers(schema: Any) -> Iterator[dict[str, Any]]:
    for node in openapi._nodes(schema):
        if node.get("type") == "integer" and "const" not in node:
            yield node


def test_every_number_and_every_text_that_is_asked_for_has_bounds(
    described: dict[str, Any],
) -> None:
    for name, operation in operations(described):
        for parameter in operation.get("parameters", []):
            for node in openapi._nodes(parameter["schema"]):
                if node.get("type") == "integer":
                    assert {"minimum", "exclusiveMinimum"} & set(node), (name, parameter)
                    assert {"maximum", "exclusiveMaximum"} & set(node), (name, parameter)
                if node.get("type") == "string":
                    assert {"maxLength", "enum", "const", "format"} & set(node), (name, parameter)
                    assert {"pattern", "enum", "const", "format"} & set(node), (name, parameter)
    for node in numbers(described["components"]["schemas"]["RunCreate"]):
        assert {"minimum", "exclusiveMinimum"} & set(node)
        assert {"maximum", "exclusiveMaximum"} & set(node)


def test_an_error_that_nobody_expected_is_told_without_its_words(
    plane: Plane, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(plane, Prong.CPU)
    new_run(plane, images, name="r")

    def fail(*_: object) -> None:
        raise RuntimeError("select secret from table")

    monkeypatch.setattr("ddlp.server.runs.epochs", fail)
    with client_of(plane) as client:
        answer = client.get("/api/v1/runs/r/epochs")
    assert (answer.status_code, answer.json()["type"]) == (500, "urn:ddlp:problem:internal-error")
    assert "secret" not in answer.text
    assert "RuntimeError" in answer.text
