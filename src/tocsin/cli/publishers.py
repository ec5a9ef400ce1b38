"""Several publishers in this process that send the same records repeatedly; for ``tocsin bench pub``."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from itertools import cycle, islice
from typing import Any

import httpx
from msgspec import Raw

from tocsin.cli.http import TIMEOUT, Client, path, unreachable
from tocsin.cli.records import NDJSON
from tocsin.cli.spread import Spread
from tocsin.http.client import trust

Sender = Callable[[list[Raw]], Awaitable[int]]


class Publishers:
    """Each sends a batch, waits for its receipt and sends the next; a sender returns the number of accepted records."""

    def __init__(self, feed: str, records: list[Raw], batch: int) -> None:
        self.feed = feed
        self.batch = batch
        self.accepted = self.refused = self.posts = self.bytes = 0
        self.receipts = Spread()
        self.began = 0.0
        self._records = cycle(records)

    async def run(self, senders: list[Sender], seconds: float, wanted: int | None) -> None:
        """Sends for ``seconds``, or until ``wanted`` records are sent; waits for the last receipts."""
        self.began = time.monotonic()
        batches = self._batches(self.began + seconds, wanted)
        async with asyncio.TaskGroup() as group:
            for send in senders:
                group.create_task(self._publish(send, batches))

    def _batches(self, end: float, wanted: int | None) -> Iterator[list[Raw]]:
        left = wanted
        while time.monotonic() < end and (left is None or left > 0):
            batch = list(islice(self._records, self.batch if left is None else min(self.batch, left)))
            left = None if left is None else left - len(batch)
            yield batch

    async def _publish(self, send: Sender, batches: Iterator[list[Raw]]) -> None:
        for batch in batches:
            sent = time.monotonic()
            accepted = await send(batch)
            self.receipts.add(time.monotonic() - sent)
            self.posts += 1
            self.accepted += accepted
            self.refused += len(batch) - accepted
            self.bytes += sum(len(bytes(record)) for record in batch)

    def report(self, seconds: float, clients: int) -> dict[str, Any]:
        return {
            "feed": self.feed,
            "clients": clients,
            "batch": self.batch,
            "seconds": round(seconds, 3),
            "posts": self.posts,
            "accepted": self.accepted,
            "refused": self.refused,
            "bytes": self.bytes,
            "records_per_second": round(self.accepted / seconds, 1),
            "bytes_per_second": round(self.bytes / seconds, 1),
            "receipt_ms": self.receipts.milliseconds(),
        }


@contextlib.asynccontextmanager
async def to_broker(broker: str, feed: str, clients: int) -> Any:
    """One connection each."""
    from tocsin.client import connect

    async with AsyncExitStack() as stack:
        senders: list[Sender] = []
        for _ in range(clients):
            client = await stack.enter_async_context(connect(broker))

            async def send(records: list[Raw], client: Any = client) -> int:
                receipt = await client.publish(feed, records)
                return int(receipt.accepted)

            senders.append(send)
        yield senders


@contextlib.asynccontextmanager
async def to_cluster(url: str, feed: str, clients: int) -> Any:
    """One connection each, kept alive."""
    route, headers = path("feeds", feed), {"content-type": NDJSON}
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
    with Client(url) as checked:
        async with httpx.AsyncClient(base_url=checked.url, timeout=TIMEOUT, limits=limits, verify=trust()) as http:

            async def send(records: list[Raw]) -> int:
                try:
                    answer = await http.post(route, content=b"\n".join(map(bytes, records)), headers=headers)
                except httpx.TransportError as error:
                    raise unreachable(checked.url, error) from error
                if not answer.is_success:
                    raise checked.error(answer)
                return int(answer.json()["accepted"])

            yield [send] * clients
