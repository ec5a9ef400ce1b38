"""What a balancer decides about one suggested move, why, and within which limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from tocsin.balancing.model.migration import Migration
from tocsin.balancing.regroup_gate import Wish


class Reason(Enum):
    ACCEPTED = "accepted"
    ELSEWHERE = "the subscriber is not at the source"
    SAME = "source and target are the same"
    UNKNOWN = "there is no such broker"
    GONE = "the target is gone"
    DRAINING = "the target is being drained"
    FULL = "the target says that it is full"
    CROWDED = "the target has as many subscribers as it takes"
    PENDING = "the subscriber is on its way already"
    COOLING = "the subscriber was moved not long ago"
    MOVES = "as many moves are pending as may be"
    SOURCE = "as many moves from the source are pending as may be"
    TARGET = "as many moves to the target are pending as may be"
    RAISES = "the target would be above the highest load of now"
    WORTHLESS = "it gains too little"
    DONE = "the subscriber has arrived"
    FAILED = "the move failed"
    POINTLESS = "the load has changed and the move is pointless"


@dataclass(frozen=True)
class Limits:
    """``least_gain`` is a share of a mean subscriber's load: what a move takes off the higher of its two brokers."""

    moves: int = 1_000
    per_broker: int = 100
    cool_down: float = 60.0
    least_gain: float = 0.0


@dataclass(frozen=True)
class Decision:
    time: float
    move: Migration
    reason: Reason
    before: float  # the highest relative load before it, pending moves counted
    after: float

    @property
    def accepted(self) -> bool:
        return self.reason is Reason.ACCEPTED


@dataclass
class Plan:
    """``moves`` are to begin now, ``dropped`` ones are to be called off; ``wish``: what the strategy has in mind."""

    moves: list[Migration] = field(default_factory=list)
    dropped: list[Migration] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    wish: Wish | None = None
