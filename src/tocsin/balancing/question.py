"""All that a plan depends on, apart from everything that goes on: it can be answered elsewhere, and later."""

from __future__ import annotations

from dataclasses import dataclass, field

from tocsin.balancing.arrays import Floats
from tocsin.balancing.decisions import Limits
from tocsin.balancing.load import Load
from tocsin.balancing.move import Move
from tocsin.balancing.patience import Patience
from tocsin.balancing.strategy import Strategy


@dataclass(frozen=True)
class Question:
    """``load`` is a snapshot that belongs to whoever answers. ``rested``: when each subscriber may be moved again."""

    load: Load
    strategy: Strategy
    limits: Limits
    pending: dict[int, Move]
    rested: dict[int, float]
    now: float
    distance: Floats | None = None
    patience: Patience = field(default_factory=Patience)
