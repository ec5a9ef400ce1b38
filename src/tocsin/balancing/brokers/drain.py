"""A broker that is being drained gives all its subscribers away, group by group, to the broker with the fewest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tocsin.balancing.brokers.broker_load import SUBSCRIBERS
from tocsin.balancing.host.actions import ActionKind, AnyAction, Migrate, Peer, Unit
from tocsin.balancing.host.guards import Guard, InFlight, at_least
from tocsin.balancing.host.load_balancer import Ask
from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.host.scope import Scope


@dataclass
class Draining:
    """Every subscriber of a broker that is being drained is one too many."""

    def make_decision(self, scope: Scope, criterion: str) -> LoadState:
        return LoadState.OVERLOADED if scope.model.measure(criterion) > 0.0 else LoadState.NORMAL


@dataclass
class GiveAway:
    """Gives up to ``groups`` at a time to the broker with the fewest subscribers, for which it asks random brokers."""

    groups: int = 4
    actions: ClassVar[frozenset[ActionKind]] = frozenset({ActionKind.MIGRATE})

    def __post_init__(self) -> None:
        at_least(1, groups=self.groups)

    def select_target(self, scope: Scope, criterion: str, state: LoadState) -> Peer | Ask | None:
        drained = {each.peer for each in scope.registry.get_load_report(criterion) if each.load > 0.0}
        known = scope.registry.get_load_report(SUBSCRIBERS, scope.neighbours)
        open_ = [(each.load, each.peer) for each in known if each.peer not in drained]
        if open_:
            return min(open_)[1]
        if scope.answer is None and scope.neighbours:
            return Ask(scope.rng.choice(list(scope.neighbours)))
        return None

    def select_load_to_move(self, scope: Scope, criterion: str, state: LoadState, target: Peer) -> Sequence[Unit]:
        return [unit for unit, _ in scope.model.units(criterion)][: self.groups]

    def rebalance(
        self, scope: Scope, criterion: str, state: LoadState, target: Peer, load: Sequence[Unit]
    ) -> Iterable[AnyAction]:
        return [Migrate(scope.peer, target, 0.0, "this broker is being drained", (unit,)) for unit in load]


@dataclass
class For:
    """A guard that counts for some criteria only."""

    criteria: frozenset[str]
    guard: Guard

    def objection(self, scope: Scope, criterion: str, action: AnyAction, in_flight: InFlight) -> str | None:
        return self.guard.objection(scope, criterion, action, in_flight) if criterion in self.criteria else None
