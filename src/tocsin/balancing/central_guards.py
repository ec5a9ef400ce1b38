"""Guards of the host that decides about all brokers: what it checks before it accepts a migration.

The first that objects gives the reason. Some of them protect the plan itself and are always there; the others are named
by the configuration. An objection may end with the migration (the default), or have another effect on the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, TypeAlias

from tocsin.balancing.decisions import Limits, Reason
from tocsin.balancing.host.guards import Guard
from tocsin.balancing.host.scope import Scope
from tocsin.balancing.model.load import Status
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import WhatIf
from tocsin.errors import UserError

#: Relative rounding error below which two loads are the same.
ROUNDING = 1e-9
#: Why a broker of this status accepts no subscribers.
CLOSED = {Status.FULL: Reason.FULL, Status.DRAINING: Reason.DRAINING, Status.GONE: Reason.GONE}


class Effect(Enum):
    """What an objection means for the rest of the plan."""

    REFUSE = "this migration is refused"
    RETRY = "it is tried again after others have made room"
    WAIT = "it is refused, and after many in a row the rest waits for the next plan"
    STOP = "no further migration can be accepted now"


@dataclass
class PlanInFlight:
    """``pending``: migrations that are queued or in flight, with those that this plan has accepted. ``leaving`` and
    ``arriving``: how many of them, by broker. ``ended``: when each subscriber last migrated. ``ceiling``: the maximum
    when the plan began."""

    pending: dict[int, Migration]
    ended: dict[int, float]
    ceiling: float
    leaving: list[int]
    arriving: list[int]

    def add(self, migration: Migration) -> None:
        self.pending[migration.subscriber] = migration
        self.count(migration)

    def count(self, migration: Migration) -> None:
        self.leaving[migration.source] += 1
        self.arriving[migration.target] += 1


CentralGuard: TypeAlias = Guard[WhatIf, Migration, PlanInFlight]
PlanScope: TypeAlias = Scope[WhatIf]


@dataclass
class Known:
    """Subscriber and brokers exist."""

    def objection(self, scope: PlanScope, criterion: str, action: Migration, in_flight: PlanInFlight) -> str | None:
        m = scope.model.m
        known = 0 <= action.target < m and 0 <= action.source < m and 0 <= action.subscriber < len(scope.model.at)
        return None if known else Reason.UNKNOWN


@dataclass
class NotPending:
    """A subscriber takes part in one migration at a time."""

    def objection(self, scope: PlanScope, criterion: str, action: Migration, in_flight: PlanInFlight) -> str | None:
        return Reason.PENDING if action.subscriber in in_flight.pending else None


@dataclass
class AtSource:
    """The subscriber is where it would leave."""

    def objection(self, scope: PlanScope, criterion: str, action: Migration, in_flight: PlanInFlight) -> str | None:
        return None if scope.model.at[action.subscriber] == action.source else Reason.ELSEWHERE


@dataclass
class Different:
    """Source and target are two brokers."""

    def objection(self, scope: PlanScope, criterion: str, action: Migration, in_flight: PlanInFlight) -> str | None:
        return Reason.SAME if action.source == action.target else None


@dataclass
class Open:
    """The target is neither full nor draining nor gone."""

    def objection(self, scope: PlanScope, criterion: str, action: Migration, in_flight: PlanInFlight) -> str | None:
        status = int(scope.model.status[action.target])
        return CLOSED[Status(status)] if status else None


@dataclass
class Room:
    """The target has not reached its maximum of subscribers."""

    effect: ClassVar[Effect] = Effect.RETRY

    def objection(self, scope: PlanScope, criterion: str, action: Migration, in_flight: PlanInFlight) -> str | None:
        here, most = scope.model.count[action.target], scope.model.max_subscribers[action.target]
        return None if here < most else Reason.CROWDED


@dataclass
class AtMost:
    """So many migrations are pending at the same time."""

    migrations: int = 1_000
    effect: ClassVar[Effect] = Effect.STOP

    def __post_init__(self) -> None:
        least("migrations", self.migrations, 1)

    def objection(self, scope: PlanScope, criterion: str, action: Migration, in_flight: PlanInFlight) -> str | None:
        return None if len(in_flight.pending) < self.migrations else Reason.IN_FLIGHT


@dataclass
class PerBroker:
    """So many are pending from a broker, and so many to it."""

    migrations: int = 100
    effect: ClassVar[Effect] = Effect.WAIT

    def __post_init__(self) -> None:
        least("migrations", self.migrations, 1)

    def objection(self, scope: PlanScope, criterion: str, action: Migration, in_flight: PlanInFlight) -> str | None:
        if in_flight.leaving[action.source] >= self.migrations:
            return Reason.SOURCE
        return Reason.TARGET if in_flight.arriving[action.target] >= self.migrations else None


@dataclass
class Rest:
    """A subscriber that has just migrated, or failed to, stays for ``seconds``; not where it must leave."""

    seconds: float = 60.0

    def __post_init__(self) -> None:
        least("seconds", self.seconds, 0)

    def objection(self, scope: PlanScope, criterion: str, action: Migration, in_flight: PlanInFlight) -> str | None:
        ended = in_flight.ended.get(action.subscriber)
        rests = ended is not None and scope.now < ended + self.seconds and not action.mandatory
        return Reason.COOLING if rests else None


@dataclass
class NeverRaise:
    """The target does not exceed the maximum that there was when the plan began; a mandatory migration may."""

    effect: ClassVar[Effect] = Effect.RETRY

    def objection(self, scope: PlanScope, criterion: str, action: Migration, in_flight: PlanInFlight) -> str | None:
        if action.mandatory or arrival(scope.model, action) <= in_flight.ceiling * (1 + ROUNDING):
            return None
        return Reason.RAISES


@dataclass
class LeastGain:
    """A migration lowers the higher of its two brokers by this share of a mean subscriber's load, or claims to."""

    share: float = 0.0

    def __post_init__(self) -> None:
        least("share", self.share, 0)

    def objection(self, scope: PlanScope, criterion: str, action: Migration, in_flight: PlanInFlight) -> str | None:
        if self.share <= 0 or action.mandatory:
            return None
        view, source, target = scope.model, action.source, action.target
        # Relative to a mean subscriber: a share of a broker's load would be more subscribers the more it has.
        needed = self.share * float(view.relative[view.live].sum()) / max(1, int(view.count.sum()))
        leaving = float(view.relative[source] - view.release(action.subscriber) / view.capacity[source])
        gain = max(view.relative[source], view.relative[target]) - max(leaving, arrival(view, action))
        return Reason.WORTHLESS if gain < needed and action.gain < needed else None


def arrival(view: WhatIf, migration: Migration) -> float:
    """The relative load of the target with the subscriber."""
    target = migration.target
    return float(view.relative[target] + view.added(migration.subscriber)[target] / view.capacity[target])


def least(name: str, value: float, lowest: float) -> None:
    if not lowest <= value < float("inf"):
        raise UserError(f"{name} of a guard is {value!r}", hint=f"use {lowest:g} or more")


#: Without these a plan would not make sense.
ALWAYS: tuple[CentralGuard, ...] = (Known(), NotPending(), AtSource(), Different(), Open(), Room())


def guards_of(limits: Limits) -> list[CentralGuard]:
    return [
        AtMost(limits.in_flight),
        PerBroker(limits.per_broker),
        Rest(limits.cool_down),
        NeverRaise(),
        LeastGain(limits.least_gain),
    ]


def effects(guards: Sequence[CentralGuard]) -> list[tuple[CentralGuard, Effect]]:
    return [(guard, getattr(guard, "effect", Effect.REFUSE)) for guard in guards]
