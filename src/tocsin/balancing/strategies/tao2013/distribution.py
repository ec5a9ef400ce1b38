"""Workload distribution (IV.A): which edge the first subscriber of a topic goes to; the others follow.

1. Subscribers of a topic that an edge has go there.
2. Topics that rise together go to different edges: where one of them is, part of the newcomer's own load is reserved.
3. The edge with the most free capacity, as an amount and not as a share: the paper sends a second topic to a broker of
   8 Mbps while one of 6.5 Mbps is empty. Capacity is that of both links; matching decides whether an edge is eligible
   at all (status LOW) and, by its processor, among equals, because messages a second cannot be added to bits a second.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tocsin.balancing.host.actions import Peer
from tocsin.balancing.strategies.tao2013.load_status import Thresholds
from tocsin.balancing.strategies.tao2013.metrics import DOWNLINK, UPLINK, LoadTable, TopicUse
from tocsin.errors import UserError

#: Free capacity of an edge: the larger, the better.
Room: TypeAlias = Callable[[LoadTable], float]


def absolute_room(table: LoadTable) -> float:
    """Bits a second that its links could still carry."""
    up, down = table.resources.uplink, table.resources.downlink
    return (1 - table.metric(UPLINK)) * up + (1 - table.metric(DOWNLINK)) * down


@dataclass
class Distribution:
    """``correlated``: groups of topics that rise together. ``reserve``: the share of a newcomer's own output that is
    reserved at an edge that has a topic of its group."""

    correlated: Collection[frozenset[str]] = ()
    reserve: float = 0.5
    limits: Thresholds = field(default_factory=Thresholds)
    room: Room = absolute_room

    def __post_init__(self) -> None:
        if not 0.0 <= self.reserve < float("inf"):
            raise UserError(f"reserve is {self.reserve:g}", hint="0 or more")

    def allocate(self, arriving: TopicUse, edges: Mapping[Peer, LoadTable]) -> Peer | None:
        """None if there is no edge. An edge that is not LOW gets a newcomer only if all are in that state."""
        there = [peer for peer, table in edges.items() if arriving.topic in table.uses]
        if there:
            return min(there)
        low = [peer for peer, table in edges.items() if self.limits.is_low(table.metrics, table.role)]
        ranked = {peer: self._rank(arriving, edges[peer]) for peer in low or edges}
        return max(sorted(ranked, reverse=True), key=lambda peer: ranked[peer], default=None)

    def _rank(self, arriving: TopicUse, table: LoadTable) -> tuple[float, float]:
        group = {topic for each in self.correlated if arriving.topic in each for topic in each}
        shared = group.intersection(table.uses)
        reserved = self.reserve * arriving.bits_out if shared else 0.0
        return round(self.room(table) - reserved, 3), table.resources.megahertz
