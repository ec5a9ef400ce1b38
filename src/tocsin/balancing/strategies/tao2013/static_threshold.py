"""The detector of metrics with thresholds that are given: head links, downlink and matching of edges; in PEER all."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.host.scope import Scope
from tocsin.balancing.strategies.tao2013.load_status import LOWER, STATIC, UPPER, Thresholds
from tocsin.balancing.strategies.tao2013.metrics import LoadTable
from tocsin.balancing.strategies.tao2013.topic_load import table_of


@dataclass
class StaticThreshold:
    """Overloaded above ``high``, able to accept load below ``low``."""

    low: float = LOWER
    high: float = UPPER

    def __post_init__(self) -> None:
        Thresholds(self.low, self.high)

    def late(self, table: LoadTable, criterion: str, cost: float) -> frozenset[str]:
        return frozenset()

    def overloaded(self, table: LoadTable, criterion: str, cost: float) -> bool:
        return table.metric(criterion) > self.high

    def make_decision(self, scope: Scope, criterion: str) -> LoadState:
        table = table_of(scope).table
        if table.metric(criterion) > self.high:
            return LoadState.OVERLOADED
        return LoadState.UNDERLOADED if table.metric(criterion) < self.low else LoadState.NORMAL


CRITERIA = STATIC
