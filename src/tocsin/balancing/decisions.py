"""What a host decides about one suggested migration, for which reason, and within which limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tocsin.balancing.host.actions import ActionKind
from tocsin.balancing.model.migration import Migration

#: What brokers can carry out for the host that decides about all of them.
EXECUTES = frozenset({ActionKind.MIGRATE})


class Reason(StrEnum):
    ACCEPTED = "accepted"
    ELSEWHERE = "the subscriber is not at the source"
    SAME = "source and target are the same"
    UNKNOWN = "there is no such broker"
    GONE = "the target is gone"
    DRAINING = "the target is being drained"
    FULL = "the target reports that it is full"
    CROWDED = "the target has its maximum of subscribers"
    PENDING = "the subscriber is already migrating"
    COOLING = "the subscriber migrated recently"
    IN_FLIGHT = "the maximum of migrations is in flight"
    SOURCE = "the maximum of migrations from the source is in flight"
    TARGET = "the maximum of migrations to the target is in flight"
    RAISES = "the target would exceed the present maximum load"
    WORTHLESS = "it gains too little"
    DONE = "the subscriber has arrived"
    POINTLESS = "the load has changed and the migration is pointless"


@dataclass(frozen=True)
class Limits:
    """``least_gain``: how much a migration lowers the higher of its two brokers, as a share of a mean subscriber's
    load."""

    in_flight: int = 1_000
    per_broker: int = 100
    cool_down: float = 60.0
    least_gain: float = 0.0


@dataclass(frozen=True)
class Decision:
    time: float
    migration: Migration
    reason: str  # a Reason, or that of a guard of another package
    before: float  # the highest relative load before it, as if pending migrations were done
    after: float
    criterion: str = ""

    @property
    def accepted(self) -> bool:
        return self.reason == Reason.ACCEPTED


@dataclass
class Plan:
    """Begin ``migrations`` now and cancel the ``dropped`` ones. ``found``: what balancers found out, by criterion."""

    migrations: list[Migration] = field(default_factory=list)
    dropped: list[Migration] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    found: dict[str, Any] = field(default_factory=dict)
