"""The HTTP server of the data cluster: a router over the table of operations, on uvicorn."""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from starlette.routing import Route, Router

from tocsin.cluster.http import OPERATIONS, Exchange, Operation, Site
from tocsin.cluster.http.feeds import FeedEndpoint
from tocsin.cluster.http.openapi import document
from tocsin.cluster.http.principals import Principals
from tocsin.config import ClusterConfig
from tocsin.errors import MethodNotAllowed
from tocsin.http.access import Access
from tocsin.http.addresses import Proxies
from tocsin.http.request_handler import handle
from tocsin.http.server import WebServer, no_such_path
from tocsin.http.thread_pools import Threads

if TYPE_CHECKING:
    from tocsin.cluster.service import DataCluster

#: Seconds that running requests have to finish after the stop signal.
GRACE = 30


class PathEndpoint:
    """All operations of one path, by method. HEAD is a GET; the server leaves out its body."""

    def __init__(self, site: Site, operations: list[Operation]) -> None:
        self.site = site
        self.by_method = {each.method: each for each in operations}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        operation = self.by_method.get(method)
        if operation is None or operation.handler is None:
            raise MethodNotAllowed(scope["method"], scope["path"], sorted(self.by_method))
        scope["tocsin.route"] = operation.path
        exchange = Exchange(self.site, operation, scope, receive)
        await exchange.authorize()
        response = await operation.handler(exchange)
        await response(scope, receive, send)


class App:
    """The ASGI application. Posts to feeds go directly to their endpoint, all other requests through a router."""

    def __init__(self, cluster: DataCluster, config: ClusterConfig) -> None:
        principals = Principals(config, cluster)
        self.site = Site(cluster, config, Threads(), principals, OPERATIONS, document(OPERATIONS))
        self.metrics = cluster.metrics
        self.feeds = FeedEndpoint(self.site)
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
        status = await handle(self.router, scope, receive, send)
        if not status:
            return
        route = scope.get("tocsin.route", "none")
        self.metrics.http_requests.labels(scope["method"], route, str(status)).inc()
        self.metrics.http_seconds.labels(scope["method"], route).observe(perf_counter() - started)

    def close(self) -> None:
        self.site.stopping = True
        self.site.threads.close()


class Server(WebServer):
    """Serves one data cluster on one socket. After a stop signal ``serve_until_stopped`` finishes running requests."""

    def __init__(
        self, cluster: DataCluster, config: ClusterConfig, sock: socket.socket, listening: Callable[[], None]
    ) -> None:
        self.app = App(cluster, config)
        self.cluster = cluster
        self.sock = sock
        access = Access(sock, config.hosts, config.origins, own=[config.host])
        proxies = Proxies(config.trusted_proxies, config.proxy_header)
        tls = cluster.tls.server(mutual=True)
        super().__init__(
            self.app, access, grace=GRACE, limits=config.http, proxies=proxies, listening=listening, tls=tls
        )

    async def main(self) -> None:
        await self.serve([self.sock])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.app.site.stopping = True  # long polls end
        await super().shutdown(sockets)

    def serve_until_stopped(self) -> None:
        try:
            super().serve_until_stopped()
        finally:
            self.app.close()


def serve(cluster: DataCluster, config: ClusterConfig, sock: socket.socket, listening: Callable[[], None]) -> None:
    """Start the cluster, serve until a signal, then close it. ``listening`` is called when the port is open."""
    cluster.start()
    # Objects that exist now live as long as the process: the garbage collector need not scan them again.
    gc.freeze()
    gc.set_threshold(20_000)
    try:
        Server(cluster, config, sock, listening).serve_until_stopped()
    finally:
        cluster.close()
