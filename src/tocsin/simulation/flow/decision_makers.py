"""Decides in a flow simulation: the coordinator's host, strategies, placements and start budgets.

Reports in which every changed subscriber is a name with a list would cost more than all the rest, so the true load is
shared. ``benchmarks/whole_coordinator.py`` uses the coordinator's state machine instead; a test compares the two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import NamedTuple, Protocol

import numpy as np

from tocsin.balancing import placement
from tocsin.balancing.central_host import CentralHost
from tocsin.balancing.model.arrays import Floats, Ints, Longs
from tocsin.balancing.model.load import NOWHERE
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.placement import Candidate, NewSubscriber
from tocsin.balancing.strategies.strategy import Strategy
from tocsin.config import CoordinatorConfig
from tocsin.coordinator.core.members import StartBudget
from tocsin.coordinator.core.strategy_chain import guards, strategy_chain
from tocsin.errors import SystemFailure
from tocsin.simulation.flow.crowd import Crowd
from tocsin.simulation.flow.workload import Workload

#: People × brokers looked at together.
CHUNK = 1 << 20


class Order(NamedTuple):
    """A subscriber has to migrate."""

    subscriber: int
    source: int
    target: int
    reason: str


class DecisionMaker(Protocol):
    def place(self, us: Longs, now: float) -> Ints:
        """The brokers of these new subscribers, in order of arrival."""

    def report(self, changed: Longs, left: list[tuple[int, int]], news: Longs, now: float) -> list[Order]:
        """All brokers report: subscribers that changed, that left a broker, and changed rates. Returns orders."""

    def tick(self, now: float) -> None: ...


class Parts:
    """The true load is shared, so a report brings only rates and arrivals.

    ``strategy``: instead of the one that the configuration names.
    """

    def __init__(
        self,
        config: CoordinatorConfig,
        work: Workload,
        crowd: Crowd,
        rng: Random,
        strategy: Strategy | None = None,
    ) -> None:
        self.config, self.work, self.crowd, self.rng = config, work, crowd, rng
        self.host = CentralHost(crowd, strategy or strategy_chain(config), guards=guards(config))
        self.placement = placement.make(config.placement)
        self.budgets = [StartBudget() for _ in range(work.brokers)]
        self.candidates: list[Candidate] = []
        self.queues: list[dict[int, Migration]] = [{} for _ in self.budgets]
        self.evaluated_at = float("-inf")
        self._refresh()

    def _refresh(self) -> None:
        """The candidates for placement until the next report."""
        load, count = self.crowd.loads.F, self.crowd.count
        arriving = Counter(each.target for each in self.host.pending.values())
        self.candidates = [
            Candidate(name(j), float(load[j]), float(capacity), int(count[j]) + arriving[j], None, True, at)
            for j, (capacity, at) in enumerate(
                zip(self.work.capacity, map(tuple, self.work.brokers_at.tolist()), strict=True)
            )
        ]

    def place(self, us: Longs, now: float) -> Ints:
        if isinstance(self.placement, placement.Nearest):
            return nearest(self.work.people_at[us], self.work.brokers_at)
        found = np.empty(len(us), dtype=np.int32)
        for i, at in enumerate(self.work.people_at[us].tolist()):
            chosen = self.placement.place(NewSubscriber((at[0], at[1])), self.candidates, self.rng)
            if chosen is None:
                raise SystemFailure("no broker accepts subscribers")
            j = found[i] = number(chosen)
            self.candidates[j] = replace(self.candidates[j], subscribers=self.candidates[j].subscribers + 1)
        return found

    def report(self, changed: Longs, left: list[tuple[int, int]], news: Longs, now: float) -> list[Order]:
        for u, j in left:
            if self.crowd.at[u] == NOWHERE:
                self.host.forget(u)
                self.queues[j].pop(u, None)
            else:
                self.host.ended(u, now)
        found = [order for j in range(len(self.budgets)) for order in self._hand_out(j, now)]
        self._refresh()
        return found

    def _hand_out(self, j: int, now: float) -> Iterable[Order]:
        budget, queue = self.budgets[j], self.queues[j]
        budget.refill(now, self.config.limits.per_second)
        while queue and budget.tokens >= 1.0:
            u = next(iter(queue))
            migration = queue.pop(u)
            budget.tokens -= 1.0
            yield Order(u, j, migration.target, migration.reason)

    def tick(self, now: float) -> None:
        if now - self.evaluated_at >= self.config.balance_every:
            self.evaluated_at = now
            migrations = self.host.plan(now).migrations
            for each in migrations:
                self.queues[each.source][each.subscriber] = each
            if migrations:
                self._refresh()


def name(j: int) -> str:
    """Brokers sort by name as by number."""
    return f"broker-{j:05}"


def number(name: str) -> int:
    return int(name.rpartition("-")[2])


def nearest(people: Floats, brokers: Floats) -> Ints:
    """The nearest broker of each, as ``placement.Nearest`` answers for one: of equally near ones the first.

    The half-way formula needs no arcs to compare.
    """
    out = np.empty(len(people), dtype=np.int32)
    lat, lon = np.radians(brokers[:, 0]), np.radians(brokers[:, 1])
    step = max(1, CHUNK // max(1, len(brokers)))
    for begin in range(0, len(people), step):
        here = np.radians(people[begin : begin + step])
        up = np.sin((here[:, :1] - lat) / 2) ** 2
        across = np.cos(here[:, :1]) * np.cos(lat) * np.sin((here[:, 1:] - lon) / 2) ** 2
        out[begin : begin + step] = np.argmin(up + across, axis=1)
    return out
