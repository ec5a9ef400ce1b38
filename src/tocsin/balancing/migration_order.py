"""In which order the moves of a finished plan are made, so that every beginning of it is a good plan too."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import WhatIf

ROUNDING = 1 + 1e-12


def in_order(view: WhatIf, moves: Sequence[Migration]) -> Iterator[Migration]:
    """Always one from the broker that is then the most loaded, its most worthy first, and none above today's maximum.

    So room is made before it is needed, and the maximum falls from the first move on. Moves for which no room is ever
    made are left out: the next plan will see the load as it is then. The view follows.
    """
    if not moves:
        return
    ceiling = view.loads.maximum * ROUNDING
    capacity, most = view.capacity.tolist(), view.most.tolist()
    queues: dict[tuple[int, int], list[Migration]] = {}
    for move in sorted(moves, key=lambda move: move.worth):  # stable; the end of a queue is its head
        queues.setdefault((move.source, move.target), []).append(move)
    # Of each source the heads of its queues, most worthy first; a queue whose target has no room is not among them.
    heads: list[list[tuple[float, int]]] = [[] for _ in range(view.m)]
    for (j, i), queue in queues.items():
        heapq.heappush(heads[j], (-queue[-1].worth, i))
    # Sources by load. An entry is put in whenever a load changes, and those that are not true any more are skipped.
    sources = [(-float(view.relative[j]), j) for j in range(view.m) if heads[j]]
    heapq.heapify(sources)
    blocked: dict[int, list[int]] = {}  # the sources that wait for room at a broker
    while sources:
        known, j = sources[0]
        if not heads[j] or -known != view.relative[j]:
            heapq.heappop(sources)
            continue
        target = heads[j][0][1]
        queue = queues[j, target]
        u = queue[-1].subscriber
        crowded = view.count[target] >= most[target]
        if crowded or float(view.relative[target]) + view.added_at(u, target) / capacity[target] > ceiling:
            heapq.heappop(heads[j])
            blocked.setdefault(target, []).append(j)
            continue
        yield queue.pop()
        view.move(u, target)
        if queue:
            heapq.heapreplace(heads[j], (-queue[-1].worth, target))
        else:
            heapq.heappop(heads[j])
        for source in blocked.pop(j, []):
            heapq.heappush(heads[source], (-queues[source, j][-1].worth, j))
            heapq.heappush(sources, (-float(view.relative[source]), source))
        for changed in (j, target):
            if heads[changed]:
                heapq.heappush(sources, (-float(view.relative[changed]), changed))
