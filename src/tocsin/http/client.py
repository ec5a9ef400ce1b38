"""A minimal HTTP/1.1 client for one server, for calls so frequent that a client library would be most of their cost.

Connections are reused, one request at a time on each. Every failure is an OSError.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httptools

from tocsin.errors import UserError

#: Most idle connections that are kept.
IDLE = 16
CONNECT_SECONDS = 5.0
#: Most bytes that are kept of the body of an error.
REFUSAL_BYTES = 64 * 1024
NONE: Mapping[str, str] = {}

Take = Callable[[bytes], None]
Context = Callable[[], ssl.SSLContext]


def trust(ca: str | None = None) -> ssl.SSLContext:
    """The authorities to verify servers with: those of a file, of the file in TOCSIN_TLS_CA, or the system's."""
    return _trust(os.environ.get("TOCSIN_TLS_CA", "") if ca is None else ca)


@cache
def _trust(ca: str) -> ssl.SSLContext:
    """Read once: reading them takes longer than a call."""
    try:
        return ssl.create_default_context(cafile=ca or None)
    except (OSError, ssl.SSLError) as error:
        raise UserError(f"cannot read the authorities for TLS in {ca}: {error}") from error


class Unreadable(OSError):
    """The answer is not HTTP."""


class Connection(asyncio.Protocol):
    """``take`` gets the body of a 2xx answer piece by piece; an exception in it ends the request and the connection."""

    def __init__(self) -> None:
        self.open = False
        self.silent = True  # no byte of an answer has arrived
        self.status = 0
        self.refusal = b""
        self._done: asyncio.Future[bool] | None = None
        self._take: Take | None = None

    def connection_made(self, transport: Any) -> None:
        self.open = True
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        self._finish(exc if isinstance(exc, OSError) else ConnectionResetError("the connection ended"))

    async def ask(self, request: bytes, take: Take) -> bool:
        """Returns whether the connection can be reused."""
        self.silent, self.status, self.refusal, self._take = True, 0, b"", take
        self._parser = httptools.HttpResponseParser(self)
        self._done = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            return await self._done
        finally:
            self._done = self._take = None

    def close(self) -> None:
        self.open = False
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self.silent = False
        if self._done is None:  # an answer without a request
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            self._finish(error.__context__ or error)
        except httptools.HttpParserError as error:
            self._finish(Unreadable(f"this is not HTTP: {error}"))

    # -- from the parser

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, piece: bytes) -> None:
        if 200 <= self.status < 300:
            if self._take is not None:
                self._take(piece)
        elif len(self.refusal) < REFUSAL_BYTES:
            self.refusal += piece

    def on_message_complete(self) -> None:
        if self.status >= 200 and self._done is not None and not self._done.done():
            self._done.set_result(self._parser.should_keep_alive())

    def _finish(self, error: BaseException) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(error)
        self.close()


P = TypeVar("P", bound=asyncio.Protocol)


class Address:
    """Connects to the server of a URL and encodes requests; the URL's path is a prefix of theirs.

    ``context`` is asked for when a connection is made with TLS."""

    def __init__(self, url: str, context: Context = trust) -> None:
        self._context = context
        parts = urlsplit(url)
        self._host, self._tls = parts.hostname or "", parts.scheme == "https"
        self._port = parts.port or (443 if self._tls else 80)
        self._path = parts.path.rstrip("/")
        self._head = f" HTTP/1.1\r\nhost: {parts.netloc.rpartition('@')[2]}\r\n"

    def get(self, path: str, headers: Mapping[str, str] = NONE) -> bytes:
        fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"GET {self._path}{path}{self._head}{fields}\r\n".encode("ascii")

    def post(self, path: str, body: bytes, fields: bytes = b"") -> bytes:
        """A JSON body, in one piece with its head."""
        kind = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        return f"POST {self._path}{path}{self._head}{kind}".encode("ascii") + fields + b"\r\n" + body

    async def connect(self, protocol: Callable[[], P]) -> P:
        context = self._context() if self._tls else None
        async with asyncio.timeout(CONNECT_SECONDS):
            loop = asyncio.get_running_loop()
            _, made = await loop.create_connection(protocol, self._host, self._port, ssl=context)
        return made


class HttpClient:
    """``timeout`` bounds the time between two pieces of an answer, not the whole answer."""

    def __init__(self, url: str, context: Context = trust) -> None:
        self._address = Address(url, context)
        self._idle: list[Connection] = []

    async def get(self, path: str, take: Take, timeout: float, headers: Mapping[str, str] = NONE) -> tuple[int, bytes]:
        """The status, and the body if the status is not 2xx."""
        return await self._call(self._address.get(path, headers), take, timeout)

    async def post(self, path: str, body: bytes, take: Take, timeout: float) -> tuple[int, bytes]:
        """May send the request twice: use it only where that is harmless."""
        return await self._call(self._address.post(path, body), take, timeout)

    async def _call(self, request: bytes, take: Take, timeout: float) -> tuple[int, bytes]:
        while True:
            used = bool(self._idle)
            connection = self._idle.pop() if used else await self._address.connect(Connection)
            if not connection.open:
                continue
            try:
                status, refusal = await self._ask(connection, request, take, timeout)
            except OSError:
                # The server may just have closed the idle connection.
                if used and connection.silent:
                    continue
                raise
            return status, refusal

    async def _ask(self, connection: Connection, request: bytes, take: Take, timeout: float) -> tuple[int, bytes]:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout) as limit:

                def alive(piece: bytes) -> None:
                    limit.reschedule(loop.time() + timeout)
                    take(piece)

                again = await connection.ask(request, alive)
        except BaseException:
            connection.close()
            raise
        if again and len(self._idle) < IDLE:
            self._idle.append(connection)
        else:
            connection.close()
        return connection.status, connection.refusal

    def close(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()
