"""The upper threshold of queue depth, which follows from deadlines: equations (1) and (2).

Predicted rates: λ is the rate measured in the last period. A burst is a step, which the last value has followed after
one period, a smoothed one after several, and a trend overshoots. μ is the fair share of the uplink with these λ: so it
can be predicted for a table in which a bundle has left or arrived, where nothing has been measured yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.host.scope import Scope
from tocsin.balancing.strategies.tao2013.fair_share import output_rates
from tocsin.balancing.strategies.tao2013.metrics import QUEUE, LoadTable
from tocsin.balancing.strategies.tao2013.topic_load import table_of


def queue_threshold(allowed: float, cost: float, arriving: float, leaving: float) -> float:
    """(2): the most messages that may wait. ``cost``: seconds that a balancing takes (t_LB)."""
    return (allowed - cost) * leaving - (arriving - leaving)


def late_topics(table: LoadTable, cost: float) -> frozenset[str]:
    """Topics whose queue depth is above its threshold: those for which (1) does not hold."""
    leaving = output_rates(table)
    return frozenset(
        use.topic
        for use in table
        if use.waiting > 0.0 and use.waiting > queue_threshold(use.allowed, cost, use.arriving, leaving[use.topic])
    )


@dataclass
class DynamicThreshold:
    """A topic's queue is so deep that its deadline would be missed before a balancing has taken effect."""

    finds: ClassVar[frozenset[LoadState]] = frozenset({LoadState.OVERLOADED})

    def late(self, table: LoadTable, criterion: str, cost: float) -> frozenset[str]:
        return late_topics(table, cost)

    def overloaded(self, table: LoadTable, criterion: str, cost: float) -> bool:
        return bool(self.late(table, criterion, cost))

    def make_decision(self, scope: Scope, criterion: str) -> LoadState:
        model = table_of(scope)
        found = self.overloaded(model.table, criterion, model.cost.mean)
        return LoadState.OVERLOADED if found else LoadState.NORMAL


def waiting_groups(table: LoadTable, late: Iterable[str]) -> dict[str, int]:
    """S_empty, S_w-no and S_overload of table IV, as ranks of topics."""
    over = set(late)
    return {use.topic: 2 if use.topic in over else 1 if use.waiting > 0.0 else 0 for use in table}


CRITERIA = frozenset({QUEUE})
