"""PEER's way with the same load model: brokers act on a difference of load, and even it out client by client.

a) criteria: uplink and matching utilisation.
b) load state estimation: above 0.95, or more than another broker by 0.1.
c) decision: periodically, at each edge.
d) method: subscribers migrate.
e) load moved: as many subscribers as bring the two loads closest to each other, topic by topic.
f) target: the least loaded broker of the cluster.
g) exchange: periodic pushes; a pull before a migration.
h) recipients: all brokers of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from tocsin.balancing.host.actions import ActionKind, AnyAction, Migrate, Peer, Unit
from tocsin.balancing.host.load_balancer import Ask
from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.host.scope import Scope
from tocsin.balancing.strategies.tao2013.broker_report import candidate_tables
from tocsin.balancing.strategies.tao2013.load_status import LOWER
from tocsin.balancing.strategies.tao2013.metrics import LoadTable
from tocsin.balancing.strategies.tao2013.topic_load import table_of
from tocsin.errors import UserError

#: Seconds that the partner has to report.
ASKING = 2.0
Choice: TypeAlias = tuple[Peer, tuple[Unit, ...]]


@dataclass
class LoadDifference:
    """Another broker has less load by more than ``difference``, and no broker that is known is above ``low``."""

    difference: float = 0.1
    low: float = LOWER
    finds: ClassVar[frozenset[LoadState]] = frozenset({LoadState.OVERLOADED})

    def __post_init__(self) -> None:
        if not 0.0 < self.difference < 1.0:
            raise UserError(f"the difference is {self.difference:g}", hint="it is between 0 and 1")

    def make_decision(self, scope: Scope, criterion: str) -> LoadState:
        loads = [each.load for each in scope.registry.get_load_report(criterion) if each.peer != scope.peer]
        own = scope.model.measure(criterion)
        if not loads or max(*loads, own) >= self.low or own - min(loads) <= self.difference:
            return LoadState.NORMAL
        return LoadState.OVERLOADED


@dataclass
class EvenOut:
    """Clients of the topic that leaves the smallest difference migrate to the least loaded broker, until the difference
    would grow; the acceptor stays below ``low``."""

    low: float = LOWER
    actions: ClassVar[frozenset[ActionKind]] = frozenset({ActionKind.MIGRATE})

    def select_target(self, scope: Scope, criterion: str, state: LoadState) -> Choice | Ask | None:
        """The least loaded broker that is below the lower threshold."""
        if state is not LoadState.OVERLOADED:
            return None
        if scope.answer is None:
            known = [each for each in scope.registry.get_load_report(criterion) if each.load < self.low]
            partner = min(known, key=lambda each: (each.load, each.peer), default=None)
            return None if partner is None else Ask(partner.peer, seconds=ASKING)
        model = table_of(scope)
        for peer, table in candidate_tables(scope.answer, model.limits).items():
            units = self.chosen(model.table, table, criterion)
            if peer != scope.peer and units:
                return peer, units
        return None

    def select_load_to_move(self, scope: Scope, criterion: str, state: LoadState, target: Choice) -> Choice:
        """As many clients as bring the two loads closest to each other."""
        return target

    def rebalance(
        self, scope: Scope, criterion: str, state: LoadState, target: Choice, load: Choice
    ) -> Iterable[AnyAction]:
        peer, units = load
        table = table_of(scope).table
        weight = table.metric(criterion) - table.without(units).metric(criterion)
        return [Migrate(scope.peer, peer, max(0.0, weight), criterion, units)]

    def chosen(self, source: LoadTable, target: LoadTable, criterion: str) -> tuple[Unit, ...]:
        found: list[Unit] = []
        while (best := self._best(source, target, criterion)) is not None:
            _, units = best
            for unit in units:
                use = source.part(unit)
                if use is not None:
                    source, target = source.without([unit]), target.including(use)
            found += units
        return tuple(found)

    def _best(self, source: LoadTable, target: LoadTable, criterion: str) -> tuple[float, list[Unit]] | None:
        """The smallest difference that one topic's clients can leave, and those clients."""
        gap = abs(source.metric(criterion) - target.metric(criterion))
        best: tuple[float, list[Unit]] | None = None
        for use in source:
            left, accepted, units = source, target, list[Unit]()
            for client in use.clients:
                part = left.part(client)
                if part is None:
                    continue
                left, accepted = left.without([client]), accepted.including(part)
                units.append(client)
                after = abs(left.metric(criterion) - accepted.metric(criterion))
                if accepted.metric(criterion) >= self.low or after >= gap - 1e-9:
                    continue
                if best is None or after < best[0] - 1e-9:
                    best = after, list(units)
        return best
