"""Everything that a plan depends on, as a copy: the plan can be made in another process, and later."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.balancing.central_guards import CentralGuard
from tocsin.balancing.model.load import Load
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.strategies.strategy import Strategy


@dataclass(frozen=True)
class PlanRequest:
    """``load`` is a snapshot that the planner may change. ``ended``: when each subscriber last migrated."""

    load: Load
    strategy: Strategy
    guards: list[CentralGuard]
    pending: dict[int, Migration]
    ended: dict[int, float]
    now: float
