"""Deliveries that are not counted yet, with the counters and the cache that they go into."""

from __future__ import annotations

from msgspec import Raw, Struct

from tocsin.broker.core.model.be_subscription import BESubscription
from tocsin.broker.core.model.cache import Cache

#: BE subscription, execution, message, its results, receivers, and when.
Entry = tuple[BESubscription, int, bytes, Raw, int, float]


class Counters(Struct):
    """Since the start."""

    bytes_in: int = 0  # results from the data cluster
    bytes_out: int = 0  # to subscribers
    deliveries: int = 0  # notifications times subscribers
    notifications: int = 0
    requests: int = 0
    refusals: int = 0
    published: int = 0
    lagged: int = 0  # times a subscriber became slow
    gaps: int = 0
    closes: dict[int, int] = {}


class Ledger:
    """Booking one delivery costs as much as encoding a notification, since all it touches is cold; many at once cost
    next to nothing. So it waits until ``counters`` or ``cache`` is read."""

    __slots__ = ("_cache", "_counters", "entries")

    def __init__(self, cache: Cache) -> None:
        self._counters, self._cache = Counters(), cache
        self.entries: list[Entry] = []

    @property
    def counters(self) -> Counters:
        self.book()
        return self._counters

    @property
    def cache(self) -> Cache:
        self.book()
        return self._cache

    def ignored(self, results: Raw) -> None:
        """Results that no subscriber of this broker gets."""
        self._counters.bytes_in += len(memoryview(results))

    def book(self) -> None:
        if not self.entries:
            return
        entries, self.entries = self.entries, []
        counters, cache = self._counters, self._cache
        counters.notifications += len(entries)
        for subscription, execution, message, results, receivers, now in entries:
            size = len(message)
            counters.bytes_in += len(memoryview(results))
            counters.deliveries += receivers
            counters.bytes_out += size * receivers
            subscription.lam.add(size, now)
            cache.add(subscription.recent, execution, message)
