"""What a component of an edge or a head sees, with a table as its load."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tocsin.balancing.host.information_registry import InformationRegistry
from tocsin.balancing.host.load_information import LoadInformation
from tocsin.balancing.host.scope import Scope
from tocsin.balancing.strategies.tao2013.balancing_cost import BalancingCost
from tocsin.balancing.strategies.tao2013.load_status import Thresholds
from tocsin.balancing.strategies.tao2013.metrics import LoadTable
from tocsin.balancing.strategies.tao2013.topic_load import TopicLoad


def model(table: LoadTable, peer: str = "b1", cost: float = 0.2, limits: Thresholds | None = None) -> TopicLoad:
    found = TopicLoad(peer, table.resources, table.role, limits=limits, cost=BalancingCost(cost))
    found.table = table
    return found


def scope(
    load: TopicLoad,
    answer: Sequence[LoadInformation] | None = None,
    neighbours: Sequence[str] = ("bh", "b0", "b2", "b3"),
    known: Sequence[LoadInformation] = (),
) -> Scope:
    registry = InformationRegistry()
    for each in known:
        registry.register(each, 0.0)
    return Scope(load.peer, 0.0, load, registry, neighbours, Random(1), answer)
