"""GSH, the greedy shuffle (DEBS 2019): everybody is placed anew, heaviest first, each at the least loaded broker.

What the paper leaves open, and what we do:

- The shuffle starts from empty brokers, so nothing keeps its result below the present maximum. If it is not below, no
  move is suggested: a plan must never raise the maximum.
- It says nothing of the order of the moves. Those that leave the most loaded broker of the moment come first, so that
  room is made before it is needed and a plan that is cut short has done something.
- Brokers that are full, draining or gone keep who they have; the others are shuffled among the others. A broker's limit
  of subscribers holds. Loads are relative to capacity.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tocsin.balancing.arrays import Longs
from tocsin.balancing.load import Status
from tocsin.balancing.move import Move
from tocsin.balancing.strategy import MinMax
from tocsin.balancing.trial import Trial

#: Below this share of the present maximum a shuffle counts as better; rounding alone does not.
BETTER = 1 - 1e-9


@dataclass
class GSH(MinMax):
    """``gamma`` bounds cov, ``theta`` is the mean load below which imbalance does no harm."""

    gamma: float = 0.5
    theta: float = 0.0

    def suggest(self, view: Trial) -> Iterator[Move]:
        yield from self.play(view)

    def play(self, view: Trial) -> Iterator[Move]:
        loads = view.loads
        if not (loads.cov > self.gamma and loads.mu > self.theta):
            return
        shuffled = shuffle(view)
        if shuffled is None:
            return
        us, targets, maximum = shuffled
        if maximum < loads.maximum * BETTER:
            for u, target in heaviest_first(view, us, targets):
                source = int(view.at[u])
                view.move(u, target)
                yield Move(u, source, target, why="GSH: placed anew")


def shuffle(view: Trial) -> tuple[Longs, Longs, float] | None:
    """Subscribers heaviest first, their brokers, and the maximum relative load then; None if they do not all fit."""
    open_ = view.status == Status.OPEN
    brokers = np.flatnonzero(open_)
    here = np.flatnonzero((view.at >= 0) & open_[view.at])
    if not len(brokers) or view.most[brokers].sum() < len(here):
        return None
    us = here[np.argsort(-view.u[here], kind="stable")]
    size, items = view.rows.gather(us)
    ends = np.cumsum(size).tolist()
    weights, lam = view.u[us].tolist(), view.lam
    absent = np.ones((view.m, len(lam)), dtype=np.bool_)
    lacks = [absent[j] for j in range(view.m)]
    load, room, capacity = [0.0] * view.m, view.most.tolist(), view.capacity.tolist()
    heap = [(0.0, j) for j in brokers.tolist()]  # sorted, hence a heap
    targets = []
    begin = 0
    for end, weight in zip(ends, weights, strict=True):
        while room[heap[0][1]] <= 0:
            heapq.heappop(heap)
        j = heap[0][1]
        row, lack = items[begin:end], lacks[j]
        new = row[lack[row]]
        if len(new):
            lack[new] = False
            weight += float(lam[new].sum())
        load[j] += weight
        room[j] -= 1
        heapq.heapreplace(heap, (load[j] / capacity[j], j))
        targets.append(j)
        begin = end
    staying = np.flatnonzero(view.live & ~open_)
    highest = max([load[j] / capacity[j] for j in brokers.tolist()] + view.relative[staying].tolist())
    return us, np.array(targets, dtype=np.int64), highest


def heaviest_first(view: Trial, us: Longs, targets: Longs) -> Iterator[tuple[int, int]]:
    """Those who have to move, always one from the broker that is then the most loaded, its heaviest first."""
    moving = np.flatnonzero(view.at[us] != targets)
    queues: dict[int, list[int]] = {}
    for i in moving[::-1].tolist():
        queues.setdefault(int(view.at[us[i]]), []).append(i)
    heap = [(-float(view.relative[j]), j) for j in sorted(queues)]
    heapq.heapify(heap)
    while heap:
        known, j = heapq.heappop(heap)
        now = -float(view.relative[j])
        if now != known:  # the one who asks moves in the view between two of ours
            heapq.heappush(heap, (now, j))
            continue
        i = queues[j].pop()
        yield int(us[i]), int(targets[i])
        if queues[j]:
            heapq.heappush(heap, (-float(view.relative[j]), j))
