"""A simulated edge broker: an input queue before the matching engine, and a bandwidth behind it (section 5.1).

Nothing happens between two changes of its subscriptions that depends on when it is computed, so ``advance`` serves
the input queue in one go. Control messages do not wait in the queues; they have priority.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from tocsin.balancing.strategies.cheung2006.detection.indices import Indices
from tocsin.balancing.strategies.cheung2006.estimation.press import Press
from tocsin.balancing.strategies.cheung2006.estimation.resources import Resources
from tocsin.balancing.strategies.cheung2006.offload.covering import Covering, members
from tocsin.simulation.content.workload.capacity import MATCHING
from tocsin.simulation.edges.matches import Quote
from tocsin.simulation.edges.meter import Meter

#: Bytes of the matching engine for a subscription, which the thesis does not give; memory never limits its experiments.
ENGINE = 1_024.0
#: Subscriptions of an edge for its own purposes: its cluster's PIE, and control messages.
SYSTEM = 2


class Specification(Struct, frozen=True):
    """``cpu`` in MHz, ``memory`` in MB, ``bandwidth`` in Mbit/s, as in Tables 5.3 to 5.5."""

    name: str
    cpu: float
    memory: float
    bandwidth: float


class EdgeBroker:
    """``delivered`` counts messages to subscribers, and ``delays`` sums their delays. ``present``: what attracts
    publications, as a set; ``total``: subscriptions, with its own."""

    def __init__(self, specification: Specification, subscriptions: Sequence[str], covering: Covering) -> None:
        self.name, self.specification = specification.name, specification
        self.slope = MATCHING / specification.cpu
        self._bandwidth = specification.bandwidth * 1e6 / 8
        self._memory = specification.memory * 1e6
        self._subscriptions, self._covering = subscriptions, covering
        self._numbers = {text: number for number, text in enumerate(subscriptions)}
        self.counts = np.zeros(len(subscriptions), dtype=np.int64)
        self._here: dict[int, dict[str, None]] = {}
        self._leaving: set[str] = set()
        self.present, self.total = 0, SYSTEM
        self.queue: deque[tuple[float, Quote, float]] = deque()
        self.busy_until = self.out_until = self.now = 0.0
        self.input, self.input_bytes, self.output, self.busy = Meter(), Meter(), Meter(), Meter()
        self.input_wait = self.output_wait = 0.0
        self.received = self.delivered = 0
        self.delays = 0.0
        self.press: Callable[[], Press | None] = lambda: None

    # Subscribers.

    def subscribe(self, name: str, subscription: int) -> None:
        self._here.setdefault(subscription, {})[name] = None
        self.counts[subscription] += 1
        self.present |= 1 << subscription
        self.total += 1

    def leave(self, name: str) -> None:
        """It migrates, and stays subscribed until it is released."""
        self._leaving.add(name)

    def unsubscribe(self, name: str, subscription: int) -> None:
        here = self._here[subscription]
        del here[name]
        self._leaving.discard(name)
        self.counts[subscription] -= 1
        self.total -= 1
        if not here:
            del self._here[subscription]
            self.present &= ~(1 << subscription)

    def has(self, name: str, subscription: int) -> bool:
        return name in self._here.get(subscription, ())

    # Publications.

    def enqueue(self, quote: Quote, at: float, published: float) -> None:
        self.queue.append((at, quote, published))
        self.received += 1
        self.input.add(1.0, at)
        self.input_bytes.add(quote.size, at)
        press = self.press()
        if press is not None:
            press.enqueue(quote.size)

    def advance(self, now: float) -> None:
        """Serve what begins by ``now``."""
        self.now = now
        queue, counts = self.queue, self.counts
        delay = self.slope * self.total
        while queue:
            at, quote, published = queue[0]
            start = self.busy_until if self.busy_until > at else at
            if start > now:
                break
            queue.popleft()
            self.input_wait = start - at
            end = self.busy_until = start + delay
            self.busy.add(delay, start)
            press = self.press()
            if press is not None:
                press.observe(members(quote.bits))
            copies = int(counts[quote.matched].sum())
            if copies:
                self._deliver(quote, copies, end, published)

    def _deliver(self, quote: Quote, copies: int, at: float, published: float) -> None:
        each = quote.size / self._bandwidth
        start = self.out_until if self.out_until > at else at
        self.output_wait = start - at
        self.out_until = start + copies * each
        self.output.add(copies * quote.size, at)
        self.delivered += copies
        # Copies leave one after the other.
        self.delays += copies * (start - published) + each * copies * (copies + 1) / 2

    # What the balancing sees (BrokerModel).

    def indices(self) -> Indices:
        rate, now = self.input.rate(self.now), self.now
        used = self.resources()
        return Indices(
            rate * self.slope * self.total,
            self.output.rate(now) / self._bandwidth,
            self.slope * self.total,
            used.cpu_ratio,
            used.memory_ratio,
        )

    def resources(self) -> Resources:
        now = self.now
        size = self.queue[0][1].size if self.queue else 0
        return Resources(
            cpu_ratio=self._cpu(now),
            input_bandwidth=self.input_bytes.rate(now),
            input_queue_memory=len(self.queue) * size,
            input_rate=self.input.rate(now),
            matching_slope=self.slope,
            total_memory=self._memory,
            total_output=self._bandwidth,
            subscriptions=self.total,
            output_used=self.output.rate(now),
            output_queue_memory=max(0.0, self.out_until - now) * self._bandwidth,
            engine_slope=ENGINE,
        )

    def _cpu(self, now: float) -> float:
        # A service counts in the second it began, so a slow one may exceed its second.
        return min(1.0, self.busy.rate(now))

    def css(self) -> tuple[str, ...]:
        return tuple(self._subscriptions[each] for each in self._covering.css(self.present))

    def subscribe_locally(self, css: Sequence[str]) -> Sequence[int]:
        return [self._numbers[each] for each in css]

    def subscribers(self) -> Mapping[int, Sequence[str]]:
        leaving = self._leaving
        return {number: [name for name in here if name not in leaving] for number, here in sorted(self._here.items())}

    def covering(self) -> Covering:
        return self._covering

    def queue_delay(self) -> float:
        waiting = len(self.queue) * self.slope * self.total + max(0.0, self.busy_until - self.now)
        return waiting + self.slope * self.total + max(0.0, self.out_until - self.now)

    @property
    def subscribed(self) -> int:
        """Without its own subscriptions."""
        return self.total - SYSTEM
