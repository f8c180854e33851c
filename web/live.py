"""Live pages: a run is looked at and drawn once a period, however many pages show it.

A *channel* holds the parts of one run's page, each with the number of the look that last changed
it. A page is sent what changed since it was sent something; one that was away, or reads slowly,
gets the newest of each part and nothing twice.
"""

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

log = logging.getLogger(__name__)

PERIOD_S = 1.0
_SILENCE_S = 15.0
"""After so long without news a page is told that the connection lives."""


@dataclass(frozen=True)
class Look:
    """A run as its pages show it at one moment."""

    parts: dict[str, str]
    """HTML by the id of the element that it is the content of."""
    figures: str
    """What is drawn rather than written, as JSON."""
    over: bool = False


Looking = Callable[[int], Awaitable[Look]]
"""Looks at a run, given how many times that was done before."""


@dataclass
class Channel:
    """The newest look at one run, for all pages that show it."""

    number: int = 0
    over: bool = False
    readers: int = 0
    failed: bool = False
    _parts: dict[str, tuple[int, str]] = field(default_factory=dict)
    _figures: str = ""
    _messages: dict[int, bytes] = field(default_factory=dict)
    _news: "asyncio.Future[None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def publish(self, look: Look) -> None:
        """Take a look over, and wake the pages if it shows anything new."""
        changed = {
            name: html
            for name, html in look.parts.items()
            if name not in self._parts or self._parts[name][1] != html
        }
        if not changed and look.figures == self._figures and not look.over:
            return
        self.number += 1
        self._parts |= {name: (self.number, html) for name, html in changed.items()}
        self._figures, self.over, self._messages = look.figures, look.over, {}
        self._wake()

    def fail(self) -> None:
        """End all streams: their pages come back by themselves."""
        self.failed = True
        self._wake()

    def _wake(self) -> None:
        """Have the pages look whether there is something for them."""
        before, self._news = self._news, asyncio.get_running_loop().create_future()
        before.set_result(None)

    def message(self, seen: int) -> bytes:
        """What a page is sent that has seen so many looks; put together once for all such pages."""
        if seen not in self._messages:
            parts = [
                f'<hx-partial id="{name}" hx-swap="innerMorph">{html}</hx-partial>'
                for name, (number, html) in self._parts.items()
                if number > seen
            ]
            text = (event("", "\n".join(parts)) if parts else "") + event("figures", self._figures)
            self._messages[seen] = (text + (event("over", "{}") if self.over else "")).encode()
        return self._messages[seen]

    async def follow(self) -> AsyncGenerator[bytes, None]:
        """Messages for one page, until the run is over."""
        seen = 0
        while True:
            if seen == self.number and not self.failed:
                woken, _ = await asyncio.wait({self._news}, timeout=_SILENCE_S)
                if not woken:
                    yield b": alive\n\n"
            if self.failed:
                return
            if seen < self.number:
                message, seen = self.message(seen), self.number
                over = self.over
                yield message
                if over:
                    return


class Hub:
    """The channels of all runs that some page shows."""

    def __init__(self, period_s: float = PERIOD_S) -> None:
        self._period_s = period_s
        self._channels: dict[uuid.UUID, Channel] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def follow(
        self, run_id: uuid.UUID, looking: Looking
    ) -> AsyncGenerator[str | bytes, None]:
        """Messages for a page of a run; the first page starts the looking, the last one ends it."""
        channel = self._channels.get(run_id)
        if channel is None:
            channel = self._channels[run_id] = Channel()
            task = asyncio.create_task(self._look(run_id, channel, looking))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        channel.readers += 1
        try:
            async with aclosing(channel.follow()) as messages:
                async for message in messages:
                    yield message
        finally:
            channel.readers -= 1

    async def _look(self, run_id: uuid.UUID, channel: Channel, looking: Looking) -> None:
        looks = 0
        try:
            while not looks or (channel.readers and not channel.over):
                channel.publish(await looking(looks))
                looks += 1
                await asyncio.sleep(self._period_s)
        except Exception:  # the border of a task: the pages' streams end, and they ask again
            log.exception("the live page of run %s could not be made", run_id)
            channel.fail()
        finally:
            if self._channels.get(run_id) is channel:
                del self._channels[run_id]


def event(name: str, data: str) -> str:
    """One server-sent event; without a name, the page takes its HTML in."""
    lines = "".join(f"data: {line}\n" for line in data.splitlines())
    return (f"event: {name}\n" if name else "") + f"{lines}\n"
