"""Those who are no WebSocket, as peers of the state machine: a request over REST, a stream of Server-Sent Events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Self

import msgspec

from tocsin.broker.driver import Driver
from tocsin.broker.events import Assumed, Closed, Congested, Drained, Opened, Received
from tocsin.errors import UserError
from tocsin.wire import messages as wire
from tocsin.wire.closes import Close
from tocsin.wire.frames import TEXT, payloads
from tocsin.wire.remote import told

#: Seconds between two comments in a stream without events.
ALIVE = 15.0


class Caller:
    """One request. ``ask`` sends messages and gives what comes back; a caller of no user says hello first."""

    fd = -1

    def __init__(self, driver: Driver, user: str | None) -> None:
        self.driver = driver
        self.user = user
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
            self.driver.handle(Assumed(self, self.user))
        else:
            self.driver.handle(Opened(self, ""))
            self.driver.handle(Received(self, [wire.Hello(0)]))

    def end(self) -> None:
        self.driver.handle(Closed(self))

    def write(self, data: bytes) -> None:
        self._arrived += [payload for opcode, payload in payloads(data) if opcode == TEXT]
        self._more.set()

    def close(self, close: Close, reason: str = "") -> None:
        self.closed = close
        self._more.set()

    def send(self, *messages: Any) -> None:
        self.driver.handle(Received(self, list(messages)))

    async def next(self) -> bytes:
        """The next message, as JSON."""
        while not self._arrived:
            if self.closed is not None:
                raise UserError(self.closed.meaning, code_of_close=self.closed.code)
            self._more.clear()
            await self._more.wait()
        return self._arrived.popleft()

    async def answer(self, id: int) -> Any:
        """The answer to the request with this id; what else comes before it is left out."""
        while True:
            for message in wire.decode_answers(await self.next()):
                if isinstance(message, wire.Error) and message.id == id:
                    raise told(message.code, message.message, message.hint)
                if getattr(message, "id", None) == id:
                    return message


class Stream(Caller):
    """Server-Sent Events: bounded like a connection; who reads too slowly is served from the results later."""

    def __init__(self, driver: Driver, user: str | None) -> None:
        super().__init__(driver, user)
        self._size = 0
        self._slow = False

    def write(self, data: bytes) -> None:
        super().write(data)
        self._size += len(data)
        if self._size > self.driver.config.buffer_bytes and not self._slow:
            self._slow = True
            self.driver.handle(Congested(self))

    async def events(self, positions: dict[int, int]) -> AsyncIterator[bytes]:
        """``positions`` is moved along; the id of an event is all of them, so that a reconnect resumes them all."""
        while True:
            if not self._arrived:
                self._size = 0
                if self._slow:
                    self._slow = False
                    self.driver.handle(Drained(self))
            try:
                async with asyncio.timeout(ALIVE):
                    text = await self.next()
            except TimeoutError:
                yield b": alive\n\n"
                continue
            except UserError:
                return
            head = _head.decode(text)
            if head.type in ("welcome", "pong"):
                continue
            if head.type == "notify" or head.type == "live":
                positions[head.subscription] = max(positions.get(head.subscription, 0), head.execution)
            if head.type == "subscribed":
                positions[head.subscription] = head.after
            if head.type == "ping":
                self.driver.handle(Received(self, [wire.Pong()]))
                continue
            mark = ",".join(f"{number}:{execution}" for number, execution in positions.items())
            yield b"id: %b\nevent: %b\ndata: %b\n\n" % (mark.encode(), head.type.encode(), text)


class _Head(msgspec.Struct):
    type: str
    subscription: int = 0
    execution: int = 0
    after: int = 0


_head = msgspec.json.Decoder(_Head)
