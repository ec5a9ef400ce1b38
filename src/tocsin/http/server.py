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

from tocsin.config import HttpLimits
from tocsin.errors import LimitExceeded, Malformed, NoSuchPath, RequestTimeout, TocsinError, UserError
from tocsin.http.access import Access
from tocsin.http.addresses import Proxies
from tocsin.http.budgets import LEAST, BoundedApp, WaitingConnections, file_limit
from tocsin.http.responses import error_answer

#: Connections that the kernel queues while the loop is busy.
BACKLOG = 2048
#: Request line and headers together.
HEAD_BYTES = 64 * 1024
#: Seconds after which a connection that is closed is aborted: the client may not read what is still to be written.
CLOSING = 5.0


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


class ServerConfig(uvicorn.Config):
    """uvicorn's, with what its connections share."""

    limits: HttpLimits
    waiting: WaitingConnections
    proxies: Proxies


class Protocol(HttpToolsProtocol):
    """uvicorn's, with a deadline for every phase, a limit for the head, and JSON answers to malformed requests.

    Every request passes ``access``, also one that becomes a WebSocket. Most requests arrive in one piece, head and
    body, and need no timer.
    """

    config: ServerConfig
    in_head = in_body = False
    head = 0
    _received, _since = 0, 0.0  # bytes of the body, and when it began
    _timer: asyncio.TimerHandle | None = None  # of head or body
    _counted = False  # among the bodies
    _write_timer: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, access: Access, **more: Any) -> None:
        super().__init__(*args, **more)
        self.access = access

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._write_timer is not None:
            self._write_timer.cancel()
        super().connection_lost(exc)

    # -- reading

    def on_message_begin(self) -> None:
        self.in_head, self.head = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self.in_head, self.in_body = False, True
        self.scope["client"] = self.config.proxies.client(self.scope, self.headers)
        self.app = self.access.guard(self.config.loaded_app, self.headers)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.in_body = False
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        error = self.access.refusal(self.headers)
        if error is None:
            super().handle_websocket_upgrade()
        else:
            self.refuse(b"403 Forbidden", error)

    def data_received(self, data: bytes) -> None:
        was_body = self.in_body
        super().data_received(data)
        if self.parser is None or self.transport.is_closing():
            return  # it is another protocol's now, or ends
        if self.in_body:
            self._wait_for_body(len(data), continues=was_body)
        elif self.in_head or (self.timeout_keep_alive_task is None and self._is_idle()):
            self.head += len(data)
            if self.head > HEAD_BYTES:
                self.refuse(
                    b"431 Request Header Fields Too Large", LimitExceeded("the head of the request is too long")
                )
            elif self._timer is None or was_body:
                self._wait_for_head()
        else:
            self._stop_waiting()

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait_for_head(self) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(self.config.limits.head_seconds, self._too_slow)
        self.config.waiting.add(self)

    def _wait_for_body(self, size: int, *, continues: bool) -> None:
        if continues and self._timer is not None:
            self._received += size
            return
        self._stop_waiting()
        self._received, self._since = size, self.loop.time()
        self._counted = True
        self.config.waiting.bodies += 1
        self._timer = self.loop.call_later(self.config.limits.body_seconds, self._check_body)
        self.config.waiting.add(self)

    def _check_body(self) -> None:
        limits, now = self.config.limits, self.loop.time()
        if self.flow.read_paused:
            self._since, self._received = now, 0  # the application does not read it
        due = self._since + limits.body_seconds + self._received / limits.body_rate
        if due <= now:
            self._too_slow()
        else:
            self._timer = self.loop.call_at(due, self._check_body)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._counted:
            self._counted = False
            self.config.waiting.bodies -= 1
        self.config.waiting.discard(self)

    def _too_slow(self) -> None:
        if self.in_body and not self.cycle.response_started:
            self.refuse(b"408 Request Timeout", RequestTimeout("the body of the request comes too slowly"))
        else:
            self._close()

    # -- writing

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self.loop.call_later(self.config.limits.write_seconds, self.abort)
        elif self.timeout_keep_alive_task is not None and not self.in_body:
            self.config.waiting.add(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.config.limits.write_seconds, self.abort)

    def resume_writing(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        super().resume_writing()

    # -- the end

    def timeout_keep_alive_handler(self) -> None:
        self._close()

    def _close(self) -> None:
        self.transport.close()
        self.loop.call_later(CLOSING, self.abort)

    def abort(self) -> None:
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        self.refuse(b"400 Bad Request", Malformed("this is not HTTP/1.1"))

    def refuse(self, status: bytes, error: TocsinError) -> None:
        body = error_answer(error).body
        head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(head % (status, len(body)) + bytes(body))
        self._close()


class Quiet(logging.Filter):
    """Drops records of uvicorn that repeat logged errors, and its warnings about port scans."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, BrokeOff) and record.msg != "Invalid HTTP request received."


class WebServer(uvicorn.Server):
    """uvicorn's, for an owner that cleans up after it. ``listening`` is called when the port is open."""

    request_part = 4  # of the files, for requests that are being answered

    def __init__(
        self,
        app: Any,
        access: Access,
        *,
        grace: int,
        limits: HttpLimits,
        proxies: Proxies | None = None,
        tls: ssl.SSLContext | None = None,
        protocol: Any = Protocol,
        websocket: Any = "none",
        listening: Callable[[], None] = lambda: None,
    ) -> None:
        self._listening, self._tls = listening, tls
        requests = min(limits.requests, max(LEAST, file_limit() // self.request_part))
        waiting = WaitingConnections(
            lambda: min(limits.waiting, max(LEAST, file_limit() - requests - self.subscribers()))
        )
        self.requests = requests
        super().__init__(
            ServerConfig(
                BoundedApp(app, requests, waiting),
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
                timeout_keep_alive=limits.idle_seconds,
            )
        )
        self.config: ServerConfig
        self.config.limits, self.config.waiting = limits, waiting
        self.config.proxies = proxies or Proxies(())
        logging.getLogger("uvicorn.error").addFilter(Quiet())

    def subscribers(self) -> int:
        """Connections of another kind."""
        return 0

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
