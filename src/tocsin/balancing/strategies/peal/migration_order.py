"""Orders the migrations of a finished plan, so that every prefix is a good plan too."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import WhatIf

ROUNDING = 1 + 1e-12


def in_order(view: WhatIf, migrations: Sequence[Migration]) -> Iterator[Migration]:
    """Always one from the broker that is then the most loaded, greatest gain first, and none above the present maximum.

    So room is made before it is needed, and the maximum falls from the first migration on. Migrations that never find
    room are left out: the next plan will see the load of then. The view follows.
    """
    if not migrations:
        return
    ceiling = view.loads.maximum * ROUNDING
    capacity, limit = view.capacity.tolist(), view.max_subscribers.tolist()
    queues: dict[tuple[int, int], list[Migration]] = {}
    for migration in sorted(migrations, key=lambda migration: migration.gain):  # stable; the end of a queue is its head
        queues.setdefault((migration.source, migration.target), []).append(migration)
    # For each source the heads of its queues, greatest gain first, without queues whose target has no room.
    heads: list[list[tuple[float, int]]] = [[] for _ in range(view.m)]
    for (j, i), queue in queues.items():
        heapq.heappush(heads[j], (-queue[-1].gain, i))
    # Sources by load. Each change of a load adds an entry; outdated entries are skipped.
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
        crowded = view.count[target] >= limit[target]
        if crowded or float(view.relative[target]) + view.added_at(u, target) / capacity[target] > ceiling:
            heapq.heappop(heads[j])
            blocked.setdefault(target, []).append(j)
            continue
        yield queue.pop()
        view.migrate(u, target)
        if queue:
            heapq.heapreplace(heads[j], (-queue[-1].gain, target))
        else:
            heapq.heappop(heads[j])
        for source in blocked.pop(j, []):
            heapq.heappush(heads[source], (-queues[source, j][-1].gain, j))
            heapq.heappush(sources, (-float(view.relative[source]), source))
        for changed in (j, target):
            if heads[changed]:
                heapq.heappush(sources, (-float(view.relative[changed]), changed))
