"""In which order the moves of a finished plan are made, so that every beginning of it is a good plan too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tocsin.balancing.move import Move
from tocsin.balancing.trial import Trial

ROUNDING = 1 + 1e-12


def in_order(view: Trial, moves: Sequence[Move]) -> Iterator[Move]:
    """Always one from the broker that is then the most loaded, its most worthy first, and none above today's maximum.

    So room is made before it is needed, and the maximum falls from the first move on. Moves for which no room is ever
    made are left out: the next plan will see the load as it is then. The view follows.
    """
    if not moves:
        return
    ceiling = view.loads.maximum * ROUNDING
    m = view.m
    queues: dict[tuple[int, int], list[Move]] = {}
    for move in sorted(moves, key=lambda move: move.worth):  # stable; the end of a queue is its head
        queues.setdefault((move.source, move.target), []).append(move)
    head = np.full((m, m), -np.inf)  # the worth of the next one from j to i; -inf: none, or none that has room
    for (j, i), queue in queues.items():
        head[j, i] = queue[-1].worth
    best = head.max(axis=1)
    blocked: dict[int, list[int]] = {}  # the sources that wait for room at a broker
    while np.isfinite(best).any():
        j = int(np.argmax(np.where(np.isfinite(best), view.relative, -np.inf)))
        target = int(np.argmax(head[j]))
        queue = queues[j, target]
        u = queue[-1].subscriber
        crowded = view.count[target] >= view.most[target]
        if crowded or view.relative[target] + view.added_at(u, target) / view.capacity[target] > ceiling:
            head[j, target] = -np.inf
            best[j] = head[j].max()
            blocked.setdefault(target, []).append(j)
            continue
        yield queue.pop()
        view.move(u, target)
        head[j, target] = queue[-1].worth if queue else -np.inf
        best[j] = head[j].max()
        for source in blocked.pop(j, []):
            head[source, j] = queues[source, j][-1].worth
            best[source] = head[source].max()
