"""Algorithm 1 of the DEBS paper and the shuffle of its slides, line by line in plain Python: as printed, and slow.

It is the reference for results (where the printed algorithm defines them) and the peer of the speed benchmark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


class Undefined(Exception):
    """The printed algorithm would never end."""


class Literal:
    """``y[i]``: the BE subscriptions of subscriber i, ``x[i]``: its broker, ``R[k]``: the rates."""

    def __init__(self, y: Sequence[set[int]], x: Sequence[int], R: Sequence[float], m: int) -> None:
        self.y, self.x, self.R, self.m = [set(row) for row in y], list(x), list(R), m
        self.B = range(m)
        self.U = range(len(self.y))
        self.u = [sum(self.R[k] for k in row) for row in self.y]
        self.F = [self.load(j) for j in self.B]

    def held(self, j: int) -> set[int]:
        return {k for i in self.U if self.x[i] == j for k in self.y[i]}

    def load(self, j: int) -> float:
        """Equation 5."""
        n: dict[int, int] = {}
        for i in self.U:
            if self.x[i] == j:
                for k in self.y[i]:
                    n[k] = n.get(k, 0) + 1
        return sum((1 + n[k]) * self.R[k] for k in n)

    def mu(self) -> float:
        return sum(self.F) / self.m

    def cov(self) -> float:
        mu = self.mu()
        return math.sqrt(sum((f - mu) ** 2 for f in self.F) / self.m) / mu if mu else 0.0

    def migrate(self, scheme: str, alpha: float, beta: float) -> list[tuple[int, int, int]]:
        """Lines 5 to 25."""
        M: list[tuple[int, int, int]] = []
        while self.cov() > alpha and self.mu() > beta:
            b = max(self.B, key=lambda j: (self.F[j], -j))
            U_b = [i for i in self.U if self.x[i] == b]
            held = {j: self.held(j) for j in self.B}
            for i in sorted(U_b, key=lambda i: (-self.u[i], i)):
                simTable = {j: sum(self.R[k] for k in self.y[i] & held[j]) for j in self.B}
                if scheme == "LDM":
                    b_ = min(self.B, key=lambda j: (self.F[j], j))
                else:
                    below = [j for j in self.B if self.F[j] < self.mu()]
                    b_ = max(below, key=lambda j: (simTable[j], -self.F[j], -j))
                after = self.F[b_] + 2 * self.u[i] - simTable[b_]
                if after == self.F[b]:
                    raise Undefined
                if after <= self.F[b]:
                    M.append((i, b, b_))
                    break
            else:
                return M
            self.x[i] = b_
            self.F[b], self.F[b_] = self.load(b), self.load(b_)
        return M

    def shuffle(self) -> list[tuple[int, int, int]]:
        """The slides' shuffle; F is updated by adding what the newcomer brings."""
        old, M = list(self.x), []
        left = set(self.U)
        held: list[set[int]] = [set() for _ in self.B]
        self.F = [0.0 for _ in self.B]
        while left:
            i = max(left, key=lambda i: (self.u[i], -i))
            b = min(self.B, key=lambda j: (self.F[j], j))
            left.remove(i)
            self.x[i] = b
            self.F[b] += self.u[i] + sum(self.R[k] for k in self.y[i] - held[b])
            held[b] |= self.y[i]
            if old[i] != b:
                M.append((i, old[i], b))
        return M
