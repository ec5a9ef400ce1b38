"""A stream of Server-Sent Events: a peer of the state machine that is not a WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Self

from tocsin.broker.core.events import Congested, Drained, Received
from tocsin.broker.transport.driver import Driver
from tocsin.broker.transport.rest_request import Head, RestRequest, UntilMessage
from tocsin.effects import run_effects
from tocsin.errors import Busy, UserError
from tocsin.identity.tokens import Claims
from tocsin.wire import messages as wire
from tocsin.wire.close_codes import Close

#: Seconds between two comments in a stream without events.
ALIVE = 15.0


async def until_message(effect: UntilMessage) -> bool:
    """Performs the effect on asyncio."""
    woken = asyncio.Event()
    effect.request.wake = woken.set
    try:
        async with asyncio.timeout_at(effect.until):
            await woken.wait()
    except TimeoutError:
        return False
    return True


class EventStream:
    """Bounded like a connection; a slow reader is served by replay later."""

    fd = -1

    def __init__(self, driver: Driver, user: Claims | None, address: str = "") -> None:
        self.driver = driver
        self._request = RestRequest(driver, user, address, peer=self)
        self._size = 0
        self._slow = False
        self._positions: dict[int, int] = {}
        self._previous_ids: dict[int, int] = {}

    def __enter__(self) -> Self:
        self._request.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._request.__exit__()

    def send(self, messages: tuple[bytes, ...], frames: bytes) -> None:
        self._request.send(messages, frames)
        self._size += len(frames)
        if self._size > self.driver.config.buffer_bytes and not self._slow:
            self._slow = True
            self.driver.handle(Congested(self))

    def close(self, close: Close, reason: str = "") -> None:
        self._request.close(close, reason)

    def request(self, *messages: Any) -> None:
        self._request.request(*messages)

    async def answer(self, id: int) -> Any:
        return await run_effects(self._request.answer(id), until_message)

    def start(self, subscription: int, after: int, previous_id: int | None) -> None:
        """``previous_id``: the id that the position belongs to, until all of its results have come."""
        self._positions[subscription] = after
        if previous_id is not None:
            self._previous_ids[subscription] = previous_id

    async def events(self) -> AsyncIterator[bytes]:
        """The id of an event is all positions, so that a reconnect resumes them all."""
        while True:
            if not self._request.arrived:
                self._size = 0
                if self._slow:
                    self._slow = False
                    self.driver.handle(Drained(self))
            try:
                found = await run_effects(self._request.next(self.driver.now() + ALIVE), until_message)
            except (UserError, Busy):
                return
            if found is None:
                yield b": alive\n\n"
                continue
            head, text = found
            if head.type in ("welcome", "pong"):
                continue
            if head.type == "ping":
                self.driver.handle(Received(self, [wire.Pong()]))
                yield b": alive\n\n"
                continue
            self._pass(head)
            yield b"id: %b\nevent: %b\ndata: %b\n\n" % (self.mark, head.type.encode(), text)

    @property
    def mark(self) -> bytes:
        pairs = [(self._previous_ids.get(id, id), after) for id, after in self._positions.items()]
        return ",".join(f"{id}:{after}" for id, after in pairs).encode()

    def _pass(self, head: Head) -> None:
        id = head.subscription
        if head.type == "subscribed":
            self._positions[id] = head.after
        elif head.type in ("notify", "live", "gap"):
            reached = head.next - 1 if head.type == "gap" else head.execution
            self._positions[id] = max(self._positions.get(id, 0), reached)
        if head.type == "live" or head.reason == "released":
            self._previous_ids.pop(id, None)
