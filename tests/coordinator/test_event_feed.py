"""Those who watch hear everything once, in order, also after they were cut off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Literal

from tocsin.coordinator import event_feed
from tocsin.coordinator.event_feed import EventFeed

Told = tuple[str, str, Any]


def looped(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        asyncio.run(asyncio.wait_for(test(), 300))

    return run


def parse(text: bytes) -> list[Told]:
    """(event, id, data) of what was sent."""
    found = []
    for block in text.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in fields:
            found.append((fields["event"], fields.get("id", ""), json.loads(fields["data"])))
    return found


class Watcher:
    def __init__(self, watch: EventFeed, last: str = "", backlog: int = 0) -> None:
        self.chunks = watch.events(last, backlog, lambda: b'{"version": %d}' % watch.version)

    async def hear(self) -> list[Told]:
        """The next that is told at all."""
        return parse(await anext(self.chunks))

    async def notes(self, count: int) -> list[int]:
        found: list[int] = []
        while len(found) < count:
            found += [data["n"] for kind, _, data in await self.hear() if kind in event_feed.KEPT]
        return found


class Bell(asyncio.Event):
    """Says when somebody begins to wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.awaited = asyncio.Semaphore(0)

    async def wait(self) -> Literal[True]:
        self.awaited.release()
        return await super().wait()


def hang(watch: EventFeed) -> Bell:
    """A bell that rings for the next change."""
    bell = watch._changed_event = Bell()
    return bell


def publish(watch: EventFeed, *numbers: int, kind: str = "note") -> None:
    for n in numbers:
        watch.publish(kind, {"n": n})


@looped
async def test_a_newcomer_hears_of_what_is_and_then_of_what_happens():
    watch = EventFeed()
    publish(watch, 1, 2)
    watcher = Watcher(watch)
    assert [kind for kind, _, _ in await watcher.hear()] == ["hello", "topology"]
    publish(watch, 3, 4)
    assert await watcher.notes(2) == [3, 4]


@looped
async def test_a_newcomer_gets_as_much_of_the_past_as_it_asks_for_in_order():
    watch = EventFeed()
    for n in range(1, 9):
        publish(watch, n, kind="sample" if n % 2 else "note")
    told = await Watcher(watch, backlog=2).hear()
    assert [data["n"] for kind, _, data in told if kind in event_feed.KEPT] == [5, 6, 7, 8]


@looped
async def test_whoever_was_cut_off_goes_on_where_it_was():
    watch = EventFeed()
    watcher = Watcher(watch)
    await watcher.hear()
    publish(watch, 1, 2)
    heard = await watcher.hear()
    await watcher.chunks.aclose()
    publish(watch, 3)
    last = heard[-1][1]
    assert [data.get("n") for _, _, data in await Watcher(watch, last).hear()] == [None, 3, None]


@looped
async def test_the_greeting_can_be_gone_on_from():
    watch = EventFeed()
    publish(watch, 1)
    hello = (await Watcher(watch).hear())[0][1]
    publish(watch, 2)
    assert [data["n"] for kind, _, data in await Watcher(watch, hello).hear() if kind == "note"] == [2]


@looped
async def test_of_what_is_lost_a_watcher_is_told():
    watch = EventFeed()
    hello = watch.id
    publish(watch, *range(event_feed.KEPT["note"] + 1))
    assert (await Watcher(watch, hello).hear())[0][0] == "gap"
    assert (await Watcher(watch, watch.id).hear())[0][0] == "hello"


@looped
async def test_ids_of_before_a_restart_and_nonsense_are_gaps():
    before, watch = EventFeed(), EventFeed()
    watch.epoch += "0"
    for last in (before.id, "nonsense", f"{watch.epoch}-99", f"{watch.epoch}--1", f"{watch.epoch}-{'9' * 40}", "-"):
        assert (await Watcher(watch, last).hear())[0][0] == "gap"


@looped
async def test_a_change_without_a_note_brings_a_new_picture():
    watch = EventFeed()
    watcher = Watcher(watch)
    (first,) = [data for kind, _, data in await watcher.hear() if kind == "topology"]
    watch.changed()
    (second,) = [data for kind, _, data in await watcher.hear() if kind == "topology"]
    assert second["version"] > first["version"]


@looped
async def test_an_answer_waits_for_another_version():
    watch = EventFeed()
    bell = hang(watch)
    waiting = asyncio.create_task(watch.until_not(watch.version, 60))
    await bell.awaited.acquire()
    assert not waiting.done()
    watch.changed()
    await waiting
    await watch.until_not(watch.version - 1, 60)
    await watch.until_not(0, 60)


@looped
async def test_when_it_closes_nobody_waits_any_longer():
    watch = EventFeed()
    watcher = Watcher(watch)
    await watcher.hear()
    bell = hang(watch)
    waiting = [asyncio.create_task(watcher.chunks.__anext__()), asyncio.create_task(watch.until_not(watch.version, 60))]
    for _ in waiting:
        await bell.awaited.acquire()
    watch.close()
    ended, _ = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(ended, StopAsyncIteration)
