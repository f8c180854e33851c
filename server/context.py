"""What the routes need, built once at start and passed in."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from sqlalchemy.orm import Session

from ddlp.core.settings import Settings
from ddlp.server.broker import Broker
from ddlp.server.database import Database
from ddlp.server.dispatcher import Dispatcher


@dataclass
class Context:
    """The parts of a running server."""

    settings: Settings
    database: Database
    dispatcher: Dispatcher
    broker: Broker
    streams: int = 0
    """Open event streams."""


def get_context(request: Request) -> Context:
    """The server that a request came to."""
    context: Context = request.app.state.context
    return context


ContextDep = Annotated[Context, Depends(get_context)]


def get_session(context: ContextDep) -> Iterator[Session]:
    """A session for one request; it commits before the answer is sent."""
    with context.database.session() as session:
        yield session


SessionDep = Annotated[Session, Depends(get_session, scope="function")]


async def done(answer: "Future[Any]") -> Any:
    """Wait for the dispatcher without holding up the others."""
    return await asyncio.wrap_future(answer)
