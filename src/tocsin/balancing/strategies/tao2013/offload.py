"""The three steps of a balancing (IV.D): locate brokers that accept load, select clients, migrate them.

Step 1 asks the head, which asks the others; step 2 is here; step 3 is a session of the host for each acceptor.

a) criteria: queue depth of each topic, downlink and matching utilisation; not the uplink's.
b) load state estimation: queue depth above a threshold that follows from deadlines, the others above 0.95.
c) decision: periodically, at each edge; at its head, whether it may.
d) method: subscribers migrate.
e) load moved: bundles of a topic in the order of table IV, until the broker is not overloaded; single subscribers only
   if no bundle fits.
f) target: of the brokers in status LOW, that with the lowest value of the overloaded metric.
g) exchange: periodic reports to the head; the head pulls from candidates on request.
h) recipients: the head; through it the edges of its cluster, and those of others if they are not enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

from tocsin.balancing.host.actions import ActionKind, AnyAction, Migrate, Peer, Unit
from tocsin.balancing.host.load_balancer import Ask
from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.host.scope import Scope
from tocsin.balancing.strategies.tao2013.broker_report import candidate_tables
from tocsin.balancing.strategies.tao2013.mediator import DOMAINS
from tocsin.balancing.strategies.tao2013.metrics import LoadTable, TopicUse
from tocsin.balancing.strategies.tao2013.priorities import ordered
from tocsin.balancing.strategies.tao2013.topic_load import TopicLoad, table_of

#: In a pull to the head: only its own cluster, or those of the other heads too.
LOCAL, EVERYWHERE = 0, 1
#: Seconds that candidates have to report.
LOCATING = 2.0

Offloading: TypeAlias = list[tuple[Unit, Peer]]
#: Whom to ask for brokers that accept load; None if there is no one else to ask.
Locate: TypeAlias = Callable[[Scope, int], Ask | None]
Order: TypeAlias = Callable[[LoadTable, str, frozenset[str], Random], Sequence[TopicUse]]


@runtime_checkable
class Judging(Protocol):
    """A detector that can judge a table in which nothing has been measured: the one after a migration."""

    def overloaded(self, table: LoadTable, criterion: str, cost: float) -> bool: ...

    def late(self, table: LoadTable, criterion: str, cost: float) -> frozenset[str]: ...


def through_head(scope: Scope, reach: int) -> Ask | None:
    """An edge asks its head, which is its first neighbour."""
    return Ask(scope.neighbours[0], reach, seconds=LOCATING)


def other_heads(scope: Scope, reach: int) -> Ask | None:
    """A head asks the other heads, all at once."""
    first, *others = scope.neighbours
    return Ask(first, also=tuple(others), seconds=LOCATING) if reach == LOCAL else None


def by_priority(table: LoadTable, metric: str, late: frozenset[str], rng: Random) -> Sequence[TopicUse]:
    return ordered(table, metric, late)


@dataclass
class Offload:
    """Bundles leave in order of priority, each to the acceptor with the lowest value of the overloaded metric, until
    the broker is not overloaded. A bundle is split only if none fits anywhere."""

    detector: Judging
    locate: Locate = through_head
    order: Order = by_priority
    actions: ClassVar[frozenset[ActionKind]] = frozenset({ActionKind.MIGRATE})

    def select_target(self, scope: Scope, criterion: str, state: LoadState) -> Offloading | Ask | None:
        """Brokers in status LOW of the own cluster; of others, if those are not enough."""
        if state is not LoadState.OVERLOADED or not scope.neighbours:
            return None
        if scope.answer is None:
            return self.locate(scope, LOCAL)
        found, enough = self.offloading(scope, criterion)
        everywhere = any(each.criterion == DOMAINS for each in scope.answer)
        further = None if enough or everywhere else self.locate(scope, EVERYWHERE)
        return further or found or None

    def select_load_to_move(self, scope: Scope, criterion: str, state: LoadState, target: Offloading) -> Offloading:
        """The offloading list: as few bundles as end the overload."""
        return target

    def rebalance(
        self, scope: Scope, criterion: str, state: LoadState, target: Offloading, load: Offloading
    ) -> Iterable[AnyAction]:
        model = table_of(scope)
        for acceptor in dict.fromkeys(peer for _, peer in load):
            units = tuple(unit for unit, peer in load if peer == acceptor)
            weight = sum(model.table.share(unit, criterion) for unit in units)
            yield Migrate(scope.peer, acceptor, max(0.0, weight), criterion, units)

    def offloading(self, scope: Scope, criterion: str) -> tuple[Offloading, bool]:
        """The list, and whether it ends the overload."""
        model = table_of(scope)
        accepting = candidate_tables(scope.answer or (), model.limits)
        accepting.pop(scope.peer, None)
        table, chosen = self._bundles(model, criterion, accepting, scope.rng)
        if not chosen:
            table, chosen = self._clients(model, criterion, accepting, scope.rng)
        return chosen, not self.detector.overloaded(table, criterion, model.cost.mean)

    def _bundles(
        self, model: TopicLoad, criterion: str, accepting: dict[Peer, LoadTable], rng: Random
    ) -> tuple[LoadTable, Offloading]:
        cost = model.cost.mean
        late = self.detector.late(model.table, criterion, cost)
        units = [use.topic for use in self.order(model.table, criterion, late, rng)]
        return self._chosen(model, criterion, accepting, units)

    def _clients(
        self, model: TopicLoad, criterion: str, accepting: dict[Peer, LoadTable], rng: Random
    ) -> tuple[LoadTable, Offloading]:
        late = self.detector.late(model.table, criterion, model.cost.mean)
        units = [client for use in self.order(model.table, criterion, late, rng) for client in use.clients]
        return self._chosen(model, criterion, accepting, units)

    def _chosen(
        self, model: TopicLoad, criterion: str, accepting: dict[Peer, LoadTable], units: Sequence[Unit]
    ) -> tuple[LoadTable, Offloading]:
        table, chosen, cost = model.table, Offloading(), model.cost.mean
        for unit in units:
            if not self.detector.overloaded(table, criterion, cost):
                break
            use = model.table.part(unit)
            if use is None:
                continue
            for peer in preferred(accepting, criterion, use):
                after = accepting[peer].including(use)
                if model.limits.objection(accepting[peer], after) is None:
                    accepting[peer], table = after, table.without([unit])
                    chosen.append((unit, peer))
                    break
        return table, chosen


def preferred(accepting: dict[Peer, LoadTable], criterion: str, use: TopicUse) -> list[Peer]:
    """The lowest value of the overloaded metric first; among equals the one whose uplink it fills least."""
    influence = {peer: use.bits_out / table.resources.uplink for peer, table in accepting.items()}
    return sorted(accepting, key=lambda peer: (accepting[peer].metric(criterion), influence[peer], peer))
