"""Equations 1 to 8 of the DEBS paper, transcribed: slow, and plainly right."""

from __future__ import annotations

import math


class Formulas:
    """``x[i]`` is the broker of subscriber i or None, ``y[i]`` the set of its BE subscriptions."""

    def __init__(self) -> None:
        self.x: dict[int, int | None] = {}
        self.y: dict[int, set[int]] = {}
        self.lam: dict[int, float] = {}
        self.capacity: dict[int, float] = {}
        self.live: set[int] = set()

    def z(self, j: int, k: int) -> int:
        product = 1
        for i in self.x:
            product *= 1 - (self.x[i] == j) * (k in self.y[i])
        return 1 - product

    def n(self, j: int, k: int) -> int:
        return sum((self.x[i] == j) * (k in self.y[i]) for i in self.x)

    def I(self, j: int) -> float:  # noqa: E743
        return sum(self.z(j, k) * self.lam.get(k, 0.0) for k in self.subscriptions())

    def O(self, j: int) -> float:  # noqa: E743
        return sum(self.n(j, k) * self.lam.get(k, 0.0) for k in self.subscriptions())

    def F(self, j: int) -> float:
        return sum(self.z(j, k) * (1 + self.n(j, k)) * self.lam.get(k, 0.0) for k in self.subscriptions())

    def subscriptions(self) -> list[int]:
        return sorted(set().union(*self.y.values()))

    def relative(self) -> list[float]:
        return [self.F(j) / self.capacity[j] for j in sorted(self.live)]

    def mu(self) -> float:
        return sum(self.relative()) / len(self.live) if self.live else 0.0

    def sigma(self) -> float:
        mu = self.mu()
        return math.sqrt(sum((f - mu) ** 2 for f in self.relative()) / len(self.live)) if self.live else 0.0

    def cov(self) -> float:
        return self.sigma() / self.mu() if self.mu() else 0.0

    def lower_bound(self) -> float:
        held = {k for i in self.x if self.x[i] is not None for k in self.y[i]}
        total = sum(self.O(j) for j in self.capacity) + sum(self.lam.get(k, 0.0) for k in held)
        strength = sum(self.capacity[j] for j in self.live)
        return total / strength if strength else 0.0
