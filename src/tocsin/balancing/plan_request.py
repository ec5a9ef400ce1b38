"""All that a plan depends on, apart from everything that goes on: it can be answered elsewhere, and later."""

from __future__ import annotations

from dataclasses import dataclass, field

from tocsin.balancing.decisions import Limits
from tocsin.balancing.model.arrays import Floats
from tocsin.balancing.model.load import Load
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.regroup_gate import RegroupGate
from tocsin.balancing.strategies.strategy import Strategy


@dataclass(frozen=True)
class PlanRequest:
    """``load`` is a snapshot that belongs to whoever answers. ``rested``: when each subscriber may be moved again."""

    load: Load
    strategy: Strategy
    limits: Limits
    pending: dict[int, Migration]
    rested: dict[int, float]
    now: float
    distance: Floats | None = None
    patience: RegroupGate = field(default_factory=RegroupGate)
