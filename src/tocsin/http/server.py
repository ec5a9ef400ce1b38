"""The listening socket, uvicorn's protocol with limits, and a server that leaves signals to its owner."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import resource
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tocsin.errors import LimitExceeded, Malformed, NoSuchPath, TocsinError, UserError
from tocsin.http.access import Access
from tocsin.http.responses import error_answer

#: Connections that the kernel queues while the loop is busy.
BACKLOG = 2048
#: Request line and headers together.
HEAD_BYTES = 64 * 1024
#: Seconds that an idle connection is kept: parts send requests to each other all the time.
KEEP_ALIVE = 75
#: Seconds that a connection has for the head of its first request.
HEAD_SECONDS = 20.0


class Sent:
    """Passes messages on and remembers the status."""

    def __init__(self, send: Any) -> None:
        self.send = send
        self.status = 0

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self.send(message)


class BrokeOff(Exception):
    """An answer that could not be completed; already logged."""


async def no_such_path(scope: Any, receive: Any, send: Any) -> None:
    raise NoSuchPath(f"there is nothing at {scope['path']}", hint="GET / lists all routes")


def bind(host: str, port: int, *, shared: bool = False, listen: bool = True) -> socket.socket:
    """The listening socket. ``shared``: by several processes."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        sock = socket.socket(family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UserError(f"cannot listen on {host}: {error}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind((host, port))
        if listen:
            sock.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        sock.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise UserError(
                f"port {port} of {host} is in use", hint="stop what uses it, or choose another with --port"
            ) from error
        raise UserError(f"cannot listen on port {port} of {host}: {error}") from error
    sock.setblocking(False)
    return sock


def raise_file_limit() -> int:
    """Allows as many open files as the system permits: each connection needs one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def address(sock: socket.socket, *, tls: bool = False) -> str:
    host, port = sock.getsockname()[:2]
    scheme = "https" if tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class Protocol(HttpToolsProtocol):
    """uvicorn's, with a limit for the head of a request, and JSON answers to malformed requests.

    Every request passes ``access``, also one that becomes a WebSocket.
    """

    in_head = False
    head = 0
    head_timer: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, access: Access, **more: Any) -> None:
        super().__init__(*args, **more)
        self.access = access

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # A client that sends nothing, or byte by byte, must not hold a connection for long.
        self.head_timer = self.loop.call_later(HEAD_SECONDS, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.head_timer is not None:
            self.head_timer.cancel()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self.in_head, self.head = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self.in_head = False
        if self.head_timer is not None:
            self.head_timer.cancel()
            self.head_timer = None
        self.app = self.access.guard(self.config.loaded_app, self.headers)
        super().on_headers_complete()

    def handle_websocket_upgrade(self) -> None:
        error = self.access.refusal(self.headers)
        if error is None:
            super().handle_websocket_upgrade()
        else:
            self.refuse(b"403 Forbidden", error)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.in_head and not self.transport.is_closing():
            self.head += len(data)
            if self.head > HEAD_BYTES:
                self.refuse(
                    b"431 Request Header Fields Too Large", LimitExceeded("the head of the request is too long")
                )

    def send_400_response(self, msg: str) -> None:
        self.refuse(b"400 Bad Request", Malformed("this is not HTTP/1.1"))

    def refuse(self, status: bytes, error: TocsinError) -> None:
        body = error_answer(error).body
        head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(head % (status, len(body)) + bytes(body))
        self.transport.close()


class Quiet(logging.Filter):
    """Drops records of uvicorn that repeat logged errors, and its warnings about port scans."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, BrokeOff) and record.msg != "Invalid HTTP request received."


class WebServer(uvicorn.Server):
    """uvicorn's, for an owner that cleans up after it. ``listening`` is called when the port is open."""

    def __init__(
        self,
        app: Any,
        access: Access,
        *,
        grace: int,
        tls: ssl.SSLContext | None = None,
        protocol: Any = Protocol,
        websocket: Any = "none",
        listening: Callable[[], None] = lambda: None,
    ) -> None:
        self._listening, self._tls = listening, tls
        super().__init__(
            uvicorn.Config(
                app,
                interface="asgi3",
                loop="uvloop",
                http=partial(protocol, access=access),  # type: ignore[arg-type]
                ws=websocket,
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                backlog=BACKLOG,
                timeout_graceful_shutdown=grace,
                timeout_keep_alive=KEEP_ALIVE,
            )
        )
        logging.getLogger("uvicorn.error").addFilter(Quiet())

    async def main(self) -> None:
        """What the process does; a part that prepares and cleans up around ``serve`` overrides it."""

    def serve_until_stopped(self) -> None:
        with asyncio.Runner(loop_factory=self.config.get_loop_factory()) as runner:
            runner.run(self.main())

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.config.ssl = self._tls
        await super().startup(sockets)
        self._listening()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Like uvicorn, but without raising the signal again, so that the owner can clean up."""
        with contextlib.ExitStack() as stack:
            if threading.current_thread() is threading.main_thread():
                for number in (signal.SIGINT, signal.SIGTERM):
                    stack.callback(signal.signal, number, signal.signal(number, self.handle_exit))
            yield
