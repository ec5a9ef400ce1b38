"""The HTTP server of the data cluster: the table of operations behind a router, on uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import uvicorn
from starlette.requests import ClientDisconnect
from starlette.routing import Route, Router
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tocsin.cluster.facade import Facade
from tocsin.cluster.openapi import document
from tocsin.cluster.routes import OPERATIONS, Exchange, Operation, Site
from tocsin.cluster.routes.answers import error_answer
from tocsin.cluster.routes.feeds import Feeds
from tocsin.cluster.routes.reading import Disconnected
from tocsin.cluster.routes.threads import Threads
from tocsin.config import ClusterConfig
from tocsin.errors import LimitExceeded, Malformed, MethodNotAllowed, NoSuchPath, SystemTrouble, TocsinError, UserError

log = logging.getLogger("tocsin.server")

#: Seconds that requests get to finish after the signal to stop.
GRACE = 30
#: Connections the kernel holds while the loop is busy.
BACKLOG = 2048
#: Request line and headers together.
HEAD_BYTES = 64 * 1024


class Sent:
    """Passes messages on and remembers what was answered."""

    def __init__(self, send: Any) -> None:
        self.send = send
        self.status = 0

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self.send(message)


class PathEndpoint:
    """All operations of one path, by method; HEAD is a GET whose body the server leaves out."""

    def __init__(self, site: Site, operations: list[Operation]) -> None:
        self.site = site
        self.by_method = {each.method: each for each in operations}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        operation = self.by_method.get(method)
        if operation is None:
            raise MethodNotAllowed(scope["method"], scope["path"], sorted(self.by_method))
        scope["tocsin.route"] = operation.path
        response = await operation.handler(Exchange(self.site, operation, scope, receive))
        await response(scope, receive, send)


class App:
    """The ASGI application. Posts to feeds go straight to their handler; all else through Starlette's router."""

    def __init__(self, cluster: Facade, config: ClusterConfig) -> None:
        self.site = Site(cluster, config, Threads(), OPERATIONS, document(OPERATIONS))
        self.metrics = cluster.metrics
        self.feeds = Feeds(self.site)
        by_path: dict[str, list[Operation]] = {}
        for operation in OPERATIONS:
            by_path.setdefault(operation.path, []).append(operation)
        self.router = Router(
            [Route(path, PathEndpoint(self.site, each)) for path, each in by_path.items()],
            redirect_slashes=False,
            default=no_such_path,
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        path = scope["path"]
        if scope["method"] == "POST" and path.startswith("/feeds/") and len(path) > 7 and "/" not in path[7:]:
            await self.feeds(scope, receive, send)
            return
        started = perf_counter()
        sent = Sent(send)
        where = f"{scope['method']} {path}"
        try:
            await self.router(scope, receive, sent)
        except (Disconnected, ClientDisconnect):
            return
        except Exception as error:
            if sent.status:
                # The status is out: breaking off is the only way left to say that it went wrong.
                log.error("%s broke off", where, exc_info=error)
                raise BrokeOff(where) from error
            await error_answer(error, where)(scope, receive, sent)
        route = scope.get("tocsin.route", "none")
        self.metrics.http_requests.labels(scope["method"], route, str(sent.status)).inc()
        self.metrics.http_seconds.labels(scope["method"], route).observe(perf_counter() - started)

    def close(self) -> None:
        self.site.stopping = True
        self.site.threads.close()


class BrokeOff(Exception):
    """An answer that could not be finished; already logged."""


async def no_such_path(scope: Any, receive: Any, send: Any) -> None:
    raise NoSuchPath(f"there is nothing at {scope['path']}", hint="GET / lists all routes")


def bind(host: str, port: int) -> socket.socket:
    """The listening socket, before anything slow is started."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        sock = socket.socket(family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UserError(f"cannot listen on {host}: {error}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
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


def address(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Protocol(HttpToolsProtocol):
    """uvicorn's, with an end to the head of a request, and with JSON for what cannot be read."""

    in_head = False
    head = 0

    def on_message_begin(self) -> None:
        self.in_head, self.head = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self.in_head = False
        super().on_headers_complete()

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
    """uvicorn repeats with a trace what is logged already, and warns of whatever scans the port."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, BrokeOff) and record.msg != "Invalid HTTP request received."


class Server(uvicorn.Server):
    """One data cluster on one socket. ``serve_until_stopped`` blocks; signals stop it once requests are done."""

    def __init__(
        self, cluster: Facade, config: ClusterConfig, sock: socket.socket, listening: Callable[[], None]
    ) -> None:
        self.app = App(cluster, config)
        self.cluster = cluster
        self.sock = sock
        self.listening = listening
        super().__init__(
            uvicorn.Config(
                self.app,
                loop="uvloop",
                http=Protocol,
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                backlog=BACKLOG,
                timeout_graceful_shutdown=GRACE,
            )
        )
        logging.getLogger("uvicorn.error").addFilter(Quiet())

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.app.site.stopping = True  # long polls end
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn does, but without raising the signal again: the cluster is still to be closed."""
        with contextlib.ExitStack() as stack:
            if threading.current_thread() is threading.main_thread():
                for number in (signal.SIGINT, signal.SIGTERM):
                    stack.callback(signal.signal, number, signal.signal(number, self.handle_exit))
            yield

    def serve_until_stopped(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self.config.get_loop_factory()) as runner:
                runner.run(self.serve([self.sock]))
        finally:
            self.app.close()


def serve(cluster: Facade, config: ClusterConfig, sock: socket.socket, listening: Callable[[], None]) -> None:
    """Starts the cluster, answers until a signal, then closes the cluster. ``listening`` runs once posts are taken."""
    cluster.start()
    try:
        Server(cluster, config, sock, listening).serve_until_stopped()
    finally:
        cluster.close()


@contextlib.contextmanager
def serving(cluster: Facade, config: ClusterConfig) -> Iterator[str]:
    """A server in a thread, for tests and notebooks; the cluster is the caller's to start and close."""
    up = threading.Event()
    sock = bind(config.host, config.port)
    url = address(sock)
    server = Server(cluster, config, sock, up.set)
    thread = threading.Thread(target=server.serve_until_stopped, name="tocsin-server", daemon=True)
    thread.start()
    try:
        while not up.wait(0.05):
            if not thread.is_alive():
                raise SystemTrouble("the server did not start")
        yield url
    finally:
        server.should_exit = True
        thread.join(GRACE + 5)
