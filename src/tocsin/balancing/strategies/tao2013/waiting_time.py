"""How long a message may wait in the output queue of an edge: transmission times and times in brokers (IV.B.2).

The paper's own example (1.8 − 0.2 − 0.1 = 1.5 s) leaves out the publisher's way to its head and everything but latency;
``Path`` has all of its terms, so that either can be stated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tocsin.balancing.strategies.tao2013.metrics import BYTE, MATCHING_COST, Resources


@dataclass(frozen=True)
class BrokerTime:
    """Seconds that a message spends in a broker, besides waiting for its departure at an edge."""

    arrival: float = 0.0
    matching: float = 0.0
    waiting: float = 0.0
    departure: float = 0.0

    @property
    def total(self) -> float:
        return self.arrival + self.matching + self.waiting + self.departure

    @staticmethod
    def of(resources: Resources, size: float, subscriptions: int = 0, waiting: float = 0.0) -> BrokerTime:
        """Arrival and departure follow from size and bandwidth, matching from the number of subscriptions."""
        matching = MATCHING_COST * subscriptions / resources.megahertz if subscriptions else 0.0
        bits = size * BYTE
        return BrokerTime(bits / resources.downlink, matching, waiting, bits / resources.uplink)


@dataclass(frozen=True)
class Path:
    """From one publisher of a topic to a subscriber; seconds of transmission, and the heads on the way."""

    publisher_head: float = 0.0
    head_head: float = 0.0
    head_edge: float = 0.0
    edge_subscriber: float = 0.0
    head: BrokerTime = BrokerTime()
    remote_head: BrokerTime = BrokerTime()

    @property
    def transmission(self) -> float:
        return self.publisher_head + self.head_head + self.head_edge + self.edge_subscriber


def allowed_waiting(requirement: float, paths: Iterable[Path], edge: BrokerTime | None = None) -> float:
    """t_{s,T-e}: what the requirement leaves for the queue. The slowest publisher's transmission counts.

    Negative if the requirement cannot be met even with an empty queue.
    """
    known = list(paths)
    if not known:
        return requirement
    at_edge = edge or BrokerTime()
    slowest = max(each.transmission for each in known)
    heads = max(each.head.total for each in known) + max(each.remote_head.total for each in known)
    return requirement - slowest - heads - at_edge.arrival - at_edge.matching - at_edge.departure
