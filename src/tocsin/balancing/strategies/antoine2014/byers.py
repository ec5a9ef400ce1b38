"""Byers et al. (2003): the power of two choices, when something is inserted.

a) criteria: the number of items of a peer.
b) load state estimation: none; what is to be inserted is always placed.
c) decision: when an item is inserted, at the peer that inserts it. At a broker: when a new subscriber has connected.
d) method: power of two choices.
e) load moved: the item. In a key space the other choices keep a redirection pointer to it; a client remembers its
   broker by itself.
f) target: the least loaded of the peers that were asked.
   Besides, from time to time: an overloaded peer sheds an item to another of its places, and an underloaded one steals
   one that it has a pointer to.
g) exchange: pulls, from all choices at the same time.
h) recipients: the peers of d hash values. At a broker the first choice is the client's own, the broker that it has
   connected to: otherwise almost every client would have to migrate at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from tocsin.balancing.host.actions import ActionKind, AnyAction, Migrate, Peer, Redirect, Unit
from tocsin.balancing.host.load_balancer import Ask
from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.host.messages import Recipient
from tocsin.balancing.host.scope import Scope
from tocsin.balancing.strategies.antoine2014.choice_by_hash import ranked
from tocsin.errors import UserError

#: The recipients for an item, of so many hash functions.
Choose = Callable[[Scope, str, int], Sequence[Recipient]]


def by_name(scope: Scope, subject: str, d: int) -> Sequence[Recipient]:
    """This peer, and the others by hash of the subject."""
    others = [each for each in ranked(scope, subject, d) if each != scope.peer]
    return [scope.peer, *others[: d - 1]]


@dataclass
class OnInsertion:
    """No estimation: what is inserted is always placed, and nothing else is done."""

    def make_decision(self, scope: Scope, criterion: str) -> LoadState:
        return LoadState.NORMAL if scope.subject is None else LoadState.OVERLOADED


@dataclass
class Choices:
    """Asks all choices at the same time, and takes the least loaded of those that answer."""

    d: int = 2
    choose: Choose = by_name
    seconds: float = 5.0

    def __post_init__(self) -> None:
        if self.d < 1:
            raise UserError(f"{self.d} choices", hint="at least 1; 2 are enough")

    def select(self, scope: Scope, criterion: str) -> Peer | Ask | None:
        if scope.subject is None:
            return None
        if scope.answer is None:
            others = [each for each in self.choose(scope, scope.subject, self.d) if each != scope.peer]
            return Ask(others[0], also=tuple(others[1:]), seconds=self.seconds) if others else None
        answers = [(each.load, each.peer) for each in scope.answer if each.criterion == criterion]
        own = (scope.model.measure(criterion), scope.peer)
        return min([own, *(each for each in answers if each[0] < own[0])])[1]


@dataclass
class LeastLoaded:
    """What is inserted here goes to the least loaded choice: it migrates, or is stored there with a pointer to it."""

    choices: Choices
    action: type[Migrate | Redirect] = Migrate

    @property
    def actions(self) -> frozenset[ActionKind]:
        return frozenset({self.action.kind})

    def select_target(self, scope: Scope, criterion: str, state: LoadState) -> Peer | Ask | None:
        """The least loaded of the peers that were asked."""
        found = self.choices.select(scope, criterion)
        return None if found == scope.peer else found

    def select_load_to_move(self, scope: Scope, criterion: str, state: LoadState, target: Peer) -> Sequence[Unit]:
        """The item to be inserted."""
        return () if scope.subject is None else (scope.subject,)

    def rebalance(
        self, scope: Scope, criterion: str, state: LoadState, target: Peer, load: Sequence[Unit]
    ) -> Iterable[AnyAction]:
        return [self.action(scope.peer, target, 0.0, "least loaded choice", tuple(load))] if load else []


class Places(Protocol):
    """Where the items of this peer could be instead."""

    def elsewhere(self, scope: Scope) -> tuple[Unit, Recipient] | None:
        """A random item of this peer, and another one of its places."""

    def redirected(self, scope: Scope) -> tuple[Unit, Recipient] | None:
        """A random item that this peer only has a pointer to, and the place that has it."""


@dataclass
class Shedding:
    """An overloaded peer passes an item on to another of its places, if that one has less, and keeps a pointer."""

    places: Places
    asked: Unit | None = None
    actions: ClassVar[frozenset[ActionKind]] = frozenset({ActionKind.REDIRECT})

    def select_target(self, scope: Scope, criterion: str, state: LoadState) -> Peer | Ask | None:
        """The peer of another place of an item, if it has less."""
        if state is not LoadState.OVERLOADED or scope.subject is not None:
            return None
        if scope.answer is None:
            found = self.places.elsewhere(scope)
            self.asked = None if found is None else found[0]
            return None if found is None else Ask(found[1])
        load = scope.model.measure(criterion)
        lighter = [each for each in scope.answer if each.criterion == criterion and each.load + 1 < load]
        return lighter[0].peer if lighter and lighter[0].peer != scope.peer else None

    def select_load_to_move(self, scope: Scope, criterion: str, state: LoadState, target: Peer) -> Sequence[Unit]:
        """One item."""
        return () if self.asked is None else (self.asked,)

    def rebalance(
        self, scope: Scope, criterion: str, state: LoadState, target: Peer, load: Sequence[Unit]
    ) -> Iterable[AnyAction]:
        return [Redirect(scope.peer, target, 1.0, "shed", tuple(load))] if load else []


@dataclass
class Stealing:
    """An underloaded peer takes an item that it has a pointer to from the peer that stores it, if that one has more."""

    places: Places
    asked: Unit | None = None
    actions: ClassVar[frozenset[ActionKind]] = frozenset({ActionKind.REDIRECT})

    def select_target(self, scope: Scope, criterion: str, state: LoadState) -> Peer | Ask | None:
        """The peer that a pointer leads to, if it has more."""
        if state is not LoadState.UNDERLOADED or scope.subject is not None:
            return None
        if scope.answer is None:
            found = self.places.redirected(scope)
            self.asked = None if found is None else found[0]
            return None if found is None else Ask(found[1])
        load = scope.model.measure(criterion)
        heavier = [each for each in scope.answer if each.criterion == criterion and each.load > load + 1]
        return heavier[0].peer if heavier and heavier[0].peer != scope.peer else None

    def select_load_to_move(self, scope: Scope, criterion: str, state: LoadState, target: Peer) -> Sequence[Unit]:
        """One item."""
        return () if self.asked is None else (self.asked,)

    def rebalance(
        self, scope: Scope, criterion: str, state: LoadState, target: Peer, load: Sequence[Unit]
    ) -> Iterable[AnyAction]:
        return [Redirect(target, scope.peer, 1.0, "steal", tuple(load))] if load else []
