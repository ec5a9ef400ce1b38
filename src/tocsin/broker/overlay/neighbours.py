"""Drives the router of this broker: its links with neighbours, and the time. Reconnects for as long as it runs."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

import httpx
from msgspec import Struct
from websockets.http11 import Request

from tocsin.broker.overlay.link_socket import PATIENCE, LinkSocket
from tocsin.broker.upstream.introduction import FAILURES, Introduction
from tocsin.broker.upstream.peer_endpoint import PeerEndpoint
from tocsin.errors import Malformed
from tocsin.http.tls import Tls
from tocsin.overlay.content import events as ev
from tocsin.overlay.content import instructions as do
from tocsin.overlay.content.codec import Codec
from tocsin.overlay.content.messages import Record, Role
from tocsin.overlay.content.router import Router
from tocsin.wire import close_codes
from tocsin.wire.backoff import Backoff

log = logging.getLogger(__name__)

#: Seconds between two ticks.
TICK = 0.25
#: Shortest and longest seconds between two tries to reach a neighbour.
RETRY = (0.2, 10.0)


class LinkView(Struct, frozen=True):
    """``state``: ``up``, ``down`` or ``refused``."""

    neighbour: str
    state: str
    problem: str
    waiting: int
    messages_in: int
    messages_out: int
    bytes_in: int
    bytes_out: int


class OverlayView(Struct, frozen=True):
    """``GET /overlay``: this broker's own links, and all brokers as it knows them."""

    broker: str
    role: Role
    epoch: int
    links: list[LinkView]
    brokers: list[Record]
    problems: dict[str, str]


class Neighbours:
    """``carry_out`` gets the instructions that are not for links. ``endpoint`` knows who has joined this broker."""

    def __init__(
        self,
        router: Router,
        urls: tuple[str, ...],
        introduction: Introduction,
        endpoint: PeerEndpoint,
        tls: Tls,
        carry_out: Callable[[do.Instruction], None] = lambda it: None,
    ) -> None:
        self.router, self._urls = router, urls
        self._introduction, self._endpoint, self._tls = introduction, endpoint, tls
        self.carry_out = carry_out
        self._loop = asyncio.get_running_loop()
        self._codec = Codec()
        self._sockets: dict[str, list[LinkSocket]] = {}
        self._traffic: dict[str, list[int]] = {}
        #: By neighbour or address: why there is no link with it.
        self.problems: dict[str, str] = {}
        self._client = httpx.AsyncClient(timeout=PATIENCE, trust_env=False, verify=tls.client())
        self._tasks: list[asyncio.Task[None]] = []
        self._ticking: asyncio.TimerHandle | None = None

    # -- life

    def start(self) -> None:
        self._tick()
        self._tasks = [self._loop.create_task(self._connect(url)) for url in self._urls]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._ticking is not None:
            self._ticking.cancel()
        self.event(ev.Leave())
        for sockets in list(self._sockets.values()):
            for socket in sockets:
                socket.close(close_codes.GOING_AWAY)
        await self._client.aclose()

    def _tick(self) -> None:
        self.event(ev.Tick())
        self._ticking = self._loop.call_later(TICK, self._tick)

    # -- the router

    def event(self, event: ev.Event) -> None:
        for instruction in self.router.handle(event, self._loop.time()):
            if isinstance(instruction, do.Send):
                sockets = self._sockets.get(instruction.target)
                if sockets:
                    sockets[0].send(self._codec.encode(instruction.message))
            elif isinstance(instruction, do.LinkRefused):
                self._problem(instruction.neighbour, f"{instruction.error} ({instruction.error.hint})")
            else:
                self.carry_out(instruction)

    def _problem(self, where: str, why: str) -> None:
        if self.problems.get(where) != why:
            self.problems[where] = why
            log.error("there is no link with %s: %s", where, why)

    # -- connections

    def accept(self) -> LinkSocket:
        """For a request that came to the inner port."""
        return LinkSocket.server(self, self._admit)

    def _admit(self, request: Request) -> str | None:
        headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in request.headers.raw_items()]
        part = self._endpoint.sender(headers)
        return None if part is None else part.name

    def opened(self, socket: LinkSocket) -> None:
        self._sockets.setdefault(socket.name, []).append(socket)
        self.problems.pop(socket.name, None)
        if socket.outgoing:
            self.event(ev.Connect(socket.name))

    def received(self, socket: LinkSocket, data: bytes) -> None:
        try:
            message = self._codec.decode(data)
        except Malformed as error:
            log.warning("the link with %s is closed: %s", socket.name, error.message)
            socket.close(close_codes.MALFORMED, error.message)
        else:
            self.event(ev.Received(socket.name, message))

    def closed(self, socket: LinkSocket) -> None:
        """What was on its way may be lost, also if there is another connection."""
        sockets = self._sockets[socket.name]
        sockets.remove(socket)
        if not sockets:
            del self._sockets[socket.name]
        total = self._traffic.setdefault(socket.name, [0, 0, 0, 0])
        self._traffic[socket.name] = [one + more for one, more in zip(total, _traffic(socket), strict=True)]
        self.event(ev.Broken(socket.name))

    async def _connect(self, url: str) -> None:
        """Until this broker stops. The other one may start later, restart, or have another name then."""
        waits = Backoff(random.Random(), *RETRY)
        name = ""
        while True:
            try:
                if not name:
                    name = (await self._introduction.join(self._client, url)).broker
                socket = await self._open(url, name)
                self.problems.pop(url, None)
                why = await asyncio.shield(socket.ended)
                if socket.messages_in:
                    waits.reset()
                else:
                    name = ""  # it may not know this broker any more
                log.info("the connection to %s has ended: %s", url, why)
            except FAILURES as error:
                name = ""
                self._problem(url, str(error) or type(error).__name__)
            await asyncio.sleep(waits.next())

    async def _open(self, url: str, name: str) -> LinkSocket:
        headers = self._introduction.peer(self._introduction.store.key(name)).headers
        at = httpx.URL(url)
        secure = at.scheme == "https"
        _, socket = await self._loop.create_connection(
            lambda: LinkSocket.client(self, url, name, headers),
            at.host,
            at.port or (443 if secure else 80),
            ssl=self._tls.client() if secure else None,
        )
        return socket

    # -- for the operator

    def traffic(self) -> tuple[str, dict[str, tuple[int, int]]]:
        """This broker's role, and by neighbour the messages that came and went."""
        links = [self._link(link.name) for link in self.router.links.joined]
        return self.router.role, {each.neighbour: (each.messages_in, each.messages_out) for each in links}

    def view(self) -> OverlayView:
        router = self.router
        links = [self._link(name) for name in sorted(router.links.all)]
        brokers = sorted([router.topology.me, *router.topology.records.values()], key=lambda each: each.name)
        return OverlayView(router.name, router.role, router.context.epoch, links, brokers, dict(self.problems))

    def _link(self, name: str) -> LinkView:
        link = self.router.links.all[name]
        totals = [self._traffic.get(name, [0, 0, 0, 0]), *map(_traffic, self._sockets.get(name, ()))]
        traffic = [sum(each) for each in zip(*totals, strict=True)]
        up = link.established and not link.silent and name in self._sockets
        state = "refused" if link.problem else "up" if up else "down"
        return LinkView(name, state, link.problem, link.waiting, *traffic)


def _traffic(socket: LinkSocket) -> list[int]:
    return [socket.messages_in, socket.messages_out, socket.bytes_in, socket.bytes_out]
