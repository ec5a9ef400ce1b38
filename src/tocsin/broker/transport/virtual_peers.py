"""Peers of the state machine that are not WebSockets: a request over REST, a stream of Server-Sent Events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Self

import msgspec

from tocsin.broker.core.events import Closed, Congested, Drained, Opened, OpenedForUser, Received
from tocsin.broker.transport.driver import Driver
from tocsin.errors import Busy, TocsinError, Unauthorized, UserError
from tocsin.identity.grants import user as user_principal
from tocsin.identity.tokens import Claims
from tocsin.wire import close_codes
from tocsin.wire import messages as wire
from tocsin.wire.close_codes import Close
from tocsin.wire.remote_errors import remote_error

#: The errors of requests that the broker closes; all others were wrong themselves.
KINDS: dict[int, type[TocsinError]] = {
    close_codes.TRY_LATER.code: Busy,
    close_codes.UNAUTHORIZED.code: Unauthorized,
    close_codes.LOGGED_OUT.code: Unauthorized,
}
#: Seconds between two comments in a stream without events.
ALIVE = 15.0


class Head(msgspec.Struct):
    """What REST and SSE need of a message; its results pass unread."""

    type: str
    id: int | None = None
    subscription: int = 0
    execution: int = 0
    after: int = 0
    next: int = 0
    reason: str = ""


_head = msgspec.json.Decoder(Head)


class RestRequest:
    """One request. Without a user it sends a hello first, as an anonymous subscriber."""

    fd = -1

    def __init__(self, driver: Driver, user: Claims | None, address: str = "") -> None:
        self.driver = driver
        self.user = user
        self.address = address
        self.closed: Close | None = None
        self._arrived: deque[bytes] = deque()
        self._more = asyncio.Event()

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> None:
        if self.user is not None:
            user, expires = self.user, self.driver.at(self.user.expires)
            self.driver.handle(
                OpenedForUser(self, user.sid, user_principal(user.raw, user.roles), user.issued, expires)
            )
        else:
            self.driver.handle(Opened(self, self.address))
            self.driver.handle(Received(self, [wire.Hello(0)]))

    def end(self) -> None:
        self.driver.handle(Closed(self))

    def send(self, messages: tuple[bytes, ...], frames: bytes) -> None:
        self._arrived += messages
        self._more.set()

    def close(self, close: Close, reason: str = "") -> None:
        self.closed = close
        self._more.set()

    def request(self, *messages: Any) -> None:
        self.driver.handle(Received(self, list(messages)))

    async def next(self) -> tuple[Head, bytes]:
        """The next message, as JSON."""
        while not self._arrived:
            if self.closed is not None:
                raise KINDS.get(self.closed.code, UserError)(self.closed.meaning, code_of_close=self.closed.code)
            self._more.clear()
            await self._more.wait()
        text = self._arrived.popleft()
        return _head.decode(text), text

    async def answer(self, id: int) -> Any:
        """The answer to the request with this id; other messages before it are dropped."""
        while True:
            head, text = await self.next()
            if head.id == id:
                return self.decode(text)

    def decode(self, text: bytes) -> Any:
        """The message; an error is raised."""
        (message,) = wire.decode_answers(text)
        if isinstance(message, wire.Error):
            raise remote_error(message.code, message.message, message.hint)
        return message


class EventStream(RestRequest):
    """Server-Sent Events: bounded like a connection; a slow reader is served by replay later."""

    def __init__(self, driver: Driver, user: Claims | None, address: str = "") -> None:
        super().__init__(driver, user, address)
        self._size = 0
        self._slow = False
        self._positions: dict[int, int] = {}
        self._previous_ids: dict[int, int] = {}

    def send(self, messages: tuple[bytes, ...], frames: bytes) -> None:
        super().send(messages, frames)
        self._size += len(frames)
        if self._size > self.driver.config.buffer_bytes and not self._slow:
            self._slow = True
            self.driver.handle(Congested(self))

    def start(self, subscription: int, after: int, previous_id: int | None) -> None:
        """``previous_id``: the id that the position belongs to, until all of its results have come."""
        self._positions[subscription] = after
        if previous_id is not None:
            self._previous_ids[subscription] = previous_id

    async def events(self) -> AsyncIterator[bytes]:
        """The id of an event is all positions, so that a reconnect resumes them all."""
        while True:
            if not self._arrived:
                self._size = 0
                if self._slow:
                    self._slow = False
                    self.driver.handle(Drained(self))
            try:
                async with asyncio.timeout(ALIVE):
                    head, text = await self.next()
            except TimeoutError:
                yield b": alive\n\n"
                continue
            except (UserError, Busy):
                return
            if head.type in ("welcome", "pong"):
                continue
            if head.type == "ping":
                self.driver.handle(Received(self, [wire.Pong()]))
                yield b": alive\n\n"
                continue
            self._pass(head)
            pairs = [(self._previous_ids.get(id, id), after) for id, after in self._positions.items()]
            mark = ",".join(f"{id}:{after}" for id, after in pairs)
            yield b"id: %b\nevent: %b\ndata: %b\n\n" % (mark.encode(), head.type.encode(), text)

    def _pass(self, head: Head) -> None:
        id = head.subscription
        if head.type == "subscribed":
            self._positions[id] = head.after
        elif head.type in ("notify", "live", "gap"):
            reached = head.next - 1 if head.type == "gap" else head.execution
            self._positions[id] = max(self._positions.get(id, 0), reached)
        if head.type == "live" or head.reason == "released":
            self._previous_ids.pop(id, None)
