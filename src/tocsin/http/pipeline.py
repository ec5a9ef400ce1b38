"""A kept HTTP/1.1 connection on which requests may follow one another before they are answered."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import httptools
from msgspec import Struct

from tocsin.http.client import Address, Unreadable

#: An answer's body is of no interest; one that is longer ends the connection.
BODY_BYTES = 64 * 1024


class Answer(Struct, frozen=True):
    """To the oldest request that was not answered."""

    status: int
    fields: dict[bytes, bytes]


class Stale(ConnectionResetError):
    """The other side ended a connection that had been in use, perhaps before it saw what was asked since."""


class Pipeline(asyncio.Protocol):
    """``heard`` gets each answer, in the order of the requests; ``lost`` the end of the connection, once, whoever ended
    it: whether what is unanswered then was dealt with is not known. After ``close`` neither is called any more.

    ``timeout`` bounds the time from a request to the end of its answer.
    """

    def __init__(
        self,
        address: Address,
        heard: Callable[[Answer], None],
        lost: Callable[[OSError], None],
        timeout: float,
    ) -> None:
        self._address, self._heard, self._lost, self._timeout = address, heard, lost, timeout
        self._deadlines: deque[float] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._transport: Any = None
        self._closed = False
        self._silent = True  # nothing came back since the oldest request
        self._used = False
        self._fields: dict[bytes, bytes] = {}
        self._size = 0
        self._parser = httptools.HttpResponseParser(self)

    async def open(self) -> None:
        await self._address.connect(lambda: self)

    def post(self, path: str, body: bytes, fields: bytes = b"") -> None:
        """JSON, in one piece with its head. ``fields`` are whole lines of the head."""
        loop = asyncio.get_running_loop()
        if not self._deadlines:
            self._silent = True
        self._deadlines.append(loop.time() + self._timeout)
        if self._timer is None:
            self._timer = loop.call_at(self._deadlines[0], self._late)
        self._transport.write(self._address.post(path, body, fields))

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()

    def _late(self) -> None:
        """One timer for all: it is set again for the oldest that is left."""
        loop, self._timer = asyncio.get_running_loop(), None
        if self._deadlines:
            if self._deadlines[0] <= loop.time():
                self._end(TimeoutError("no answer in time"))
            else:
                self._timer = loop.call_at(self._deadlines[0], self._late)

    def _end(self, error: OSError) -> None:
        if not self._closed:
            self.close()
            self._lost(error)

    # -- from the loop

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._used and self._silent:
            self._end(Stale("the connection ended"))
        else:
            self._end(exc if isinstance(exc, OSError) else ConnectionResetError("the connection ended"))

    def data_received(self, data: bytes) -> None:
        if self._closed:
            return
        self._silent = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__ or error
            self._end(cause if isinstance(cause, OSError) else Unreadable(str(cause)))
        except httptools.HttpParserError as error:
            self._end(Unreadable(f"this is not HTTP: {error}"))

    # -- from the parser

    def on_message_begin(self) -> None:
        if not self._deadlines:
            raise Unreadable("an answer that nobody asked for")
        self._fields, self._size = {}, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields[name.lower()] = value

    def on_body(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > BODY_BYTES and not self._closed:
            # What it says is known; the rest of it is not waited for.
            self._answered()
            self._end(Stale("the answer is too long"))

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200 and not self._closed:
            last = not self._parser.should_keep_alive()
            self._answered()
            if last:
                self._end(Stale("the other side ends the connection"))

    def _answered(self) -> None:
        self._deadlines.popleft()
        self._used = True
        self._heard(Answer(self._parser.get_status_code(), self._fields))
