"""What tests of a served folder share: a server, and clients that behave or do not."""

import http.client
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ddlp.core.store import FolderStore, batch_name
from ddlp.core.store.served import StoreServer, access_token
from tests.core.store.making import RUN, batch_id, write

KEY = "the-key-of-the-tests"
Answer = tuple[int, dict[str, str], bytes]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def batch(root: Path) -> str:
    """The name of a batch that lies there."""
    write(FolderStore(root), batch_id(), value=9)
    return batch_name(RUN, 0, 0, 1)


@pytest.fixture
def server(root: Path) -> Iterator[StoreServer]:
    server = StoreServer(root, "http://127.0.0.1:0", KEY)
    server.start()
    yield server
    server.stop()
    assert not [t.name for t in threading.enumerate() if t.name == "ddlp-store-server"]


def connect(server: StoreServer) -> http.client.HTTPConnection:
    parts = urlsplit(server.url)
    return http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=20)


def raw_connection(server: StoreServer) -> socket.socket:
    parts = urlsplit(server.url)
    return socket.create_connection((str(parts.hostname), parts.port or 0), timeout=20)


def bearer(name: str, key: str = KEY) -> dict[str, str]:
    return {"Authorization": f"Bearer {access_token(key, name)}"}


def ask(
    connection: http.client.HTTPConnection, method: str, path: str, headers: dict[str, str]
) -> Answer:
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read()


def get(server: StoreServer, name: str, **headers: str) -> Answer:
    connection = connect(server)
    try:
        return ask(connection, "GET", f"/{name}", {**bearer(name), **headers})
    finally:
        connection.close()
