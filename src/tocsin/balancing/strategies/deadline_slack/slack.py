"""The slack of an edge whose uplink serves the earliest deadline first.

Whether all deadlines hold follows from the work that is due (processor demand): by τ seconds from now the uplink has to
send what waits and is due by then, and of each topic what arrives in time to be due by then: D_k (τ − w_k) for an
output of D_k that may wait w_k. If that is at most C τ for every τ, then the earliest deadline first meets every
deadline; if it is more for some τ, no order does. So the first τ for which it is more tells how far the first miss is,
while queues still grow; and a topic that may wait long is no reason to migrate as long as it can be served before.

a) criteria: queue depth of each topic, as the work that is due; downlink and matching utilisation.
b) load state estimation: a deadline would be missed within the horizon at the present rates.
c) decision: periodically, at each edge; at its head, whether it may.
d) method: subscribers migrate.
e) load moved: bundles of a topic, those without waiting messages first, until no deadline would be missed.
f) target: of the brokers in status LOW, that with the shortest queues.
g) exchange: periodic reports to the head; the head pulls from candidates on request.
h) recipients: the head; through it the edges of its cluster, and those of others if they are not enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tocsin.balancing.host.guards import at_least
from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.host.scope import Scope
from tocsin.balancing.strategies.tao2013.metrics import BYTE, LoadTable, TopicUse
from tocsin.balancing.strategies.tao2013.topic_load import table_of

#: Bits that rounding may add.
ROUNDING = 1e-3


def oldest(use: TopicUse) -> float:
    """Seconds that the first message of the queue has waited, if messages came at the present rate."""
    return min(use.waiting / use.arriving, max(0.0, use.allowed)) if use.arriving > 0.0 else 0.0


def due(use: TopicUse, within: float) -> float:
    """Bits of this topic that have to leave within these seconds."""
    waiting, age = use.waiting * use.size * BYTE, oldest(use)
    part = 1.0 if within >= use.allowed else 0.0 if age <= 0.0 else max(0.0, (within - use.allowed + age) / age)
    return waiting * part + use.bits_out * max(0.0, within - use.allowed)


def first_miss(table: LoadTable, cost: float, horizon: float) -> float | None:
    """The first moment at which more is due than the uplink can have sent, or None within the horizon.

    The work that is due grows linearly between the moments that are tried. A balancing takes ``cost`` seconds, by which
    deadlines are tighter than they are.
    """
    moments = {use.allowed for use in table} | {use.allowed - oldest(use) for use in table} | {horizon}
    for moment in sorted(each for each in moments if 0.0 <= each <= horizon):
        if sum(due(use, moment) for use in table) > table.resources.uplink * max(0.0, moment - cost) + ROUNDING:
            return moment
    return None


@dataclass
class DeadlineSlack:
    """Some deadline would be missed within ``horizon`` seconds, even though the earliest is served first."""

    horizon: float = 45.0
    finds: ClassVar[frozenset[LoadState]] = frozenset({LoadState.OVERLOADED})

    def __post_init__(self) -> None:
        at_least(0, horizon=self.horizon)

    def late(self, table: LoadTable, criterion: str, cost: float) -> frozenset[str]:
        """Those that are due by the first miss."""
        moment = first_miss(table, cost, self.horizon)
        return frozenset() if moment is None else frozenset(use.topic for use in table if due(use, moment) > 0.0)

    def overloaded(self, table: LoadTable, criterion: str, cost: float) -> bool:
        return first_miss(table, cost, self.horizon) is not None

    def make_decision(self, scope: Scope, criterion: str) -> LoadState:
        model = table_of(scope)
        found = self.overloaded(model.table, criterion, model.cost.mean)
        return LoadState.OVERLOADED if found else LoadState.NORMAL
