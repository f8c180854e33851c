"""A flood of live pages on the real server: served up to a bound, refused beyond it, and forgotten.

Bounded in count and time: so many connections to loopback, once, and all are closed at the end.
"""

import asyncio
import re
from urllib.parse import urlsplit
from urllib.request import urlopen

from ddlp.core.client import Client
from ddlp.server.routes.events import MAX_STREAMS
from tests.conftest import UpProcess, wait_until
from tests.end_to_end.trainer import new_run

BEYOND = 60
AT_MOST_S = 90


class Flood:
    """Connections that stay open; what each was answered."""

    def __init__(self, url: str, path: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname, parts.port
        self._request = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode()
        self.open: list[asyncio.StreamWriter] = []

    async def knock(self) -> tuple[int, bytes]:
        """Ask for a stream: the status, and its first message."""
        reader, writer = await asyncio.open_connection(self._host, self._port)
        self.open.append(writer)
        writer.write(self._request)
        head = await reader.readuntil(b"\r\n\r\n")
        first = await reader.readuntil(b"\n\n" if b" 200 " in head else b"}")
        return int(head.split(b" ", 2)[1]), first

    def close(self) -> None:
        """Go without a word, as browsers do."""
        for writer in self.open:
            writer.transport.abort()


async def flood(up: UpProcess, run: str) -> list[tuple[int, bytes]]:
    async with asyncio.timeout(AT_MOST_S):
        many = Flood(up.url, f"/runs/{run}/live")
        try:
            return await asyncio.gather(*(many.knock() for _ in range(MAX_STREAMS + BEYOND)))
        finally:
            many.close()


def open_streams(up: UpProcess) -> int:
    with urlopen(f"{up.url}/metrics") as answer:
        [found] = re.findall(rb"^ddlp_live_streams (\d+)", answer.read(), re.MULTILINE)
    return int(found)


def test_a_flood_of_live_pages_is_bounded_and_leaves_nothing_behind(
    up: UpProcess, api: Client
) -> None:
    run = new_run(api)
    wait_until(lambda: open_streams(up) == 0)  # pages of other tests may just have been closed
    answers = asyncio.run(flood(up, run))
    served = [first for status, first in answers if status == 200]
    refused = [first for status, first in answers if status == 503]
    assert (len(served), len(refused)) == (MAX_STREAMS, BEYOND)
    assert all(b"data: " in first for first in served)
    assert all(b"live pages are open already" in first for first in refused)
    wait_until(lambda: open_streams(up) == 0)
    api.post(f"/runs/{run}/cancel")
