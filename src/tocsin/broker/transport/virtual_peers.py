"""Those who are no WebSocket, as peers of the state machine: a request over REST, a stream of Server-Sent Events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Self

import msgspec

from tocsin.broker.core.events import Assumed, Closed, Congested, Drained, Opened, Received
from tocsin.broker.transport.driver import Driver
from tocsin.errors import UserError
from tocsin.wire import messages as wire
from tocsin.wire.close_codes import Close
from tocsin.wire.frames import TEXT, payloads
from tocsin.wire.remote_errors import remote_error

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
                    raise remote_error(message.code, message.message, message.hint)
                if getattr(message, "id", None) == id:
                    return message


class Stream(Caller):
    """Server-Sent Events: bounded like a connection; who reads too slowly is served from the results later."""

    def __init__(self, driver: Driver, user: str | None) -> None:
        super().__init__(driver, user)
        self._size = 0
        self._slow = False
        self._positions: dict[int, int] = {}
        self._formers: dict[int, int] = {}

    def write(self, data: bytes) -> None:
        super().write(data)
        self._size += len(data)
        if self._size > self.driver.config.buffer_bytes and not self._slow:
            self._slow = True
            self.driver.handle(Congested(self))

    def start(self, subscription: int, after: int, former: int | None) -> None:
        """``former`` is the number that the position belongs to, until all of it has come."""
        self._positions[subscription] = after
        if former is not None:
            self._formers[subscription] = former

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
                    text = await self.next()
            except TimeoutError:
                yield b": alive\n\n"
                continue
            except UserError:
                return
            head = _head.decode(text)
            if head.type in ("welcome", "pong"):
                continue
            if head.type == "ping":
                self.driver.handle(Received(self, [wire.Pong()]))
                continue
            self._pass(head)
            pairs = [(self._formers.get(number, number), after) for number, after in self._positions.items()]
            mark = ",".join(f"{number}:{after}" for number, after in pairs)
            yield b"id: %b\nevent: %b\ndata: %b\n\n" % (mark.encode(), head.type.encode(), text)

    def _pass(self, head: _Head) -> None:
        number = head.subscription
        if head.type == "subscribed":
            self._positions[number] = head.after
        elif head.type in ("notify", "live", "gap"):
            reached = head.next - 1 if head.type == "gap" else head.execution
            self._positions[number] = max(self._positions.get(number, 0), reached)
        if head.type == "live" or head.reason == "released":
            self._formers.pop(number, None)


class _Head(msgspec.Struct):
    type: str
    subscription: int = 0
    execution: int = 0
    after: int = 0
    next: int = 0
    reason: str = ""


_head = msgspec.json.Decoder(_Head)
