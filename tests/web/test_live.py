"""Live pages: one look serves all, each is sent what it has not seen, and nothing stays behind."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from ddlp.web.live import Channel, Hub, Look

RUN = uuid.UUID(int=1)


def look(figures: str = "{}", over: bool = False, **parts: str) -> Look:
    return Look(parts, figures, over)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 10))


async def take(messages: AsyncIterator[bytes]) -> str:
    return (await anext(messages)).decode()


def test_a_page_is_sent_everything_first_and_then_what_changed() -> None:
    async def test() -> None:
        channel = Channel()
        channel.publish(look(head="<b>1</b>", tiles="a"))
        messages = channel.follow()
        first = await take(messages)
        assert '<hx-partial id="head" hx-swap="innerMorph"><b>1</b></hx-partial>' in first
        assert 'id="tiles"' in first
        channel.publish(look(head="<b>1</b>", tiles="b"))
        second = await take(messages)
        assert 'id="head"' not in second
        assert '<hx-partial id="tiles" hx-swap="innerMorph">b</hx-partial>' in second

    run(test)


def test_a_slow_page_gets_the_newest_of_each_part_and_nothing_twice() -> None:
    async def test() -> None:
        channel = Channel()
        messages = channel.follow()
        channel.publish(look(head="1"))
        await take(messages)
        for number in range(2, 9):
            channel.publish(look(head=str(number), tiles="x"))
        late = await take(messages)
        assert late.count('id="head"') == late.count('id="tiles"') == 1
        assert ">8</hx-partial>" in late

    run(test)


def test_what_did_not_change_wakes_nobody() -> None:
    async def test() -> None:
        channel = Channel()
        channel.publish(look(head="1"))
        before = channel.number
        channel.publish(look(head="1"))
        assert channel.number == before
        channel.publish(look('{"at": 2}', head="1"))
        assert channel.number == before + 1

    run(test)


def test_lines_of_a_part_stay_one_event() -> None:
    async def test() -> None:
        channel = Channel()
        channel.publish(look(head="<p>\n\nevent: over\n</p>"))
        message = await take(channel.follow())
        events = message.strip().split("\n\n")
        assert len(events) == 2
        assert "data: event: over" in events[0]
        assert events[1] == "event: figures\ndata: {}"

    run(test)


def test_all_pages_of_a_run_share_one_look() -> None:
    async def test() -> None:
        hub, looks = Hub(period_s=0.01), 0

        async def looking(number: int) -> Look:
            nonlocal looks
            looks += 1
            return look(head=str(number), over=number == 5)

        async def page() -> list[bytes]:
            return [message async for message in hub.follow(RUN, looking)]

        pages = await asyncio.gather(*(page() for _ in range(50)))
        assert looks == 6
        assert all(b"event: over" in messages[-1] for messages in pages)

    run(test)


def test_looking_ends_with_the_last_page_and_begins_again_with_the_next() -> None:
    async def test() -> None:
        hub, looks = Hub(period_s=0.01), 0

        async def looking(_: int) -> Look:
            nonlocal looks
            looks += 1
            return look(head=str(looks))

        for _ in range(2):
            messages = hub.follow(RUN, looking)
            await anext(messages)
            await messages.aclose()  # type: ignore[attr-defined]
            await asyncio.sleep(0.05)
            seen = looks
            await asyncio.sleep(0.05)
            assert looks == seen

    run(test)


def test_a_look_that_fails_ends_the_streams_and_the_next_page_tries_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        hub, failing = Hub(period_s=0.01), True

        async def looking(_: int) -> Look:
            if failing:
                raise OSError("the database is gone")
            return look(head="back", over=True)

        assert [message async for message in hub.follow(RUN, looking)] == []
        assert "the database is gone" in caplog.text
        await asyncio.sleep(0.02)
        failing = False
        [message] = [message async for message in hub.follow(RUN, looking)]
        assert b"back" in message

    run(test)
