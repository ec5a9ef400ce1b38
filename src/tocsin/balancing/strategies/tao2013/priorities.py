"""Which clients leave first: publishers of a head (IV.C.2, in the text) and subscribers of an edge (table IV).

Heads differ from edges in this:

a) criteria: downlink and uplink utilisation.
b) load state estimation: above 0.95.
c) decision: periodically, at each head.
d) method: publishers migrate.
e) load moved: publishers of a topic; those without subscribers first if the downlink is overloaded, last if the uplink
   is; before those with local subscribers come those with remote ones.
f) target: of the heads in status LOW, that with the lowest value of the overloaded metric.
g) exchange: none but a pull when a head is overloaded.
h) recipients: all other heads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tocsin.balancing.strategies.tao2013.dynamic_threshold import waiting_groups
from tocsin.balancing.strategies.tao2013.metrics import (
    DOWNLINK,
    MATCHING,
    QUEUE,
    UPLINK,
    LoadTable,
    Origin,
    Role,
    TopicUse,
)

_R, _RL, _L, _N = Origin.REMOTE, Origin.BOTH, Origin.LOCAL, Origin.NONE

#: P_n changes its place: a publisher without subscribers uses the downlink only.
PUBLISHERS: Mapping[str, Mapping[Origin, int]] = MappingProxyType(
    {DOWNLINK: {_N: 0, _R: 1, _RL: 2, _L: 3}, UPLINK: {_R: 0, _RL: 1, _L: 2, _N: 3}}
)
SUBSCRIBERS: Mapping[str, Mapping[Origin, int]] = MappingProxyType(
    {
        DOWNLINK: {_R: 0, _RL: 1, _L: 2, _N: 3},
        UPLINK: {_R: 0, _RL: 1, _L: 2, _N: 3},
        MATCHING: {_N: 0, _R: 1, _RL: 1, _L: 1},
    }
)


def ordered(table: LoadTable, metric: str, late: frozenset[str] = frozenset()) -> Sequence[TopicUse]:
    """The bundles of a broker that is overloaded by this metric, in the order in which they should leave.

    Within a group the one that may wait longer goes first.
    """
    if metric == QUEUE:
        ranks = waiting_groups(table, late)
    else:
        groups = (PUBLISHERS if table.role is Role.HEAD else SUBSCRIBERS)[metric]
        ranks = {use.topic: groups[use.origin] for use in table}
    return sorted(table, key=lambda use: (ranks[use.topic], -use.allowed, use.topic))
