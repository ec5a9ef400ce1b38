"""EventCloud (Antoine et al., 2014, section 5): a zone that has too much is cut, and an idle peer gets the other part.

a) criteria: several, each by itself; their order is their priority.
b) load state estimation: m ≥ k1·e is too much. Absolute: e is given at deployment. Relative: e is the mean of what
   the neighbours have sent.
c) decision: periodically, on each peer.
d) method: ranges of the space are assigned again.
e) load moved: what is on the other side of a cut, in the middle of the zone or at the centroid of its items.
f) target: a peer of a pool that was allocated before.
g) exchange: absolute: none. Relative: periodic pushes.
h) recipients: the immediate neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tocsin.balancing.host.actions import ActionKind, AnyAction, Peer, Split, Unit
from tocsin.balancing.host.detector import check, compared
from tocsin.balancing.host.load_balancer import Ask
from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.host.scope import Scope

#: Of a larger pool, only so many are looked at.
LOOKED_AT = 64


@dataclass
class NeighboursEstimate:
    """Relative: k1 times the mean of the neighbours' loads or more is too much, less than k2 times is too little.

    A peer of which no neighbour has sent anything has an estimate of 0: everything is too much for it alone.
    """

    k1: float = 1.1
    k2: float = 0.0

    def __post_init__(self) -> None:
        check(self.k1, self.k2)

    def make_decision(self, scope: Scope, criterion: str) -> LoadState:
        known = scope.registry.get_load_report(criterion, set(scope.neighbours) - {scope.peer})
        measured = scope.model.measure(criterion)
        estimate = sum(each.load for each in known) / max(1, len(known))
        return compared(measured, estimate, self.k1, self.k2) if measured else LoadState.NORMAL


@dataclass
class FromPool:
    """The zone is cut by the rule ``cut``, and a peer of the ``pool`` gets one part."""

    pool: Sequence[Peer]
    cut: str = "centroid"
    used: set[Peer] = field(default_factory=set)
    actions: ClassVar[frozenset[ActionKind]] = frozenset({ActionKind.SPLIT})

    def select_target(self, scope: Scope, criterion: str, state: LoadState) -> Peer | Ask | None:
        """A random peer of the pool that is not known to be in use."""
        self.used.update(scope.neighbours)
        some = self.pool if len(self.pool) <= LOOKED_AT else scope.rng.sample(self.pool, LOOKED_AT)
        idle = [each for each in some if each not in self.used and each != scope.peer]
        return scope.rng.choice(idle) if idle and state is LoadState.OVERLOADED else None

    def select_load_to_move(self, scope: Scope, criterion: str, state: LoadState, target: Peer) -> Sequence[Unit]:
        """What is on the other side of the cut."""
        return ()

    def rebalance(
        self, scope: Scope, criterion: str, state: LoadState, target: Peer, load: Sequence[Unit]
    ) -> Iterable[AnyAction]:
        return [Split(scope.peer, target, scope.model.measure(criterion) / 2, f"cut: {self.cut}", self.cut)]

    def refused(self, action: AnyAction, reason: str, now: float) -> None:
        """Whatever the reason is: there are others in the pool."""
        self.used.add(action.target)
