"""The whole application in this process, over a plane; its broker is not there."""

from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import FastAPI
from starlette.testclient import TestClient

from ddlp.core.settings import Settings
from ddlp.server.broker import Broker
from ddlp.server.context import Context
from ddlp.server.demo import Demo
from ddlp.server.keys import Keyring
from ddlp.server.notary import Notary
from ddlp.server.owner_lock import owner_lock
from ddlp.server.ownership import Owner, Ownership
from ddlp.server.packer import Packer
from ddlp.server.scanner import Scanner
from ddlp.web.app import create_app
from tests.server.conftest import Plane


def app_of(plane: Plane, settings: Settings | None = None) -> FastAPI:
    """The API and its pages; nothing runs in the background but the dispatcher."""
    settings = settings or plane.settings
    owner = Owner(1, "localhost", 1, settings.server_url, plane.now, queue_key="ab" * 32)
    ownership = Ownership(plane.database, owner_lock(plane.database.engine), owner)
    broker = Broker("redis://127.0.0.1:1/0", owner.queue_key)
    scanner = Scanner(plane.database, settings)
    packer = Packer(plane.database, settings, broker.send_pack, scanner.begin, plane.dispatcher.now)
    demo = Demo(plane.database, settings, plane.dispatcher, scanner)
    parts = (Notary(plane.database), demo, Keyring(plane.database))
    served = (plane.dispatcher, broker, scanner, packer, *parts)
    return create_app(Context(settings, plane.database, ownership, *served))


@contextmanager
def client_of(plane: Plane, settings: Settings | None = None) -> Iterator[TestClient]:
    """Ask the application as a browser or a program on this machine does."""
    yield TestClient(
        app_of(plane, settings), base_url="http://localhost", raise_server_exceptions=False
    )
