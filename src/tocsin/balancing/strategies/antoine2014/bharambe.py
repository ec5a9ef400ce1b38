"""Bharambe et al. (2004), Mercury: random samples say what is heavy and what is light, and half of the load moves.

a) criteria: query selectivity and popularity of data; here whatever the load model measures.
b) load state estimation: local load is the mean of a peer and its neighbours in the ring. Above α times the mean of the
   system it is heavy, below the α-th part of it light, with α ≥ √2.
c) decision: periodically, on each peer.
d) method: ranges of identifiers are assigned again: a light peer leaves its place and joins beside the heavy one.
   Brokers have no places: there, half of the difference migrates.
e) load moved: half of the load of the heavy peer.
f) target: a light peer.
g) exchange: pulls by random walks with a TTL, and pulls from neighbours.
h) recipients: k random peers, TTL hops away, and all peers one hop away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import ClassVar

from tocsin.balancing.host.actions import ActionKind, AnyAction, Migrate, Peer, Rejoin, Unit
from tocsin.balancing.host.detector import compared
from tocsin.balancing.host.load_balancer import Ask
from tocsin.balancing.host.load_information import LoadInformation, LoadState
from tocsin.balancing.host.messages import Pull, Push, Recipient
from tocsin.balancing.host.scope import Scope
from tocsin.errors import UserError

#: Peers that are next to this one, of which a peer's local load is made.
Around = Callable[[Scope], Sequence[Peer]]


def no_places(scope: Scope) -> Sequence[Peer]:
    """Where peers have no places, local load is a peer's own."""
    return ()


@dataclass
class Sampling:
    """Pulls from ``samples`` peers at the ends of random walks of ``ttl`` hops, and from those around."""

    samples: int = 2
    ttl: int = 3
    around: Around = no_places

    def __post_init__(self) -> None:
        if self.samples < 1 or self.ttl < 0:
            raise UserError(f"{self.samples} samples with a TTL of {self.ttl}", hint="1 or more, with 0 or more hops")

    def recipients(self, scope: Scope) -> Sequence[Recipient]:
        """Random peers, TTL hops away (the first hops; the walk goes on from there), and those around."""
        first = [scope.rng.choice(list(scope.neighbours)) for _ in range(self.samples) if scope.neighbours]
        return [*first, *self.around(scope)]

    def exchange_load_information(
        self, scope: Scope, recipients: Sequence[Recipient], information: Sequence[LoadInformation]
    ) -> Iterator[tuple[Recipient, Push | Pull]]:
        near = set(self.around(scope))
        return ((each, Pull(0, scope.peer, 0 if each in near else self.ttl)) for each in recipients)


@dataclass
class LocalLoad:
    """Heavy if the mean load of a peer and those around is α times the system's mean or more, light below 1/α of it.

    The registry is the histogram of the system, as far as samples reached.
    """

    alpha: float = sqrt(2)
    around: Around = no_places

    def __post_init__(self) -> None:
        if self.alpha < sqrt(2):
            raise UserError(f"α is {self.alpha:g}", hint="α is at least √2: below it, light peers would become heavy")

    def local(self, scope: Scope, criterion: str) -> float:
        near = scope.registry.get_load_report(criterion, self.around(scope))
        return (scope.model.measure(criterion) + sum(each.load for each in near)) / (1 + len(near))

    def mean(self, scope: Scope, criterion: str) -> float:
        known = [each.load for each in scope.registry.get_load_report(criterion) if each.peer != scope.peer]
        return (scope.model.measure(criterion) + sum(known)) / (1 + len(known))

    def make_decision(self, scope: Scope, criterion: str) -> LoadState:
        mean = self.mean(scope, criterion)
        if mean <= 0.0 or not scope.registry.get_load_report(criterion):
            return LoadState.NORMAL
        return compared(self.local(scope, criterion), mean, self.alpha, 1 / self.alpha)


def lightest(scope: Scope, criterion: str, detector: LocalLoad) -> LoadInformation | None:
    """The lightest of the light peers that are known."""
    limit = detector.mean(scope, criterion) / detector.alpha
    known = scope.registry.get_load_report(criterion)
    light = [each for each in known if each.load < limit and each.peer != scope.peer]
    return min(light, key=lambda each: (each.load, each.peer), default=None)


@dataclass
class LeaveAndRejoin:
    """The lightest peer that a heavy one knows leaves its place, and joins beside the heavy one."""

    detector: LocalLoad = field(default_factory=LocalLoad)
    actions: ClassVar[frozenset[ActionKind]] = frozenset({ActionKind.REJOIN})

    def select_target(self, scope: Scope, criterion: str, state: LoadState) -> Peer | Ask | None:
        """The lightest of the light peers that are known."""
        light = lightest(scope, criterion, self.detector) if state is LoadState.OVERLOADED else None
        # Local load may be a neighbour's: a peer at the mean or below has nothing to share.
        heavy = scope.model.measure(criterion) > self.detector.mean(scope, criterion)
        return None if light is None or not heavy else light.peer

    def select_load_to_move(self, scope: Scope, criterion: str, state: LoadState, target: Peer) -> Sequence[Unit]:
        """Half of the load of the heavy peer."""
        return ()

    def rebalance(
        self, scope: Scope, criterion: str, state: LoadState, target: Peer, load: Sequence[Unit]
    ) -> Iterable[AnyAction]:
        return [Rejoin(scope.peer, target, scope.model.measure(criterion) / 2, "leave and rejoin")]


@dataclass
class HalfTheDifference:
    """A heavy peer gives units to the lightest that it knows, until both would have the same load."""

    detector: LocalLoad = field(default_factory=LocalLoad)
    most: int = 64
    actions: ClassVar[frozenset[ActionKind]] = frozenset({ActionKind.MIGRATE})

    def select_target(self, scope: Scope, criterion: str, state: LoadState) -> Peer | Ask | None:
        if state is not LoadState.OVERLOADED:
            return None
        light = lightest(scope, criterion, self.detector)
        return None if light is None else light.peer

    def select_load_to_move(self, scope: Scope, criterion: str, state: LoadState, target: Peer) -> Sequence[Unit]:
        light = scope.registry.get_load_report(criterion, [target])
        if not light:
            return ()
        half = (scope.model.measure(criterion) - light[0].load) / 2
        chosen: list[Unit] = []
        for unit, load in scope.model.units(criterion):
            if 0.0 < load <= half and len(chosen) < self.most:
                chosen.append(unit)
                half -= load
        return chosen

    def rebalance(
        self, scope: Scope, criterion: str, state: LoadState, target: Peer, load: Sequence[Unit]
    ) -> Iterable[AnyAction]:
        loads = dict(scope.model.units(criterion))
        moved = sum(loads[unit] for unit in load)
        return [Migrate(scope.peer, target, moved, "half of the difference", tuple(load))] if load else []
