"""A persistent HTTP/1.1 connection with pipelining: requests need not wait for the answers before them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import httptools
from msgspec import Struct

from tocsin.http.client import Address, Unreadable

#: Bodies of answers are ignored; a longer one ends the connection.
BODY_BYTES = 64 * 1024


class Answer(Struct, frozen=True):
    """To the oldest unanswered request."""

    status: int
    fields: dict[bytes, bytes]


class Stale(ConnectionResetError):
    """The server closed a used connection, perhaps before it read the latest requests."""


class Pipeline(asyncio.Protocol):
    """``answered`` is called with each answer, in the order of the requests; ``lost`` once, when the connection ends.
    The server may or may not have handled the requests that are unanswered then. ``close`` stops both callbacks.

    ``timeout`` limits the time from a request to the end of its answer.
    """

    def __init__(
        self,
        address: Address,
        answered: Callable[[Answer], None],
        lost: Callable[[OSError], None],
        timeout: float,
    ) -> None:
        self._address, self._on_answer, self._on_lost, self._timeout = address, answered, lost, timeout
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
        """Sends head and JSON body in one write. ``fields`` are complete header lines."""
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
        """One timer for all requests, set for the oldest unanswered one."""
        loop, self._timer = asyncio.get_running_loop(), None
        if self._deadlines:
            if self._deadlines[0] <= loop.time():
                self._end(TimeoutError("no answer in time"))
            else:
                self._timer = loop.call_at(self._deadlines[0], self._late)

    def _end(self, error: OSError) -> None:
        if not self._closed:
            self.close()
            self._on_lost(error)

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
            raise Unreadable("an answer without a request")
        self._fields, self._size = {}, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields[name.lower()] = value

    def on_body(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > BODY_BYTES and not self._closed:
            # The status is known; there is no need to wait for the rest.
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
        self._on_answer(Answer(self._parser.get_status_code(), self._fields))
