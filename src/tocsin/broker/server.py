"""The broker's process: one port for subscribers, one inside for the data cluster, one state machine behind both."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from tocsin.broker.core.balancing.peer_balancer import check, reconfigured
from tocsin.broker.core.events import DrainSelf
from tocsin.broker.metrics import BrokerMetrics
from tocsin.broker.observers import Observers
from tocsin.broker.overlay.destination import Destination
from tocsin.broker.overlay.epoch_store import next_epoch
from tocsin.broker.overlay.link_socket import LinkSocket
from tocsin.broker.overlay.live_feeds import live_feeds
from tocsin.broker.overlay.neighbours import Neighbours
from tocsin.broker.overlay.overlay import Overlay
from tocsin.broker.transport.driver import Driver
from tocsin.broker.transport.handshake import PATH
from tocsin.broker.transport.notify_endpoint import NOTIFY_BYTES, NotificationReceiver, NotifyEndpoint
from tocsin.broker.transport.rest import Rest
from tocsin.broker.transport.websocket import WebSocket
from tocsin.broker.upstream.heartbeat_http import HeartbeatClient
from tocsin.broker.upstream.http_client import UpstreamClient
from tocsin.broker.upstream.introduction import Introduction
from tocsin.broker.upstream.peer_client import PeerClient
from tocsin.broker.upstream.peer_endpoint import PeerEndpoint
from tocsin.broker.upstream.peer_store import PeerStore
from tocsin.broker.upstream.users import CoordinatorUsers, LocalUsers, Users
from tocsin.config import BrokerConfig
from tocsin.errors import MethodNotAllowed, NoSuchPath, StorageError, UserError
from tocsin.http.access import Access, host_of
from tocsin.http.addresses import Proxies, client_of, is_loopback_url
from tocsin.http.budgets import LEAST, file_limit
from tocsin.http.request_handler import handle
from tocsin.http.requests import read_body
from tocsin.http.responses import answer
from tocsin.http.server import Protocol, WebServer, address, no_such_path
from tocsin.http.tls import Tls
from tocsin.identity.part_keys import PartKey, Peer
from tocsin.overlay.content.router import Router as ContentRouter
from tocsin.overlay.content.settings import Settings
from tocsin.wire import asyncapi
from tocsin.wire.links import LINK_PATH
from tocsin.wire.reports import PeerAddress
from tocsin.wire.tickets import TicketVerifier

log = logging.getLogger(__name__)

#: Seconds that requests get to finish after the signal to stop.
GRACE = 10
#: A connection loses nothing while it lasts, and its end is known.
LINKS = Settings(resend_after=5.0)


def make_home(home: Path) -> None:
    """Only for this broker to read: its identity and, without a coordinator, the users are there."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot create the folder {home}: {error}", hint="choose another --home") from error


@contextlib.contextmanager
def part_key(home: Path, name: str) -> Iterator[PartKey]:
    """Locked while the broker runs. Processes that share a home have one each, by their names."""
    path = home / f"{quote(name, safe='')}.key"
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(f"a broker {name!r} already uses {home}", hint="choose another --name") from error
        yield PartKey.load(path, name)


def _only_here(config: BrokerConfig, public: socket.socket) -> bool:
    """Whether only this machine reaches the broker, also by another address, such as a proxy's."""
    return is_loopback_url(address(public)) and (not config.public_url or is_loopback_url(config.public_url))


class HandOver(Protocol):
    """Hands a connection that becomes a WebSocket over, and keeps nothing of it."""

    def handle_websocket_upgrade(self) -> None:
        self._stop_waiting()
        place = ((self.scope["server"] or ("", None))[1], self.url.partition(b"?")[0].decode("latin-1"))
        self.ws_protocol_class: Any = partial(self.ws_protocol_class, address=client_of(self.scope), place=place)
        super().handle_websocket_upgrade()
        # The parser and the protocol hold each other: 10 kB a connection until they are collected.
        self.parser = self.scope = self.headers = None  # type: ignore[assignment]


class PeerParts(NamedTuple):
    """To other brokers, and from them. ``client``: of a broker that balances with them."""

    client: PeerClient | None
    endpoint: PeerEndpoint
    overlay: Overlay


class App:
    """The ASGI application. What is inside is answered on the inner port only."""

    def __init__(
        self,
        driver: Driver,
        upstream: UpstreamClient,
        users: Users,
        inside: int,
        observers: Observers,
        peers: PeerEndpoint,
        overlay: Overlay,
    ) -> None:
        self.peers, self.overlay, self.observers = peers, overlay, observers
        self.driver = driver
        self.upstream = upstream
        self.inside = inside
        self.receiver = NotificationReceiver(driver, upstream.settled, upstream.peer)
        self.metrics = BrokerMetrics(driver.state, driver.loop.time)
        self.rest = Rest(driver, upstream.channels, users)
        self.router = Router(
            [
                *self.rest.routes,
                Route("/", self.index, methods=["GET"]),
                Route("/healthz", self.health, methods=["GET"]),
                Route("/readyz", self.ready, methods=["GET"]),
                Route("/metrics", self.show_metrics, methods=["GET"]),
                Route("/load", self.load, methods=["GET"]),
                Route("/balancing", self.balancing, methods=["GET"]),
                Route("/balancing/components", self.components, methods=["GET"]),
                Route("/asyncapi.json", self.asyncapi, methods=["GET"]),
                Route("/overlay", self.show_overlay, methods=["GET"]),
            ],
            redirect_slashes=False,
            default=no_such_path,
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        app: Any = self.notify if scope["path"] == "/notify" else self.router
        if scope["path"].startswith("/peers/") and scope["server"][1] == self.inside:
            app = self.peers.router
        await handle(app, scope, receive, send)

    async def notify(self, scope: Any, receive: Any, send: Any) -> None:
        """Notifications in an unusual form; see ``NotifyEndpoint``."""
        if scope["server"][1] != self.inside:
            raise NoSuchPath("there is nothing at /notify", hint="GET / lists all routes")
        if scope["method"] != "POST":
            raise MethodNotAllowed(scope["method"], "/notify", ["POST"])
        await self.upstream.settled.wait()
        self.receiver.check(scope["headers"])
        body = await read_body(scope["headers"], receive, NOTIFY_BYTES)
        self.receiver.on_notify(body)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def index(self, request: Request) -> Response:
        paths = sorted(route.path for route in self.router.routes if isinstance(route, Route))
        return answer({"broker": self.driver.config.name, "websocket": PATH, "paths": paths})

    async def health(self, request: Request) -> Response:
        return answer({"status": "alive"})

    async def ready(self, request: Request) -> Response:
        upstream = self.upstream
        problem, known = self.driver.store_problem, self.driver.state.access.known
        ready = upstream.registered.is_set() and upstream.last_error is None and known and not problem
        facts = {
            "ready": ready,
            "registered": upstream.registered.is_set(),
            "grants": known,
            "cluster": upstream.last_error or "answers",
            "users": problem or "known",
        }
        return answer(facts, 200 if ready else 503)

    def _check_observer(self, request: Request, *, metrics: bool = False) -> None:
        self.observers.check(request.scope["server"][1], request.scope["headers"], metrics=metrics)

    async def show_metrics(self, request: Request) -> Response:
        self._check_observer(request, metrics=True)
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def asyncapi(self, request: Request) -> Response:
        return answer(asyncapi.document())

    async def balancing(self, request: Request) -> Response:
        self._check_observer(request)
        return answer(self.driver.state.balancing_view())

    async def components(self, request: Request) -> Response:
        self._check_observer(request)
        return answer(self.driver.state.balancing_components())

    async def show_overlay(self, request: Request) -> Response:
        self._check_observer(request)
        return answer(self.overlay.neighbours.view())

    async def load(self, request: Request) -> Response:
        self._check_observer(request)
        return answer(self.driver.state.load_reports.report(self.driver.loop.time()))


class Server(WebServer):
    """One broker on two sockets. ``again`` reads its configuration again."""

    request_part = 40  # most files are for subscribers

    def __init__(
        self,
        config: BrokerConfig,
        public: socket.socket,
        inside: socket.socket,
        tell: Callable[[str], None] = lambda event: None,
        again: Callable[[], BrokerConfig] | None = None,
    ) -> None:
        check(config)
        self.again = again
        if not config.anonymous and not _only_here(config, public):
            config = structs.replace(config, anonymous="none")
        elif not config.anonymous and not config.cluster:
            config = structs.replace(config, anonymous="all")
        self.settings = config
        self.public, self.inside = public, inside
        self.tell = tell
        self.driver: Driver
        self.reporter: HeartbeatClient | None = None
        own = [config.host, host_of(config.public_url)]
        access = Access(public, config.hosts, config.origins, own=own)
        self.inside_access = Access(inside, own=[config.inside_host, host_of(config.inside_url)])
        self.tls = Tls.of(config)
        super().__init__(
            self.answer,
            access,
            grace=GRACE,
            limits=config.http,
            proxies=Proxies(config.trusted_proxies, config.proxy_header),
            tls=self.tls.server(),
            protocol=HandOver,
            websocket=self.websocket,
        )

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)

    def websocket(
        self, config: Any, server_state: Any, app_state: Any, address: str, place: tuple[int | None, str]
    ) -> WebSocket | LinkSocket:
        """``place``: port and path."""
        if place == (self.inside.getsockname()[1], LINK_PATH):
            return self.overlay.neighbours.accept()
        return WebSocket(self.driver, address)

    def subscribers(self) -> int:
        return len(self.driver.state.context.sessions)

    def web(self) -> asyncio.Protocol:
        """What answers requests on the inner port that are not notifications."""
        return HandOver(self.config, self.server_state, self.lifespan.state, access=self.inside_access)

    async def main(self) -> None:
        config = self.settings
        connections = min(config.limits.connections, file_limit() - self.requests - LEAST)
        config = structs.replace(config, limits=structs.replace(config.limits, connections=connections))
        loop = asyncio.get_running_loop()
        held = contextlib.ExitStack()
        try:
            make_home(Path(config.home))
            own = held.enter_context(part_key(Path(config.home), config.name))
            data_cluster = Peer("data cluster", own, config.join_secret)
            tickets = TicketVerifier(config.name, time.time, secrets.token_bytes(32))
            self.driver = Driver(config, loop, tickets)
            url = config.inside_url or address(self.inside, tls=bool(config.tls_certificate))
            upstream = UpstreamClient(self.driver, url.rstrip("/") + "/notify", data_cluster, self.tls)
            public = config.public_url or address(self.public, tls=bool(config.tls_certificate))
            peers = self._peers(own, PeerAddress(public, url))
            self.overlay = overlay = peers.overlay
            upstream.is_live, upstream.on_feeds = overlay.live.find, lambda feeds: overlay.define(live_feeds(feeds))
            if config.coordinator:
                coordinator = Peer("coordinator", own, config.join_secret)
                self.reporter = HeartbeatClient(self.driver, tickets, public, coordinator, self.tls, inside=url)
                users = Users(self.driver, CoordinatorUsers(self.reporter))
            else:
                users = Users(self.driver, held.enter_context(LocalUsers.opened(config)))
            inside = self.inside.getsockname()[1]
            self.app = App(self.driver, upstream, users, inside, self._observers(), peers.endpoint, overlay)
            destination = Destination(overlay.live.carry_out, upstream.carry_out)
            to_peers = None if peers.client is None else peers.client.carry_out
            self.driver.start(destination.carry_out, users.exchange, to_peers)
            if config.cluster:
                upstream.start()
            else:
                upstream.alone()
            users.start()
            if self.reporter is not None:
                self.reporter.start()
            overlay.start()
            if peers.client is not None:
                peers.client.start()
                for number, undo in ((signal.SIGUSR1, False), (signal.SIGUSR2, True)):
                    loop.add_signal_handler(number, self.driver.handle, DrainSelf(undo))
                loop.add_signal_handler(signal.SIGHUP, self.reconfigure)
            waiting = asyncio.create_task(self._ready(upstream, destination))
            # What is allocated now stays: collecting it again and again only pauses all connections.
            gc.freeze()
            gc.set_threshold(50_000, 50, 100)
            await self.serve([self.public])
            waiting.cancel()
            await users.stop()
            await overlay.stop()
            if peers.client is not None:
                await peers.client.stop()
            if self.reporter is not None:
                await self.reporter.stop()
            await upstream.stop()
        finally:
            held.close()

    def _observers(self) -> Observers:
        config = self.settings
        here = {self.public.getsockname()[1]} if _only_here(config, self.public) else set()
        if is_loopback_url(address(self.inside)) and (not config.inside_url or is_loopback_url(config.inside_url)):
            here.add(self.inside.getsockname()[1])
        return Observers(config.observer_token, frozenset(here), open_metrics=config.open_metrics)

    def _peers(self, own: PartKey, at: PeerAddress) -> PeerParts:
        config = self.settings
        home, name = Path(config.home), quote(config.name, safe="")
        store = PeerStore(home / f"{name}.peers.json")
        endpoint = PeerEndpoint(self.driver, own, at, store, config.join_secret)
        router = ContentRouter(
            config.name,
            epoch=next_epoch(home / f"{name}.epoch", time.time()),
            rng=Random(),
            settings=LINKS,
            pin=None if config.role == "auto" else config.role,
            url=at.url,
        )
        introduction = Introduction(own, at, store, config.join_secret)
        neighbours = Neighbours(router, config.neighbours, introduction, endpoint, self.tls)
        client = None
        if config.balancing.mode == "peers":
            client = PeerClient(self.driver, own, at, store, config.join_secret, self.tls)
        return PeerParts(client, endpoint, Overlay(self.driver, neighbours, config.live_feeds))

    def reconfigure(self) -> None:
        """Balance as the configuration says now; if it cannot, go on as before."""
        try:
            config = self.settings if self.again is None else self.again()
            self.driver.handle(reconfigured(config))
        except UserError as error:
            log.error("balancing goes on as before: %s (%s)", error.message, error.hint)
        else:
            log.warning("balancing with %s", config.balancing.strategy)

    async def _ready(self, upstream: UpstreamClient, destination: Destination) -> None:
        await upstream.registered.wait()
        destination.listed()
        while not self.driver.state.access.known:
            await asyncio.sleep(0.05)
        self.tell("ready")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        loop = asyncio.get_running_loop()
        self.inner = await loop.create_server(
            lambda: NotifyEndpoint(self.app.receiver, self.web, self.inside_access),
            sock=self.inside,
            ssl=self.tls.server(mutual=True),
        )
        self.tell("listening")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self.reporter is not None:
            await self.reporter.leave()
        self.driver.stop()
        self.inner.close()
        self.app.receiver.close()
        await super().shutdown(sockets)
