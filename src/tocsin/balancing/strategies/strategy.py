"""A strategy of the host that decides about all brokers: pairs of a detector and a balancer, in order of priority."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from random import Random
from typing import Any, ClassVar, Protocol, TypeAlias

from tocsin.balancing.catalogue.blueprint import Blueprint, StageParts
from tocsin.balancing.catalogue.places import COORDINATOR, catalogue
from tocsin.balancing.host.actions import ActionKind
from tocsin.balancing.host.information_registry import InformationRegistry
from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.host.managers import Clock, Concern, LoadBalancingManager
from tocsin.balancing.host.scope import Scope
from tocsin.balancing.model.migration import Migration, collapsed
from tocsin.balancing.model.what_if import LOAD, WhatIf

#: What a detector and a balancer of this host see: a what-if of the whole load.
View: TypeAlias = Scope[WhatIf]
Stage: TypeAlias = Concern[WhatIf, Any, Any, Migration]
MIGRATES = frozenset({ActionKind.MIGRATE})


class Strategy(Protocol):
    """``view`` is the load as if all pending migrations were done; it belongs to the strategy, which may change it.

    The host takes the suggestions one by one and may stop at any time, so the best come first. One that has a method
    ``refused(migration, reason, now)`` learns what was refused.
    """

    def suggest(self, view: WhatIf) -> Iterator[Migration]: ...

    def objective(self, view: WhatIf) -> float:
        """What the strategy never makes worse; smaller is better. The contract test checks it."""


class MinMax:
    """The common objective: the largest load of a broker relative to its capacity."""

    def objective(self, view: WhatIf) -> float:
        return view.loads.maximum


@dataclass
class StagedStrategy:
    """A strategy as its components. Its objective is that of its first criterion.

    ``blueprint``: their names; without them they can only be exchanged all at once.
    """

    stages: Sequence[Stage]
    blueprint: Blueprint = field(default=Blueprint(()), compare=False)

    def suggest(self, view: WhatIf) -> Iterator[Migration]:
        return (migration for _, migration in suggestions(manager_of(self), plan_scope(view, 0.0)))

    def objective(self, view: WhatIf) -> float:
        return view.measure(self.stages[0].criterion)


@dataclass
class Always:
    """Always overloaded, for balancers that find out by themselves whether there is something to do."""

    def make_decision(self, scope: Scope[Any], criterion: str) -> LoadState:
        return LoadState.OVERLOADED


@dataclass
class Whole:
    """A strategy in one piece as a balancer: it has a target and a load of its own in each of its suggestions."""

    strategy: Strategy
    actions: ClassVar[frozenset[ActionKind]] = MIGRATES

    def select_target(self, scope: View, criterion: str, state: LoadState) -> WhatIf:
        return scope.model

    def select_load_to_move(self, scope: View, criterion: str, state: LoadState, target: WhatIf) -> Iterator[Migration]:
        return self.strategy.suggest(target)

    def rebalance(
        self, scope: View, criterion: str, state: LoadState, target: WhatIf, load: Iterator[Migration]
    ) -> Iterable[Migration]:
        return load


class LearningWhole(Whole):
    """The same for a strategy that wants to know what was refused and why."""

    def refused(self, action: Migration, reason: str, now: float) -> None:
        learner: Any = self.strategy
        learner.refused(action, reason, now)


def composed(*parts: StageParts) -> StagedStrategy:
    """A strategy of components of the catalogue, in order of priority."""
    blueprint = Blueprint(parts)
    return StagedStrategy(catalogue(COORDINATOR).build(blueprint).concerns, blueprint)


def stages(strategy: Strategy) -> list[Stage]:
    """Its components, in order of priority."""
    if isinstance(strategy, StagedStrategy):
        return list(strategy.stages)
    whole = LearningWhole if hasattr(strategy, "refused") else Whole
    return [Concern(LOAD, Always(), whole(strategy))]


def manager_of(strategy: Strategy) -> LoadBalancingManager[WhatIf, Any, Any, Migration]:
    """Its clock never runs: a plan is made on request."""
    return LoadBalancingManager(stages(strategy), Clock(float("inf")))


def plan_scope(view: WhatIf, now: float) -> View:
    """Brokers report their load into the view itself; random numbers are the same in each plan."""
    return Scope("coordinator", now, view, InformationRegistry(), (), Random(0))


def suggestions(
    manager: LoadBalancingManager[WhatIf, Any, Any, Migration], scope: View
) -> Iterator[tuple[str, Migration]]:
    """What all concerns suggest, in order of priority, each until it is normal or nothing moves.

    Where a balancer may migrate a subscriber twice, its criterion's suggestions are collected first: a subscriber goes
    straight to its last target.
    """
    for criterion, concerns in groupby(manager.concerns, key=_criterion):
        group = list(concerns)
        played = (migration for concern in group for migration in manager.iterate_to_rest(scope, concern))
        if any(getattr(concern.balancer, "revises", False) for concern in group):
            played = (each for each in collapsed(scope.model.at.copy(), played))
        for migration in played:
            yield criterion, migration


def _criterion(stage: Stage) -> str:
    return stage.criterion
