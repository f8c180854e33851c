"""The API as an application: routes, their errors, and the parts that live as long as it does."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from ddlp.core.errors import InvalidInput
from ddlp.core.queue import check_broker
from ddlp.core.settings import Settings
from ddlp.server import openapi, problems
from ddlp.server.attempts import Attempts
from ddlp.server.board import Board
from ddlp.server.broker import Broker
from ddlp.server.context import Context
from ddlp.server.database import Database
from ddlp.server.demo import Demo
from ddlp.server.dispatcher import Dispatcher
from ddlp.server.keys import Keyring
from ddlp.server.notary import Notary
from ddlp.server.ownership import Ownership
from ddlp.server.packer import Packer
from ddlp.server.routes import (
    audit,
    datasets,
    demo,
    devices,
    events,
    exports,
    feed,
    health,
    keys,
    leases,
    meters,
    metrics,
    outlooks,
    packings,
    pipelines,
    places,
    roots,
    runs,
    session,
)
from ddlp.server.scanner import Scanner
from ddlp.server.security import Guard

VERSION = "0.1.0"


def create_api(context: Context) -> FastAPI:
    """The REST API under /api/v1, and the health checks; closing it closes the context."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        close_context(context)

    app = FastAPI(title="DDLP", version=VERSION, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.context = context
    # Routes are tried one after the other: those of workers and trainers come first.
    every = (
        leases,
        feed,
        devices,
        meters,
        packings,
        exports,
        outlooks,
        runs,
        events,
        datasets,
        pipelines,
        places,
        roots,
        audit,
        demo,
        keys,
        session,
    )
    for routes in every:
        app.include_router(routes.router, prefix="/api/v1")
    app.include_router(health.router)
    app.include_router(metrics.router)
    problems.install(app)
    openapi.install(app)
    app.add_middleware(Guard, settings=context.settings, keyring=context.keyring)
    return app


def open_context(settings: Settings) -> Context:
    """Connect, become the owner of the database, migrate and start; else say what is not there."""
    if settings.redis_url is None:
        raise InvalidInput("DDLP_REDIS_URL is not set; start all parts together with: ddlp up")
    check_broker(settings.redis_url)
    database = Database(settings.database)
    ownership = Ownership.take(database, settings.server_url)
    try:
        broker = Broker(settings.redis_url, ownership.owner.queue_key)
        return _start(settings, database, ownership, broker)
    except BaseException:
        ownership.stop()
        raise


def _start(settings: Settings, database: Database, ownership: Ownership, broker: Broker) -> Context:
    dispatcher = Dispatcher(database, Board(settings), broker.send)
    scanner = Scanner(database, settings)
    packer = Packer(database, settings, broker.send_pack, scanner.begin, dispatcher.now)
    notary = Notary(database)
    broker.start()
    dispatcher.start()
    scanner.start()
    packer.resume()
    packer.start()
    notary.start()
    demo = Demo(database, settings, dispatcher, scanner)
    keyring = Keyring(database, attempts=Attempts(settings.max_unknown_keys))
    keyring.start()
    ownership.start()
    return Context(
        settings, database, ownership, dispatcher, broker, scanner, packer, notary, demo, keyring
    )


def close_context(context: Context) -> None:
    """Stop the threads; batches on the server's own tmpfs go with it, to be made again."""
    context.demo.stop()
    context.keyring.stop()
    context.notary.stop()
    context.packer.stop()
    context.scanner.stop()
    context.dispatcher.stop()
    context.broker.close()
    own = context.settings.cpu_store_address.folder
    if context.settings.cpu_store is None and own is not None and context.ownership.lost is None:
        shutil.rmtree(own, ignore_errors=True)
    context.ownership.stop()
    context.database.close()
