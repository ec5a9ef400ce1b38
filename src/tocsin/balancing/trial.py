"""A what-if copy of the load: strategies play their moves through on it before they suggest them.

It shares rates and subscriptions with the load it came from and copies only what a move changes. F is kept by exact
differences, so a move costs a few microseconds whatever the size of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tocsin.balancing.arrays import Flags, Floats, Longs, summed
from tocsin.balancing.load import NOWHERE, Load, Status
from tocsin.balancing.loads import Loads
from tocsin.balancing.move import Move

#: Rows × brokers looked at in one go; bounds the memory of a large question.
CHUNK = 1 << 21


class Trial:
    """Its owner may move anybody in it. ``distance``: subscriber × broker, what is preferred among equals; optional.

    ``only``: who is going to be looked at and moved, where that is few; nobody else's ``u`` is summed.
    """

    def __init__(self, load: Load, distance: Floats | None = None, only: Longs | None = None) -> None:
        self.rows, self.lam = load.rows, load.lam
        self.capacity, self.most, self.status = load.capacity, load.most, load.status
        self.live: Flags = load.live
        self.distance = distance
        self.n = load.n.copy()
        self.at = load.at.copy()
        self.count = load.count.copy()
        loads = load.loads
        self.I, self.O = loads.I, loads.O
        self.F: Floats = loads.F.copy()
        self.relative: Floats = loads.relative.copy()
        us = np.arange(len(self.rows)) if only is None else only
        self.u: Floats = np.zeros(len(self.rows))
        self.u[us] = self.rows.sums(us, self.lam)

    def fork(self) -> Trial:
        """Another one of the same state."""
        other = object.__new__(Trial)
        other.__dict__.update(self.__dict__)
        for name in ("n", "at", "count", "I", "O", "F", "relative"):
            setattr(other, name, getattr(self, name).copy())
        return other

    def after(self, moves: Iterable[Move]) -> Trial:
        """Another one in which these moves are made."""
        other = self.fork()
        for move in moves:
            other.move(move.subscriber, move.target)
        return other

    @property
    def m(self) -> int:
        return len(self.capacity)

    @property
    def accepts(self) -> Flags:
        """Which brokers take one more subscriber."""
        return np.asarray((self.status == Status.OPEN) & (self.count < self.most), dtype=np.bool_)

    @property
    def loads(self) -> Loads:
        return Loads(self.I.copy(), self.O.copy(), self.capacity, self.live)

    def subscribers(self, j: int) -> Longs:
        return np.flatnonzero(self.at == j)

    def move(self, u: int, target: int) -> None:
        row, source = self.rows[u], int(self.at[u])
        lam = self.lam[row]
        if source != NOWHERE:
            left = self.n[row, source] - 1
            self.n[row, source] = left
            self._changed(source, -float(lam[left == 0].sum()), -float(self.u[u]), -1)
        if target != NOWHERE:
            there = self.n[row, target]
            self.n[row, target] = there + 1
            self._changed(target, float(lam[there == 0].sum()), float(self.u[u]), 1)
        self.at[u] = target

    def _changed(self, j: int, incoming: float, outgoing: float, count: int) -> None:
        self.count[j] += count
        if self.count[j] == 0:
            self.I[j] = self.O[j] = self.F[j] = self.relative[j] = 0.0
            return
        self.I[j] += incoming
        self.O[j] += outgoing
        self.F[j] = self.I[j] + self.O[j]
        self.relative[j] = self.F[j] / self.capacity[j]

    def release(self, u: int) -> float:
        """How much load its broker loses if u leaves: what is delivered to it, and what only it wanted."""
        row = self.rows[u]
        return float(self.u[u] + self.lam[row[self.n[row, self.at[u]] == 1]].sum())

    def similarity(self, u: int) -> Floats:
        """For each broker, the rate of those of u's subscriptions that it holds (the paper's sim_j)."""
        row = self.rows[u]
        return np.asarray(self.lam[row] @ (self.n[row] > 0), dtype=np.float64)

    def added(self, u: int) -> Floats:
        """For each broker, the load that u would bring to it: delivered, and fetched as far as not held yet."""
        return np.asarray(2 * self.u[u] - self.similarity(u), dtype=np.float64)

    def added_at(self, u: int, j: int) -> float:
        """``added`` at one broker."""
        row = self.rows[u]
        return float(self.u[u] + self.lam[row[self.n[row, j] == 0]].sum())

    @property
    def mean(self) -> float:
        """The relative load that every live broker would have if they could share to the last byte."""
        strength = float(self.capacity[self.live].sum())
        return float(self.F[self.live].sum()) / strength if strength else 0.0

    @property
    def bound(self) -> float:
        """The lower bound on the maximum: as ``mean``, if everything was fetched by one broker only."""
        strength = float(self.capacity[self.live].sum())
        fetched = float(self.lam[(self.n[:, self.live] > 0).any(axis=1)].sum())
        return (float(self.O[self.live].sum()) + fetched) / strength if strength else 0.0

    def releases(self, us: Longs) -> Floats:
        """``release`` of many."""
        size, items = self.rows.gather(us)
        owner = np.repeat(np.arange(len(us)), size)
        alone = self.n[items, self.at[us][owner]] == 1
        return self.u[us] + summed(owner, self.lam[items] * alone, len(us))

    def added_to(self, us: Longs, target: int) -> Floats:
        """``added`` of many at one broker."""
        size, items = self.rows.gather(us)
        missing = self.n[items, target] == 0
        return self.u[us] + summed(np.repeat(np.arange(len(us)), size), self.lam[items] * missing, len(us))

    def added_all(self, us: Longs) -> Floats:
        """``added`` of many at every broker: subscribers × brokers."""
        out = np.empty((len(us), self.m))
        # For few subscribers their own rows are fewer than all subscriptions.
        few = 40 * len(us) < len(self.lam)
        missing = np.empty(0) if few else (self.n == 0) * self.lam[:, None]
        step = max(1, CHUNK // (self.m * max(1, int(self.rows.size[us].mean()) if len(us) else 1)))
        for begin in range(0, len(us), step):
            some = us[begin : begin + step]
            size, items = self.rows.gather(some)
            part = np.zeros((len(some), self.m))
            filled = size > 0
            if len(items):
                first = (np.cumsum(size) - size)[filled]
                lacking = (self.n[items] == 0) * self.lam[items, None] if few else missing[items]
                part[filled] = np.add.reduceat(lacking, first, axis=0)
            out[begin : begin + step] = part + self.u[some, None]
        return out
