"""The output queues of an edge, one for each topic, as a fluid in small steps.

While the uplink carries all that arrives and nothing waits, nothing is computed: every message leaves at once. Else the
steps are 20 ms. A step serves what waited and what arrives in it; amounts are exact, delays to a step.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from tocsin.balancing.strategies.tao2013.fair_share import fair_share
from tocsin.balancing.strategies.tao2013.metrics import BYTE

STEP = 0.02
#: Bits that are nothing.
NOTHING = 1e-3


class Discipline(Enum):
    """Who is served: all topics fairly, as the paper's per-topic queues; or the earliest deadline first."""

    FAIR = "fair"
    EARLIEST = "earliest deadline first"


@dataclass
class Gap:
    """Announced to the subscribers of a topic: messages that arrived in this time are not sent, since too late."""

    begin: float
    end: float
    messages: float


@dataclass
class TopicQueue:
    """``parcels``: (when, bits) in order of arrival. Counts are in messages; ``shed``: not sent, since too late."""

    size: float
    allowed: float
    parcels: deque[list[float]] = field(default_factory=deque)
    bits: float = 0.0
    arrived: float = 0.0
    late: float = 0.0
    shed: float = 0.0
    longest: float = 0.0
    gaps: list[Gap] = field(default_factory=list)

    @property
    def waiting(self) -> float:
        return self.bits / (self.size * BYTE) if self.bits > NOTHING else 0.0

    @property
    def due(self) -> float:
        return self.parcels[0][0] + self.allowed if self.parcels else math.inf

    def arrive(self, when: float, bits: float) -> None:
        if bits > 0.0:
            self.parcels.append([when, bits])
            self.bits += bits
            self.arrived += bits / (self.size * BYTE)

    def serve(self, when: float, bits: float) -> float:
        """Returns what was left of the bits."""
        while bits > 0.0 and self.parcels:
            parcel = self.parcels[0]
            taken = min(bits, parcel[1])
            delay = max(0.0, when - parcel[0])
            self.longest = max(self.longest, delay)
            if delay > self.allowed + 1e-9:
                self.late += taken / (self.size * BYTE)
            self._take(parcel, taken)
            bits -= taken
        return bits

    def drop(self, when: float) -> None:
        """What is due already cannot arrive in time."""
        while self.parcels and self.due < when:
            arrived, bits = self.parcels[0]
            messages = bits / (self.size * BYTE)
            self.shed += messages
            if not self.gaps or arrived > self.gaps[-1].end + STEP * 1.5:
                self.gaps.append(Gap(arrived, arrived, 0.0))
            self.gaps[-1].end = arrived
            self.gaps[-1].messages += messages
            self._take(self.parcels[0], bits)

    def end(self, when: float) -> None:
        """What is still here and was due is late."""
        for arrived, bits in self.parcels:
            if arrived + self.allowed < when:
                self.late += bits / (self.size * BYTE)

    def _take(self, parcel: list[float], bits: float) -> None:
        parcel[1] -= bits
        self.bits -= bits
        if parcel[1] <= NOTHING:
            self.bits -= parcel[1]
            self.parcels.popleft()
        if not self.parcels:
            self.bits = 0.0


@dataclass
class OutputQueues:
    """``capacity``: bits a second. ``sheds``: messages that are too late are not sent (opt-in, announced as a gap)."""

    capacity: float
    discipline: Discipline = Discipline.FAIR
    sheds: bool = False
    queues: dict[str, TopicQueue] = field(default_factory=dict)

    def queue(self, topic: str, size: float, allowed: float) -> TopicQueue:
        return self.queues.setdefault(topic, TopicQueue(size, allowed))

    @property
    def backlog(self) -> float:
        return sum(each.bits for each in self.queues.values())

    def advance(self, now: float, until: float, demands: Mapping[str, float]) -> None:
        """``demands``: bits a second that arrive for each topic in this time."""
        total, when = sum(demands.values()), now
        while when < until - 1e-9:
            if self.backlog <= NOTHING and total <= self.capacity * (1 + 1e-12):
                for topic, bits in demands.items():
                    queue = self.queues[topic]
                    queue.arrived += bits * (until - when) / (queue.size * BYTE)
                return
            step = min(STEP, until - when)
            self._step(when, step, demands)
            when += step

    def _step(self, when: float, step: float, demands: Mapping[str, float]) -> None:
        for topic, bits in demands.items():
            self.queues[topic].arrive(when, bits * step)
        if self.sheds:
            for queue in self.queues.values():
                queue.drop(when)
        if self.discipline is Discipline.FAIR:
            waiting = {topic: queue.bits for topic, queue in self.queues.items() if queue.bits > 0.0}
            for topic, bits in fair_share(self.capacity * step, waiting).items():
                self.queues[topic].serve(when, bits)
            return
        left = self.capacity * step
        while left > NOTHING:
            first = min(self.queues.values(), key=lambda queue: queue.due)
            if not first.parcels:
                return
            left -= (given := min(left, first.parcels[0][1]))
            first.serve(when, given)
