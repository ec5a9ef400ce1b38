"""Everything that a plan depends on, as a copy: the plan can be made in another process, and later."""

from __future__ import annotations

from dataclasses import dataclass, field

from tocsin.balancing.decisions import Limits
from tocsin.balancing.model.load import Load
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.regroup_gate import RegroupGate
from tocsin.balancing.strategies.strategy import Strategy


@dataclass(frozen=True)
class PlanRequest:
    """``load`` is a snapshot that the planner may change. ``cooling``: when each subscriber may migrate again."""

    load: Load
    strategy: Strategy
    limits: Limits
    pending: dict[int, Migration]
    cooling: dict[int, float]
    now: float
    gate: RegroupGate = field(default_factory=RegroupGate)
