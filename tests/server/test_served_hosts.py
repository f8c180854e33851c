"""A device sends trainers to itself, and nowhere else."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError
from starlette.testclient import TestClient

from ddlp.core.energy import PowerModel
from ddlp.core.errors import NotAllowed
from ddlp.core.messages import DeviceRegister
from ddlp.core.settings import Settings
from ddlp.core.types import DeviceKind, Prong
from ddlp.server import served_hosts
from tests.server.apps import client_of
from tests.server.conftest import Plane


def device(serves: str | None, host: str = "csd1") -> DeviceRegister:
    return DeviceRegister(
        name="csd1",
        prong=Prong.CSD,
        kind=DeviceKind.CSD,
        slots=1,
        host=host,
        incarnation=uuid.uuid4(),
        engine="fused",
        store="/store",
        serves=serves,
        power=PowerModel(active_w=1, source="test"),
    )


@pytest.mark.parametrize(
    "serves",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "ftp://csd1/",
        "//csd1",
        "http://csd1\r\nX: y",
        "http://csd1:80\n",
        "http://user:word@csd1/",
        "http://csd1/?next=1",
        "http://csd1/#a",
        "http://csd1/a b",
        "http:///x",
        "http://169.254.169.254/",
        "http://[::ffff:169.254.169.254]/",
        "http://[fe80::1]/",
        "http://[fd00:ec2::254]/",
        "http://2852039166/",
        "http://0xA9FEA9FE/",
        "http://169.254.43518/",
        "http://metadata.google.internal/",
        "http://0.0.0.0:1/",
        "http://[::]:1/",
        "http://[00]/",
        "http://224.0.0.1/",
        "http://" + "a" * 5000,
    ],
)
def test_what_is_no_address_of_a_store_is_refused(serves: str) -> None:
    with pytest.raises(ValidationError, match="serves"):
        device(serves)


@pytest.mark.parametrize(
    "serves",
    [None, "http://csd1:8100", "https://csd1.lab.example:8100/store", "http://[fd12::7]:8100"],
)
def test_the_address_of_a_store_is_taken(serves: str | None) -> None:
    assert device(serves).serves == serves


def may(serves: str, address: str, host: str = "csd1", **settings: Any) -> bool:
    try:
        served_hosts.check(Settings(**settings), device(serves, host), address)
    except NotAllowed:
        return False
    return True


def test_a_device_serves_at_its_own_host_unless_others_are_named() -> None:
    assert may("http://csd1:8100", "10.0.0.5")
    assert may("http://CSD1:8100", "10.0.0.5")
    assert may("http://10.0.0.5:8100", "10.0.0.5")
    assert may("http://127.0.0.1:8100", "127.0.0.1")
    assert may("http://localhost:8100", "127.0.0.1")
    assert not may("http://10.0.0.6:8100", "10.0.0.5")
    assert not may("http://127.0.0.1:8100", "10.0.0.5")
    assert not may("http://evil.example", "10.0.0.5")
    named = {"serve_hosts": ["fast.example"]}
    assert may("http://fast.example:8100", "10.0.0.5", **named)
    assert not may("http://csd1:8100", "10.0.0.5", **named)


@pytest.fixture
def client(plane: Plane) -> Iterator[TestClient]:
    with client_of(plane) as found:
        yield found


def test_the_server_looks_from_where_a_device_registers(client: TestClient) -> None:
    body = device("http://evil.example:8100").model_dump(mode="json")
    answer = client.post("/api/v1/devices", json=body)
    assert answer.status_code == 403
    told = answer.json()["detail"]
    assert "registers from testclient" in told
    assert "DDLP_SERVE_HOSTS" in told
    own = {**body, "serves": "http://csd1:8100"}
    assert client.post("/api/v1/devices", json=own).status_code == 201
    script = client.post("/api/v1/devices", json={**body, "serves": "javascript:alert(1)"})
    assert script.status_code == 422
