"""The broker in its overlay: live feeds between its state machine and its router, and clients that belong elsewhere."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping

from tocsin.broker.core.events import Event, Notified, Ordered
from tocsin.broker.overlay.live_feeds import FIRST_ID, READER, WRITER, LiveFeed, LiveFeeds, advertised
from tocsin.broker.overlay.neighbours import Neighbours
from tocsin.broker.transport.driver import Driver
from tocsin.overlay.content import events as ev
from tocsin.overlay.content import instructions as do
from tocsin.overlay.content.roles import SERVES
from tocsin.wire.reports import MigrationOrder, ReportReply

log = logging.getLogger(__name__)

#: Seconds between two looks at where clients belong.
PLACE = 5.0


class Overlay:
    """``given``: live feeds of the configuration, which no data cluster has to know."""

    def __init__(self, driver: Driver, neighbours: Neighbours, given: Mapping[str, str]) -> None:
        self._driver, self.neighbours = driver, neighbours
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Event] = []
        self._given = advertised(given)
        self.discarded = 0
        self._placing: asyncio.TimerHandle | None = None
        self.live = LiveFeeds(neighbours.router, self)
        neighbours.carry_out = self._routed
        driver.state.load_reports.overlay = neighbours.traffic
        self.live.define(self._given)

    def start(self) -> None:
        self.neighbours.start()
        self._place()

    async def stop(self) -> None:
        if self._placing is not None:
            self._placing.cancel()
        await self.neighbours.stop()

    def define(self, feeds: list[LiveFeed]) -> None:
        """Those of the data cluster; the configuration's own stay as they are."""
        own = {feed.name.lower() for feed in self._given}
        self.live.define([*self._given, *(feed for feed in feeds if feed.name.lower() not in own)])

    # -- the shell of the live feeds

    def later(self, event: Event) -> None:
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(event)

    def _flush(self) -> None:
        while self._waiting:
            self._driver.handle(self._waiting.pop(0))

    def notify(self, notifications: list[Notified]) -> None:
        """After what was answered before: a subscription is confirmed before its first publication."""
        self._flush()
        self._driver.on_notify(notifications)

    def route(self, event: ev.Event) -> None:
        self.neighbours.event(event)

    def delivered(self, subscription: int) -> int:
        found = self._driver.state.be_subscriptions.by_id.get(subscription)
        return 0 if found is None else found.delivered

    def clock(self) -> float:
        return time.time()

    # -- the router

    def _routed(self, it: do.Instruction) -> None:
        if isinstance(it, do.Discarded):
            self.discarded += 1
        elif getattr(it, "client", None) in (READER, WRITER):
            self.live.routed(it)

    def _place(self) -> None:
        """Clients that another broker serves migrate there: it serves them before they leave this one."""
        self.live.advertise()
        router = self.neighbours.router
        orders = [] if router.role == "both" else [order for order in map(self._order, self._misplaced()) if order]
        if orders:
            self._driver.handle(Ordered(ReportReply(0, migrations=orders)))
        self._placing = self._loop.call_later(PLACE, self._place)

    def _misplaced(self) -> list[tuple[str, ev.Kind]]:
        """A client that subscribes and publishes counts as a subscriber."""
        role, found = self.neighbours.router.role, []
        for session in self._driver.state.context.sessions.values():
            kind: ev.Kind | None = None
            if any(id >= FIRST_ID for id in session.subscriptions):
                kind = "subscriber"
            elif not session.subscriptions and session.publishes & self.live.known.keys():
                kind = "publisher"
            if kind is not None and role not in SERVES[kind] and not session.rest:
                found.append((session.subscriber, kind))
        return found

    def _order(self, client: tuple[str, ev.Kind]) -> MigrationOrder | None:
        router = self.neighbours.router
        name = router.target(client[1])
        record = None if name is None else router.topology.find(name)
        if record is None or not record.url:
            return None
        log.info("%s %s belongs at %s", *reversed(client), record.name)
        return MigrationOrder(client[0], record.name, record.url, "")
