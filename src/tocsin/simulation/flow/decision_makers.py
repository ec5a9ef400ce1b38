"""Decides in a flow simulation: the coordinator's state machine, or its parts where reports would be too many.

Both get the same input and give the same output (a test checks it). ``Whole`` gets reports in which every changed
subscriber is a name with a list, as brokers send them. ``Parts`` shares the true load and uses the coordinator's
balancer, strategies, placements and start budgets directly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple, Protocol

import numpy as np

from tocsin.balancing import placement
from tocsin.balancing.balancer import Balancer
from tocsin.balancing.decisions import Limits
from tocsin.balancing.model.arrays import Ints, Longs
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.placement import Candidate, NewSubscriber
from tocsin.config import CoordinatorConfig
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.members import StartBudget
from tocsin.coordinator.core.state import CoordinatorState
from tocsin.coordinator.core.strategy_chain import strategy_chain
from tocsin.errors import SystemFailure
from tocsin.simulation.flow.crowd import Crowd
from tocsin.simulation.flow.nearest import nearest
from tocsin.simulation.flow.workload import Workload
from tocsin.wire.reports import BrokerRequest, LoadReport, Registration, ReportReply


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
    """The true load is shared, so a report brings only rates and arrivals."""

    def __init__(self, config: CoordinatorConfig, work: Workload, crowd: Crowd, rng: Random) -> None:
        self.config, self.work, self.crowd, self.rng = config, work, crowd, rng
        limits = config.limits
        self.balancer = Balancer(
            crowd,
            strategy_chain(config),
            Limits(limits.in_flight, limits.per_broker, limits.cool_down, limits.least_gain),
        )
        self.placement = placement.make(config.placement)
        self.budgets = [StartBudget() for _ in range(work.brokers)]
        self.candidates: list[Candidate] = []
        self.queues: list[dict[int, Migration]] = [{} for _ in self.budgets]
        self.evaluated_at = float("-inf")
        self._refresh()

    def _refresh(self) -> None:
        """The candidates for placement until the next report."""
        load, count = self.crowd.loads.F, self.crowd.count
        arriving = Counter(each.target for each in self.balancer.pending.values())
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
        for u, _ in left:
            self.balancer.finished(u, now)
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
            migrations = self.balancer.plan(now).migrations
            for each in migrations:
                self.queues[each.source][each.subscriber] = each
            if migrations:
                self._refresh()


class Whole:
    """The state machine, driven by its events: it knows of subscribers only what brokers report."""

    def __init__(self, config: CoordinatorConfig, work: Workload, crowd: Crowd, rng: Random) -> None:
        self.work, self.crowd = work, crowd
        nonces = iter(range(2**62))
        self.state = CoordinatorState(config, b"simulated", rng, lambda: 0.0, lambda: str(next(nonces)))
        self._intern()
        self.reports = 0
        self.tokens = [self._handle(ev.Register(None, self._registration(j)), 0.0).token for j in range(work.brokers)]
        self.reasons: dict[str, str] = {}
        nothing = np.empty(0, dtype=np.int64)
        self.report(nothing, [], nothing, 0.0)

    def _intern(self) -> None:
        """Use the numbers of the true load, so that ties are broken alike."""
        model = self.state.model
        for u in range(self.work.subscribers):
            model.load.join(model.subscribers.number(person(u)))
        for k in range(self.work.backs):
            model.load.rate(model.subscriptions.number(k), 0.0)

    def _registration(self, j: int) -> Registration:
        lat, lon = self.work.brokers_at[j].tolist()
        return Registration(name(j), f"ws://{name(j)}", capacity=float(self.work.capacity[j]), lat=lat, lon=lon)

    def place(self, us: Longs, now: float) -> Ints:
        found = np.empty(len(us), dtype=np.int32)
        for i, u in enumerate(us.tolist()):
            lat, lon = self.work.people_at[u].tolist()
            found[i] = number(self._handle(ev.Place(None, BrokerRequest(person(u), lat, lon)), now).broker)
        return found

    def report(self, changed: Longs, left: list[tuple[int, int]], news: Longs, now: float) -> list[Order]:
        self.reports += 1
        held = self.crowd.n[news] > 0
        held[:, 0] |= ~held.any(axis=1)  # rates have to be known before the first subscriber needs them
        rows: list[dict[str, list[int]]] = [{} for _ in range(self.work.brokers)]
        for u in changed.tolist():
            rows[int(self.crowd.at[u])][person(u)] = self.crowd.rows[u].tolist()
        gone: list[list[str]] = [[] for _ in rows]
        for u, source in left:
            gone[source].append(person(u))
        found = []
        for j, subscribers in enumerate(rows):
            ks = news[held[:, j]]
            lam = dict(zip(ks.tolist(), self.crowd.lam[ks].tolist(), strict=True))
            report = LoadReport(self.reports, self.reports == 1, subscribers, gone[j], lam)
            reply: ReportReply = self._handle(ev.Report(None, name(j), self.tokens[j], report), now)
            found += [
                Order(number(each.subscriber), j, number(each.broker), self.reasons.get(each.subscriber, ""))
                for each in reply.migrations
            ]
        return found

    def tick(self, now: float) -> None:
        self._handle(ev.Tick(), now - 1.0)
        self._handle(ev.Tick(), now)

    def _handle(self, event: ev.Event, now: float) -> Any:
        reply: Any = None
        for instruction in self.state.handle(event, now):
            match instruction:
                case ev.Reply():
                    reply = instruction.body
                case ev.Refuse():
                    raise instruction.error
                case ev.Note(kind="migration", subscriber=who) if instruction.text.startswith("accepted: "):
                    self.reasons[who] = instruction.text.removeprefix("accepted: ")
        return reply


def name(j: int) -> str:
    """Brokers sort by name as by number."""
    return f"broker-{j:05}"


def person(u: int) -> str:
    return f"person-{u:08}"


def number(name: str) -> int:
    return int(name.rpartition("-")[2])
