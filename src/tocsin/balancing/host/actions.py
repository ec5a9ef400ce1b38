"""The closed set of actions with which load changes its place. A host declares which of them it can execute."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, Protocol, TypeAlias

import msgspec

Peer: TypeAlias = str
#: What a load model moves as a whole: a subscriber, a subscription, a virtual server, a zone, an item.
Unit: TypeAlias = str


class ActionKind(Enum):
    MIGRATE = "migrate"
    SWAP = "swap"
    SPLIT = "split"
    REPLICATE = "replicate"
    REJOIN = "leave and rejoin"
    REDIRECT = "redirect"


class Suggestion(Protocol):
    """What every action has, whichever way its load model names units and peers."""

    @property
    def kind(self) -> ActionKind: ...


class Action(msgspec.Struct, frozen=True, tag=True):
    """``source`` gives load away and ``target`` takes it; ``load`` is how much, in units of the criterion."""

    kind: ClassVar[ActionKind]

    source: Peer
    target: Peer
    load: float = 0.0
    reason: str = ""

    @property
    def executor(self) -> Peer:
        """The peer that has what changes its place: it alone can execute the action."""
        return self.source

    @property
    def units(self) -> tuple[Unit, ...]:
        """All that change their place."""
        return ()

    def given_by(self, peer: Peer) -> tuple[Unit, ...]:
        """What this peer must hold."""
        return ()

    def given_to(self, peer: Peer) -> tuple[Unit, ...]:
        """What this peer must not hold yet."""
        return ()


class _OfUnits(Action, frozen=True):
    """An action on named units."""

    moved: tuple[Unit, ...] = ()

    @property
    def units(self) -> tuple[Unit, ...]:
        return self.moved

    def given_by(self, peer: Peer) -> tuple[Unit, ...]:
        return self.moved if peer == self.source else ()

    def given_to(self, peer: Peer) -> tuple[Unit, ...]:
        return self.moved if peer == self.target else ()


class Migrate(_OfUnits, frozen=True):
    """The units leave the source for the target."""

    kind = ActionKind.MIGRATE


class Swap(_OfUnits, frozen=True):
    """The units leave the source for the target, and ``returned`` come back: a difference finer than one unit."""

    kind = ActionKind.SWAP
    returned: tuple[Unit, ...] = ()

    @property
    def units(self) -> tuple[Unit, ...]:
        return self.moved + self.returned

    def given_by(self, peer: Peer) -> tuple[Unit, ...]:
        return self.moved if peer == self.source else self.returned if peer == self.target else ()

    def given_to(self, peer: Peer) -> tuple[Unit, ...]:
        return self.returned if peer == self.source else self.moved if peer == self.target else ()


class Split(Action, frozen=True):
    """The target takes over part of the source's range; ``cut`` names the rule that divides it."""

    kind = ActionKind.SPLIT
    cut: str = "middle"


class Replicate(Action, frozen=True):
    """The target gets a copy of the source's range, and both serve it."""

    kind = ActionKind.REPLICATE


class Rejoin(Action, frozen=True):
    """The target leaves its place and joins again beside the source, where it takes over half."""

    kind = ActionKind.REJOIN

    @property
    def executor(self) -> Peer:
        return self.target


class Redirect(_OfUnits, frozen=True):
    """The units are stored at the target, and the source keeps a pointer to it."""

    kind = ActionKind.REDIRECT


AnyAction: TypeAlias = Migrate | Swap | Split | Replicate | Rejoin | Redirect
