"""Readers of the event feed get every event once, in order, also after a reconnection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Literal

from tocsin.coordinator import event_feed
from tocsin.coordinator.event_feed import EventFeed

Event = tuple[str, str, Any]


def looped(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        asyncio.run(asyncio.wait_for(test(), 300))

    return run


def parse(text: bytes) -> list[Event]:
    """(event, id, data) of the bytes sent."""
    found = []
    for block in text.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in fields:
            found.append((fields["event"], fields.get("id", ""), json.loads(fields["data"])))
    return found


class Reader:
    def __init__(self, feed: EventFeed, last: str = "", backlog: int = 0) -> None:
        self.chunks = feed.events(last, backlog, lambda: b'{"version": %d}' % feed.version)

    async def read(self) -> list[Event]:
        """The events of the next chunk."""
        return parse(await anext(self.chunks))

    async def notes(self, count: int) -> list[int]:
        found: list[int] = []
        while len(found) < count:
            found += [data["n"] for kind, _, data in await self.read() if kind in event_feed.KEPT]
        return found


class CountedEvent(asyncio.Event):
    """An event whose ``awaited`` counts the waiting tasks."""

    def __init__(self) -> None:
        super().__init__()
        self.awaited = asyncio.Semaphore(0)

    async def wait(self) -> Literal[True]:
        self.awaited.release()
        return await super().wait()


def replace_event(feed: EventFeed) -> CountedEvent:
    """Replaces the event that is set at the next change."""
    changed = feed._changed_event = CountedEvent()
    return changed


def publish(feed: EventFeed, *numbers: int, kind: str = "note") -> None:
    for n in numbers:
        feed.publish(kind, {"n": n})


@looped
async def test_a_new_reader_gets_the_topology_and_then_the_events():
    feed = EventFeed()
    publish(feed, 1, 2)
    reader = Reader(feed)
    assert [kind for kind, _, _ in await reader.read()] == ["hello", "topology"]
    publish(feed, 3, 4)
    assert await reader.notes(2) == [3, 4]


@looped
async def test_a_new_reader_gets_the_requested_backlog_in_order():
    feed = EventFeed()
    for n in range(1, 9):
        publish(feed, n, kind="sample" if n % 2 else "note")
    events = await Reader(feed, backlog=2).read()
    assert [data["n"] for kind, _, data in events if kind in event_feed.KEPT] == [5, 6, 7, 8]


@looped
async def test_a_reader_that_reconnects_resumes_after_its_last_event():
    feed = EventFeed()
    reader = Reader(feed)
    await reader.read()
    publish(feed, 1, 2)
    events = await reader.read()
    await reader.chunks.aclose()
    publish(feed, 3)
    last = events[-1][1]
    assert [data.get("n") for _, _, data in await Reader(feed, last).read()] == [None, 3, None]


@looped
async def test_a_reader_can_resume_after_the_hello_event():
    feed = EventFeed()
    publish(feed, 1)
    hello = (await Reader(feed).read())[0][1]
    publish(feed, 2)
    assert [data["n"] for kind, _, data in await Reader(feed, hello).read() if kind == "note"] == [2]


@looped
async def test_a_reader_gets_a_gap_event_for_lost_events():
    feed = EventFeed()
    hello = feed.id
    publish(feed, *range(event_feed.KEPT["note"] + 1))
    assert (await Reader(feed, hello).read())[0][0] == "gap"
    assert (await Reader(feed, feed.id).read())[0][0] == "hello"


@looped
async def test_ids_from_before_a_restart_and_malformed_ids_cause_a_gap():
    before, feed = EventFeed(), EventFeed()
    feed.epoch += "0"
    for last in (before.id, "nonsense", f"{feed.epoch}-99", f"{feed.epoch}--1", f"{feed.epoch}-{'9' * 40}", "-"):
        assert (await Reader(feed, last).read())[0][0] == "gap"


@looped
async def test_a_change_without_a_note_sends_the_topology_again():
    feed = EventFeed()
    reader = Reader(feed)
    (first,) = [data for kind, _, data in await reader.read() if kind == "topology"]
    feed.changed()
    (second,) = [data for kind, _, data in await reader.read() if kind == "topology"]
    assert second["version"] > first["version"]


@looped
async def test_a_long_poll_waits_for_another_version():
    feed = EventFeed()
    changed = replace_event(feed)
    waiting = asyncio.create_task(feed.until_not(feed.version, 60))
    await changed.awaited.acquire()
    assert not waiting.done()
    feed.changed()
    await waiting
    await feed.until_not(feed.version - 1, 60)
    await feed.until_not(0, 60)


@looped
async def test_closing_the_feed_ends_every_wait():
    feed = EventFeed()
    reader = Reader(feed)
    await reader.read()
    changed = replace_event(feed)
    waiting = [asyncio.create_task(reader.chunks.__anext__()), asyncio.create_task(feed.until_not(feed.version, 60))]
    for _ in waiting:
        await changed.awaited.acquire()
    feed.close()
    ended, _ = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(ended, StopAsyncIteration)
