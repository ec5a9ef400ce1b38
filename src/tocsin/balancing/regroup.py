"""Peal's second gear: bring people with the same interests together, so that fewer brokers fetch the same.

All subscribers of one group at one broker are a cell. When the last of a cell has left, the broker stops fetching what
only they wanted: that is what emptying the cell is worth, and it costs a move for each of them. So the cells are
emptied in the order of worth per move (small cells of large groups first), into the brokers that have most of the group
and have room, and it ends when what is left to gain is not worth its moves.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np

from tocsin.balancing.arrays import Floats, Longs, summed
from tocsin.balancing.groups import Groups
from tocsin.balancing.load import Status
from tocsin.balancing.move import Move
from tocsin.balancing.trial import Trial

REGROUP = "peal: joins its group"


class Cells:
    """How many subscribers, and how much load, each group has at each broker."""

    def __init__(self, view: Trial, groups: Groups) -> None:
        self.view, self.groups = view, groups
        here = np.flatnonzero(groups.of_subscriber >= 0)
        m = view.m
        self._keys = groups.of_subscriber[here] * m + view.at[here]
        order = np.argsort(self._keys, kind="stable")
        self._order, self._keys = here[order], self._keys[order]
        self.load: Floats = summed(self._keys, view.u[self._order], groups.count * m).reshape(-1, m)
        self._members: dict[tuple[int, int], Longs] = {}

    def members(self, c: int, j: int) -> Longs:
        if (c, j) not in self._members:
            low, high = np.searchsorted(self._keys, [c * self.view.m + j, c * self.view.m + j + 1])
            self._members[c, j] = self._order[low:high]
        return self._members[c, j]

    def moved(self, c: int, source: int, target: int, us: Longs, left: Longs) -> None:
        """``us`` have gone, ``left`` are left."""
        self._members[c, target] = np.concatenate([self.members(c, target), us])
        self._members[c, source] = left
        weight = float(self.view.u[us].sum())
        self.load[c, target] += weight
        self.load[c, source] = self.load[c, source] - weight if len(left) else 0.0

    def filled(self) -> list[tuple[int, int]]:
        return [(int(c), int(j)) for c, j in zip(*np.nonzero(self.load), strict=True)]

    def wanted(self, c: int, j: int) -> tuple[Longs, Longs]:
        """What the members of a cell want, and how many of them."""
        _, items = self.view.rows.gather(self.members(c, j))
        return np.unique(items, return_counts=True)


def regroup(view: Trial, cells: Cells, *, price: float, enough: float, room: float) -> Iterator[Move]:
    """Empties cells until the mean relative load is at most ``enough`` or no cell is worth its moves.

    ``price``: the load that a single move has to save. ``room``: how far above the mean a broker may be filled.
    """
    heap = [(-worth(view, cells, c, j), c, j) for c, j in cells.filled() if view.live[j]]
    heapq.heapify(heap)
    waiting: list[tuple[float, int, int]] = []
    while heap and (mean := view.mean) > enough:
        known, c, j = heapq.heappop(heap)
        now = -worth(view, cells, c, j)
        if now > -price:
            continue
        if now > known and heap and now > heap[0][0]:
            heapq.heappush(heap, (now, c, j))
            continue
        parts = homes(view, cells, c, j, mean * (1 + room), -now * len(cells.members(c, j)))
        if not parts:
            waiting.append((now, c, j))
            continue
        yield from emptied(view, cells, c, j, parts, -now)
        # Whoever waited for room finds some at the broker that was left.
        for entry in waiting:
            heapq.heappush(heap, entry)
        waiting.clear()


def unload(view: Trial, cells: Cells, target: float) -> Iterator[Move]:
    """Brokers above the target give away whole cells, to brokers that have more of the group and stay below it."""
    for b in np.argsort(-view.relative, kind="stable").tolist():
        if not view.live[b]:
            continue
        mine = sorted(((worth(view, cells, c, j), c) for c, j in cells.filled() if j == b), reverse=True)
        for saved, c in mine:
            excess = (float(view.relative[b]) - target) * float(view.capacity[b])
            if excess < cells.load[c, b]:
                continue
            parts = homes(view, cells, c, b, target, float("inf"))
            if parts:
                yield from emptied(view, cells, c, b, parts, saved)


def emptied(view: Trial, cells: Cells, c: int, j: int, parts: list[tuple[int, Longs]], saved: float) -> Iterator[Move]:
    for target, us in parts:
        left = cells.members(c, j)
        left = left[~np.isin(left, us)]
        for u in us.tolist():
            view.move(u, target)
            yield Move(u, j, target, saved, why=REGROUP)
        cells.moved(c, j, target, us, left)


def worth(view: Trial, cells: Cells, c: int, j: int) -> float:
    """The load that emptying the cell saves at its broker, per move."""
    members = cells.members(c, j)
    if not len(members):
        return 0.0
    items, count = cells.wanted(c, j)
    return float(view.lam[items[view.n[items, j] == count]].sum()) / len(members)


def homes(view: Trial, cells: Cells, c: int, j: int, limit: float, gain: float) -> list[tuple[int, Longs]]:
    """Where the members of a cell go: to the brokers with most of the group, as far as there is room below ``limit``.

    Nothing if they do not all fit, or if they would make the others fetch more than they save here.
    """
    members = cells.members(c, j)
    items, _ = cells.wanted(c, j)
    missing = view.lam[items] @ (view.n[items] == 0)
    room = limit * view.capacity - view.F - missing
    fits = (view.status == Status.OPEN) & (cells.load[c] > 0) & (room > 0) & (view.count < view.most)
    fits[j] = False
    parts, begin, cost = [], 0, 0.0
    weights = np.cumsum(view.u[members])
    for target in sorted(np.flatnonzero(fits).tolist(), key=lambda i: (-cells.load[c, i], i)):
        taken = float(weights[begin - 1]) if begin else 0.0
        end = int(np.searchsorted(weights, taken + room[target], side="right"))
        end = min(end, begin + int(view.most[target] - view.count[target]))
        if end > begin:
            cost += float(missing[target])
            parts.append((target, members[begin:end]))
            begin = end
        if begin == len(members):
            return parts if cost < gain else []
    return []
