"""Many live pages at once, without a browser: reads their streams and counts what comes.

    python -m benchmarks.live_client SECONDS_AT_MOST URL …

Says `ready` once all streams have sent something; counts from then on until its input is closed,
then prints what it counted as JSON. Ends by itself after so many seconds, whatever happens.
"""

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Self
from urllib.parse import urlsplit

from ddlp.core.process import die_with_parent

_CHUNK = 1 << 16
_STOP_S = 10
_END = b"\n\n"


@dataclass
class Counted:
    """What came in over all streams."""

    bytes: int = 0
    messages: int = 0
    ended: int = 0
    """Streams that the server ended."""


class LivePages:
    """Streams of several pages, open in a process of their own while the context lasts."""

    def __init__(self, urls: list[str], at_most_s: float) -> None:
        command = [sys.executable, "-m", "benchmarks.live_client", str(at_most_s), *urls]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.counted = Counted()

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise RuntimeError(f"the live pages ended with status {self._process.wait()}")
        return self

    def __exit__(self, *_: object) -> None:
        try:
            said, _ = self._process.communicate(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise
        self.counted = Counted(**json.loads(said))


async def _read(url: str, counted: Counted, begun: asyncio.Queue[None]) -> None:
    """One page's stream, as long as it lasts."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        head = f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: text/event-stream\r\n"
        writer.write(f"{head}\r\n".encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in answer.split(b"\r\n", 1)[0]:
            raise RuntimeError(f"{url} answers {answer[:80]!r}")
        await reader.readuntil(_END)
        begun.put_nowait(None)
        while data := await reader.read(_CHUNK):
            counted.bytes += len(data)
            counted.messages += data.count(b"event: figures\n")
        counted.ended += 1
    finally:
        writer.close()


async def _follow(urls: list[str], at_most_s: float) -> None:
    counted, begun = Counted(), asyncio.Queue[None]()
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(at_most_s), asyncio.TaskGroup() as group:
        pages = [group.create_task(_read(url, counted, begun)) for url in urls]
        for _ in pages:
            await begun.get()
        counted.bytes = counted.messages = 0
        print("ready", flush=True)
        await loop.run_in_executor(None, sys.stdin.read)
        print(json.dumps(asdict(counted)), flush=True)
        for page in pages:
            page.cancel()


def main() -> None:
    die_with_parent(os.getppid())
    at_most_s, *urls = sys.argv[1:]
    asyncio.run(_follow(urls, float(at_most_s)))


if __name__ == "__main__":
    main()
