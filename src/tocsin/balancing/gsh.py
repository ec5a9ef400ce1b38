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

from tocsin.balancing.arrays import Ints, Longs
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
            moving = np.flatnonzero(view.at[us] != targets)
            us, targets = us[moving], targets[moving]
            sources = view.at[us]
            order = heaviest_first(view, us, sources, targets)
            view.move_all(us, targets)
            for u, source, target in zip(
                us[order].tolist(), sources[order].tolist(), targets[order].tolist(), strict=True
            ):
                yield Move(u, source, target, why="GSH: placed anew")


def shuffle(view: Trial) -> tuple[Longs, Longs, float] | None:
    """Subscribers heaviest first, their brokers, and the maximum relative load then; None if they do not all fit."""
    open_ = view.status == Status.OPEN
    brokers = np.flatnonzero(open_)
    here = np.flatnonzero((view.at >= 0) & open_[view.at])
    if not len(brokers) or view.most[brokers].sum() < len(here):
        return None
    us = here[np.argsort(-view.u[here], kind="stable")]
    lam = view.lam
    lacks = [np.ones(len(lam), dtype=np.bool_) for _ in range(view.m)]
    missing = [len(lam)] * view.m  # how many each broker lacks; one that holds everything need not be asked again
    load, room, capacity = [0.0] * view.m, view.most.tolist(), view.capacity.tolist()
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
                new = row[lack[row]]
                if len(new):
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


def heaviest_first(view: Trial, us: Longs, sources: Ints, targets: Longs) -> Longs:
    """The order of these moves: always one from the broker that is then the most loaded, its heaviest first.

    While they are ordered only what is delivered is counted: what is fetched hardly changes in a shuffle, and to follow
    it would take longer than the shuffle. ``us`` are the heaviest first.
    """
    queues: list[list[int]] = [[] for _ in range(view.m)]
    for i, j in zip(range(len(us) - 1, -1, -1), sources[::-1].tolist(), strict=True):
        queues[j].append(i)
    capacity, goals = view.capacity.tolist(), targets.tolist()
    weights = view.u[us].tolist()
    relative = view.relative.tolist()
    heap = [(-relative[j], j) for j, queue in enumerate(queues) if queue]
    heapq.heapify(heap)
    order = []
    while heap:
        known, j = heap[0]
        if -relative[j] != known:  # others have come since
            heapq.heapreplace(heap, (-relative[j], j))
            continue
        i = queues[j].pop()
        order.append(i)
        relative[j] -= weights[i] / capacity[j]
        relative[goals[i]] += weights[i] / capacity[goals[i]]
        if queues[j]:
            heapq.heapreplace(heap, (-relative[j], j))
        else:
            heapq.heappop(heap)
    return np.array(order, dtype=np.int64)
