"""What the routes need, built once at start and passed in."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from ddlp.core.messages import Message
from ddlp.core.settings import Settings
from ddlp.server import runs
from ddlp.server.broker import Broker
from ddlp.server.database import Database
from ddlp.server.demo import Demo
from ddlp.server.dispatcher import Dispatcher
from ddlp.server.keys import Keyring
from ddlp.server.models import Run
from ddlp.server.notary import Notary
from ddlp.server.ownership import Ownership
from ddlp.server.packer import Packer
from ddlp.server.scanner import Scanner


@dataclass
class Context:
    """The parts of a running server."""

    settings: Settings
    database: Database
    ownership: Ownership
    dispatcher: Dispatcher
    broker: Broker
    scanner: Scanner
    packer: Packer
    notary: Notary
    demo: Demo
    keyring: Keyring
    streams: int = 0
    """Open event streams."""


async def get_context(request: Request) -> Context:
    """The server that a request came to; asynchronous, so that no thread is needed for it."""
    context: Context = request.app.state.context
    return context


ContextDep = Annotated[Context, Depends(get_context)]


def get_session(context: ContextDep) -> Iterator[Session]:
    """A session for one request; it commits before the answer is sent."""
    with context.database.session() as session:
        yield session


SessionDep = Annotated[Session, Depends(get_session, scope="function")]


async def find_run(context: Context, ref: str) -> Run:
    """A run by its name or its id, without holding up the others."""

    def find() -> Run:
        with context.database.session() as session:
            return runs.find(session, ref)

    return await run_in_threadpool(find)


def as_json(message: Message) -> Response:
    """An answer as it is sent; of what was made here, nothing needs to be checked again."""
    return Response(message.model_dump_json(), media_type="application/json")


async def done(answer: "Future[Any]") -> Any:
    """Wait for the dispatcher without holding up the others."""
    return await asyncio.wrap_future(answer)
