"""GSH, the greedy shuffle (DEBS 2019): places all subscribers again, heaviest first, each at the least loaded broker.

What the paper leaves open, and what we do:

- The shuffle starts from empty brokers, so nothing keeps its result below the present maximum. If it is not below, no
  migration is suggested: a plan must never raise the maximum.
- It says nothing about the order of the migrations. The next one always leaves the broker with the most load left, so
  that room is made before it is needed and a plan that is cut short has an effect.
- Brokers that are full, draining or gone keep their subscribers; the other brokers share theirs. A broker's maximum of
  subscribers holds. Loads are relative to capacity.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from tocsin.balancing.model.arrays import Ints, Longs
from tocsin.balancing.model.load import Status
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies.strategy import MinMax

REASON = "GSH: placed again"
#: Below this share of the present maximum a shuffle counts as better; rounding alone does not.
BETTER = 1 - 1e-9


@dataclass
class GSH(MinMax):
    """``gamma`` bounds cov, ``theta`` is the mean load below which imbalance does no harm."""

    gamma: float = 0.5
    theta: float = 0.0

    def suggest(self, view: WhatIf) -> Iterator[Migration]:
        yield from self.play(view)

    def play(self, view: WhatIf) -> Iterator[Migration]:
        loads = view.loads
        if not (loads.cov > self.gamma and loads.mu > self.theta):
            return
        shuffled = shuffle(view)
        if shuffled is None:
            return
        us, targets, maximum = shuffled
        if maximum < loads.maximum * BETTER:
            leaving = np.flatnonzero(view.at[us] != targets)
            us, targets = us[leaving], targets[leaving]
            sources = view.at[us]
            order = fullest_first(view, us, sources)
            view.migrate_all(us, targets)
            columns = (each[order].tolist() for each in (us, sources, targets))
            yield from map(Migration._make, zip(*columns, repeat(0.0), repeat(False), repeat(REASON), strict=False))


def shuffle(view: WhatIf) -> tuple[Longs, Longs, float] | None:
    """Subscribers heaviest first, their brokers, and the maximum relative load then; None if they do not all fit."""
    open_ = view.status == Status.OPEN
    brokers = np.flatnonzero(open_)
    here = np.flatnonzero((view.at >= 0) & open_[view.at])
    if not len(brokers) or view.max_subscribers[brokers].sum() < len(here):
        return None
    us = here[np.argsort(-view.u[here], kind="stable")]
    lam = view.lam
    lacks = [np.ones(len(lam), dtype=np.bool_) for _ in range(view.m)]
    missing = [len(lam)] * view.m  # how many each broker lacks; 0 needs no further check
    load, room, capacity = [0.0] * view.m, view.max_subscribers.tolist(), view.capacity.tolist()
    heap = [(0.0, j) for j in brokers.tolist()]  # sorted, hence a heap
    targets: list[int] = []
    for _, some in view.rows.parts(us):
        size, items = view.rows.gather(some)
        begin = 0
        for end, weight in zip(np.cumsum(size).tolist(), view.u[some].tolist(), strict=True):
            while room[heap[0][1]] <= 0:
                heapq.heappop(heap)
            j = heap[0][1]
            if missing[j]:
                row, lack = items[begin:end], lacks[j]
                lacking = lack.take(row)
                if np.count_nonzero(lacking):
                    new = row[lacking]
                    lack[new] = False
                    missing[j] -= len(new)
                    weight += float(lam[new].sum())
            load[j] += weight
            room[j] -= 1
            heapq.heapreplace(heap, (load[j] / capacity[j], j))
            targets.append(j)
            begin = end
    staying = np.flatnonzero(view.live & ~open_)
    highest = max([load[j] / capacity[j] for j in brokers.tolist()] + view.relative[staying].tolist())
    return us, np.array(targets, dtype=np.int64), highest


def fullest_first(view: WhatIf, us: Longs, sources: Ints) -> Longs:
    """The order of these migrations: always one from the broker with most of its original load left, heaviest first.

    Arriving subscribers are not counted: a shuffle sends them to all brokers alike, so the maximum falls all the same,
    and the load left before each migration is a cumulative sum. ``us`` are sorted, heaviest first.
    """
    order = np.argsort(sources, kind="stable")
    weight, at = view.u[us[order]], sources[order]
    gone = np.cumsum(weight) - weight
    before = gone[np.searchsorted(at, np.arange(view.m))[at]]
    left = view.relative[at] - (gone - before) / view.capacity[at]
    return np.asarray(order[np.argsort(-left, kind="stable")])
