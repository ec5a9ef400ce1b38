"""Gupta et al. (2004), Meghdoot: a peer that joins relieves the heaviest one that it can learn of.

a) criteria: subscriptions, and the popularity of data as events.
b) load state estimation: none; a peer that joins always relieves another.
c) decision: when a peer joins.
d) method: ranges of the space are assigned again, or replicated.
e) load moved: half of the subscriptions of a heavy peer, or a replica of its zone.
f) target: the heaviest peer that is known to the one which was asked.
g) exchange: periodic pushes, with the k heaviest peers that are known; a peer that joins pulls from a random one.
h) recipients: neighbours, one hop away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest

from tocsin.balancing.host.actions import ActionKind, AnyAction, Peer, Replicate, Split, Unit
from tocsin.balancing.host.load_balancer import Ask
from tocsin.balancing.host.load_information import LoadInformation, LoadState
from tocsin.balancing.host.messages import Pull, Push, Recipient
from tocsin.balancing.host.scope import Scope
from tocsin.balancing.strategies.antoine2014.rao import random_neighbour
from tocsin.errors import UserError

#: What a trigger of a peer that joins is about.
JOIN = "join"
SUBSCRIPTIONS, EVENTS = "subscriptions", "events"


@dataclass
class OnJoin:
    """No estimation: a peer that joins always has something to do, and others never have."""

    def make_decision(self, scope: Scope, criterion: str) -> LoadState:
        return LoadState.UNDERLOADED if scope.subject == JOIN else LoadState.NORMAL


@dataclass
class HeaviestGossip:
    """Periodic push of the own load and of the k heaviest peers that are known; the same answers a pull."""

    k: int = 4

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UserError(f"the {self.k} heaviest peers", hint="at least 1")

    def recipients(self, scope: Scope) -> Sequence[Recipient]:
        """All neighbours, one hop away."""
        return scope.neighbours

    def exchange_load_information(
        self, scope: Scope, recipients: Sequence[Recipient], information: Sequence[LoadInformation]
    ) -> Iterator[tuple[Recipient, Push | Pull]]:
        known = Push(tuple(self.reported(scope, information)))
        return ((each, known) for each in recipients)

    def reported(self, scope: Scope, own: Sequence[LoadInformation]) -> Sequence[LoadInformation]:
        heaviest = [
            nlargest(self.k, scope.registry.aged(each.criterion, scope.now), key=lambda it: (it.load, it.peer))
            for each in own
        ]
        return [*own, *(each for found in heaviest for each in found)]


@dataclass
class JoinHeaviest:
    """A peer that joins asks a random one, and relieves the heaviest that this one knows.

    Of several criteria it is the one in which the heaviest peer exceeds the mean most. ``cut``: of a split zone.
    """

    action: type[Split | Replicate] = Split
    cut: str = "subscriptions"
    probe: Callable[[Scope], Recipient | None] = random_neighbour
    criteria: Sequence[str] = (SUBSCRIPTIONS, EVENTS)

    @property
    def actions(self) -> frozenset[ActionKind]:
        return frozenset({self.action.kind})

    def select_target(self, scope: Scope, criterion: str, state: LoadState) -> Peer | Ask | None:
        """The heaviest peer that is known to the one which was asked."""
        if scope.answer is None:
            recipient = self.probe(scope)
            return None if recipient is None else Ask(recipient)
        if criterion != max(self.criteria, key=lambda each: self._excess(scope, each)):
            return None
        known = [each for each in scope.answer if each.criterion == criterion and each.peer != scope.peer]
        heaviest = max(known, key=lambda each: (each.load, each.peer), default=None)
        return None if heaviest is None or heaviest.load <= 0.0 else heaviest.peer

    def _excess(self, scope: Scope, criterion: str) -> float:
        loads = [each.load for each in scope.answer or () if each.criterion == criterion]
        return max(loads) * len(loads) / sum(loads) if sum(loads) else 0.0

    def select_load_to_move(self, scope: Scope, criterion: str, state: LoadState, target: Peer) -> Sequence[Unit]:
        """Half of its subscriptions, or a replica of its zone."""
        return ()

    def rebalance(
        self, scope: Scope, criterion: str, state: LoadState, target: Peer, load: Sequence[Unit]
    ) -> Iterable[AnyAction]:
        half = max(each.load for each in scope.answer or () if each.peer == target) / 2
        if self.action is Split:
            return [Split(target, scope.peer, half, "joins the heaviest", self.cut)]
        return [Replicate(target, scope.peer, half, "joins the heaviest")]
