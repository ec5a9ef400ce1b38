"""The load of all brokers at one moment, and the measures derived from it (equations 1 and 4 to 8 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tocsin.balancing.model.arrays import Flags, Floats


@dataclass(frozen=True)
class Loads:
    """``live`` brokers are those that serve and stay; only they count in μ, σ, cov and the maximum.

    With unequal brokers the paper's F_j becomes F_j / capacity_j everywhere: with capacities of 1 it is the paper's.
    """

    I: Floats  # noqa: E741
    O: Floats  # noqa: E741
    capacity: Floats
    live: Flags

    @cached_property
    def F(self) -> Floats:
        return self.I + self.O

    @cached_property
    def relative(self) -> Floats:
        return self.F / self.capacity

    @cached_property
    def mu(self) -> float:
        return float(self.relative[self.live].mean()) if self.live.any() else 0.0

    @cached_property
    def sigma(self) -> float:
        return float(self.relative[self.live].std()) if self.live.any() else 0.0

    @cached_property
    def cov(self) -> float:
        return self.sigma / self.mu if self.mu else 0.0

    @cached_property
    def maximum(self) -> float:
        return float(np.max(self.relative[self.live], initial=0.0))


def figure(value: float) -> str:
    """For people: bytes a second, or a ratio."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
