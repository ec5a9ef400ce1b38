"""A simulated cluster head: it matches a publication once and sends it to the edges and heads that need it."""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.simulation.content.workload.capacity import MATCHING
from tocsin.simulation.edges.broker import EdgeBroker, Specification
from tocsin.simulation.edges.matches import Quote


class HeadBroker:
    """Publications pass in the order of their times, so that its queues need no events. Heads hold only what covers
    the rest: ``subscriptions`` is refreshed when that changes."""

    def __init__(self, specification: Specification, edges: Sequence[EdgeBroker]) -> None:
        self.name, self.edges = specification.name, edges
        self.onward: list[HeadBroker] = []
        self.subscriptions = 0
        self.received = 0
        self._slope = MATCHING / specification.cpu
        self._bandwidth = specification.bandwidth * 1e6 / 8
        self._free = self._out = 0.0

    def needed(self) -> int:
        """The subscriptions of its cluster and of those beyond, as a set."""
        found = 0
        for edge in self.edges:
            found |= edge.present
        for head in self.onward:
            found |= head.reached
        return found

    def refresh(self, subscriptions: int) -> None:
        self.reached = self.needed()
        self.subscriptions = subscriptions

    reached = 0

    def publish(self, quote: Quote, at: float, published: float) -> None:
        self.received += 1
        self._free = (self._free if self._free > at else at) + self._slope * self.subscriptions
        each = quote.size / self._bandwidth
        bits = quote.bits
        for edge in self.edges:
            if bits & edge.present:
                self._out = (self._out if self._out > self._free else self._free) + each
                edge.enqueue(quote, self._out, published)
        for head in self.onward:
            if bits & head.reached:
                self._out = (self._out if self._out > self._free else self._free) + each
                head.publish(quote, self._out, published)
