"""Guards: what may not get worse. A strategy names them; the first that objects gives the reason of the refusal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from tocsin.balancing.host.actions import AnyAction, Unit
from tocsin.balancing.host.scope import ModelT, Scope
from tocsin.errors import UserError


@dataclass(frozen=True)
class InFlight:
    """``sessions``: how many are open here. ``moved``: when each unit last changed its place.

    ``arriving``: the load that open sessions bring to this peer, by the criterion of the action.
    """

    sessions: int
    moved: Mapping[Unit, float]
    arriving: float = 0.0


if TYPE_CHECKING:
    from typing_extensions import TypeVar as Defaulting

    ActionT_contra = Defaulting("ActionT_contra", contravariant=True, default=AnyAction)
    FlightT_contra = Defaulting("FlightT_contra", contravariant=True, default=InFlight)
else:
    ActionT_contra = TypeVar("ActionT_contra", contravariant=True)
    FlightT_contra = TypeVar("FlightT_contra", contravariant=True)


def at_least(lowest: float, **settings: float) -> None:
    """Refuse a setting of a component that is too low."""
    for name, value in settings.items():
        if not value >= lowest:
            raise UserError(f"{name} is {value:g}", hint=f"use {lowest:g} or more")


class Guard(Protocol[ModelT, ActionT_contra, FlightT_contra]):
    def objection(
        self, scope: Scope[ModelT], criterion: str, action: ActionT_contra, in_flight: FlightT_contra
    ) -> str | None:
        """Why this host must not take part in the action, or None."""


@dataclass
class CoolDown:
    """A unit that has just arrived does not move again for ``seconds``."""

    seconds: float = 60.0

    def __post_init__(self) -> None:
        at_least(0, seconds=self.seconds)

    def objection(self, scope: Scope, criterion: str, action: AnyAction, in_flight: InFlight) -> str | None:
        recent = (unit for unit in action.units if scope.now - in_flight.moved.get(unit, -self.seconds) < self.seconds)
        unit = next(recent, None)
        return None if unit is None else f"{unit} moved less than {self.seconds:g} s ago"


@dataclass
class AtOnce:
    """At most ``sessions`` at the same time."""

    sessions: int = 1

    def objection(self, scope: Scope, criterion: str, action: AnyAction, in_flight: InFlight) -> str | None:
        return None if in_flight.sessions < self.sessions else f"{in_flight.sessions} sessions are open"


@dataclass
class WithinCapacity:
    """The target does not accept more than its capacity, with ``reserve`` as the share that stays free."""

    reserve: float = 0.0

    def objection(self, scope: Scope, criterion: str, action: AnyAction, in_flight: InFlight) -> str | None:
        if action.target != scope.peer:
            return None
        limit = scope.model.capacity(criterion) * (1 - self.reserve)
        after = scope.model.measure(criterion) + in_flight.arriving + action.load
        return None if after <= limit else f"the load would be {after:g} of {limit:g}"


@dataclass
class NeverAbove:
    """The target must not end above the load that the source has now: otherwise the two would exchange their roles."""

    def objection(self, scope: Scope, criterion: str, action: AnyAction, in_flight: InFlight) -> str | None:
        other = action.source if action.target == scope.peer else action.target
        known = scope.registry.get_load_report(criterion, [other])
        if not known:
            return None
        own, others = scope.model.measure(criterion), known[0].load
        giver, taker = (others, own + in_flight.arriving) if action.target == scope.peer else (own, others)
        after = taker + action.load
        return None if after < giver else f"the target would have {after:g}, the source has {giver:g}"
