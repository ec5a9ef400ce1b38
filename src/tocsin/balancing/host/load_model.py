"""What can be moved at a peer, what it weighs, and what a change would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from tocsin.balancing.host.actions import AnyAction, Unit


class Trial(Protocol):
    """A load model as if actions had been executed; changing it changes nothing else."""

    def apply(self, action: AnyAction) -> None: ...

    def measure(self, criterion: str) -> float: ...


class LoadModel(Protocol):
    """The load of the peer that owns it. Criteria are names; a model says which it knows."""

    @property
    def criteria(self) -> Sequence[str]: ...

    def measure(self, criterion: str) -> float:
        """The load of this peer by this criterion, 0 or more."""

    def capacity(self, criterion: str) -> float:
        """What the peer can carry; infinite if there is no limit."""

    def units(self, criterion: str) -> Sequence[tuple[Unit, float]]:
        """What could be moved, and how much load each brings, heaviest first."""

    def holds(self, unit: Unit) -> bool:
        """Whether the unit is at this peer now."""

    def what_if(self) -> Trial: ...


class Member(msgspec.Struct, frozen=True):
    """A member of a unit: its name, and the parts of its load, each with its amount."""

    name: str
    parts: tuple[tuple[int, float], ...] = ()


@runtime_checkable
class Handover(Protocol):
    """A load model whose units consist of members that the target admits one by one, before they arrive.

    Only the peer that has a unit knows its members. So the request for a session comes from it, and a target that
    would like to have a unit advises it to ask.
    """

    def members(self, action: AnyAction) -> tuple[Member, ...]:
        """At the source: who would migrate."""

    def appraised(self, criterion: str, action: AnyAction, members: Sequence[Member]) -> AnyAction:
        """At the target: the action with the load that it would add here."""

    def refuses(self, action: AnyAction, members: Sequence[Member]) -> str | None:
        """At the target: why these members cannot come."""

    def admit(self, action: AnyAction, members: Sequence[Member]) -> Mapping[str, str]:
        """At the target: a permit for each of them."""
