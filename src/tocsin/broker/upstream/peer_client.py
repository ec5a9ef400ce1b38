"""Messages to other brokers over HTTP, from part to part: a broker joins another one before the first of them."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Coroutine
from itertools import count
from typing import Any

import httpx
import msgspec

from tocsin.balancing.host.messages import Message
from tocsin.broker.core import instructions as do
from tocsin.broker.core.events import PeerAnswered, PeersKnown, PeerUnreachable
from tocsin.broker.transport.driver import Driver
from tocsin.broker.upstream.introduction import FAILURES, Introduction
from tocsin.broker.upstream.peer_store import PeerStore
from tocsin.http.tls import Tls
from tocsin.identity.part_keys import PartKey, Peer
from tocsin.wire.backoff import Backoff
from tocsin.wire.reports import PeerAddress

log = logging.getLogger(__name__)

#: Messages to one broker that wait; the oldest are dropped. Sessions end by themselves.
WAITING = 256
#: Seconds for a request.
TIMEOUT = 5.0
#: Shortest and longest seconds between two tries to join a broker, and tries if it was known before the start.
RETRY, TRIES = (0.2, 10.0), 20


class Outbox:
    """To one broker: one request at a time, with all messages that wait."""

    def __init__(self) -> None:
        self.waiting: list[Message] = []
        self.task: asyncio.Task[None] | None = None


class PeerClient:
    """``address`` is this broker's own."""

    def __init__(
        self, driver: Driver, own: PartKey, address: PeerAddress, store: PeerStore, secret: str, tls: Tls
    ) -> None:
        self.driver, self.own, self.address, self.store = driver, own, address, store
        self._introduction = Introduction(own, address, store, secret)
        self._peers: dict[str, Peer] = {}
        self._outboxes: dict[str, Outbox] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._client = httpx.AsyncClient(timeout=httpx.Timeout(TIMEOUT), trust_env=False, verify=tls.client())

    def start(self) -> None:
        """Joins all that are known: this broker may have another address than before."""
        known = self.store.addresses
        if known:
            self.driver.handle(PeersKnown(known))
        for name, address in known.items():
            self._spawn(self._find(address.inside, name, TRIES))
        for url in self.driver.config.balancing.peers:
            self._spawn(self._find(url))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.aclose()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.driver.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a task for other brokers failed", exc_info=task.exception())

    def carry_out(self, it: do.ToPeers) -> None:
        match it:
            case do.SavePeers():
                self.store.save(it.peers)
            case do.Departing():
                log.info("a subscriber migrates to %s (session %s)", it.order.broker, it.session)
            case do.SendToPeer():
                outbox = self._outboxes.setdefault(it.broker, Outbox())
                outbox.waiting = [*outbox.waiting[1 - WAITING :], it.message]
                if outbox.task is None:
                    outbox.task = self._spawn(self._empty(it.broker, outbox))

    async def _empty(self, broker: str, outbox: Outbox) -> None:
        try:
            while outbox.waiting:
                messages, outbox.waiting = outbox.waiting, []
                try:
                    await self._send(broker, messages)
                except FAILURES as error:
                    log.info("%s cannot be reached: %s", broker, error or type(error).__name__)
                    outbox.waiting = []
                    self.driver.handle(PeerUnreachable(broker))
                else:
                    self.driver.handle(PeerAnswered(broker))
        finally:
            outbox.task = None

    async def _send(self, broker: str, messages: list[Message]) -> None:
        """A broker that has lost its list of others is joined again, once."""
        assert self.driver.state.balancing is not None
        address = self.driver.state.balancing.peers.addresses.get(broker)
        if address is None:
            raise OSError("it is not known any more")
        for again in (False, True):
            key = self.store.key(broker)
            if not key or again:
                key = await self._join(address.inside, broker)
            body = msgspec.json.encode(messages)
            peer = self._peer(broker, key)
            answer = await self._client.post(f"{address.inside.rstrip('/')}/peers/messages", content=body, headers=peer)
            if answer.status_code != 401:
                break
        if answer.is_error:
            raise OSError(answer.text[:500])

    def _peer(self, broker: str, key: str) -> dict[str, str]:
        peer = self._peers.setdefault(broker, self._introduction.peer(key))
        peer.key = key
        return peer.headers | {"content-type": "application/json"}

    async def _join(self, inside: str, broker: str | None) -> str:
        """Exchanges keys. ``broker``: who has to be there."""
        found = await self._introduction.join(self._client, inside, broker)
        if found.broker != self.own.name:
            self.driver.handle(PeersKnown({found.broker: found.address}))
        return found.joined.key

    async def _find(self, url: str, broker: str | None = None, tries: int | None = None) -> None:
        """A broker of the configuration may start later than this one; one of before the restart may be gone."""
        waits = Backoff(random.Random(), *RETRY)
        for _ in count() if tries is None else range(tries):
            try:
                await self._join(url, broker)
                return
            except FAILURES as error:
                log.info("no broker answers at %s: %s", url, error or type(error).__name__)
                await asyncio.sleep(waits.next())
