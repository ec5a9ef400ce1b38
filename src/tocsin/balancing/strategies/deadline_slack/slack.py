"""The slack of an edge whose uplink serves the earliest deadline first.

Take the topics that may wait w seconds or less. What waits for them, and what they bring in excess of the uplink, has to
leave within w: with B bits waiting, D bits a second arriving and an uplink of C, the group is late in h seconds if
B + h (D − C) > C (w − t_LB). Earliest deadline first meets every deadline that any order could, so if no group is late,
no topic is; and a topic that may wait long is no reason to migrate as long as the tight ones fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tocsin.balancing.host.guards import at_least
from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.host.scope import Scope
from tocsin.balancing.strategies.tao2013.metrics import BYTE, LoadTable
from tocsin.balancing.strategies.tao2013.topic_load import table_of


def late_groups(table: LoadTable, cost: float, horizon: float) -> frozenset[str]:
    """Topics of the tightest group that would be late within ``horizon`` seconds if nothing changes."""
    capacity, bits, demand = table.resources.uplink, 0.0, 0.0
    group: list[str] = []
    for use in sorted(table, key=lambda each: (each.allowed, each.topic)):
        bits += use.waiting * use.size * BYTE
        demand += use.bits_out
        group.append(use.topic)
        rise = max(0.0, demand - capacity)
        if rise + bits > 0.0 and bits + horizon * rise > capacity * max(0.0, use.allowed - cost):
            return frozenset(group)
    return frozenset()


@dataclass
class DeadlineSlack:
    """Some topic would miss its deadline within ``horizon`` seconds, as the queues grow now."""

    horizon: float = 5.0
    finds: ClassVar[frozenset[LoadState]] = frozenset({LoadState.OVERLOADED})

    def __post_init__(self) -> None:
        at_least(0, horizon=self.horizon)

    def late(self, table: LoadTable, criterion: str, cost: float) -> frozenset[str]:
        return late_groups(table, cost, self.horizon)

    def overloaded(self, table: LoadTable, criterion: str, cost: float) -> bool:
        return bool(self.late(table, criterion, cost))

    def make_decision(self, scope: Scope, criterion: str) -> LoadState:
        model = table_of(scope)
        found = self.overloaded(model.table, criterion, model.cost.mean)
        return LoadState.OVERLOADED if found else LoadState.NORMAL
