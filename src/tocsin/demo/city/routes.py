"""The ways through a city: from every crossing to each of a few hubs, all at once; and one way at a time."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from tocsin.demo.city.streets import AVENUE, BRIDGE, LANE, Streets

#: The cost of a metre of each kind of street: people prefer avenues.
EFFORT = {LANE: 1.15, AVENUE: 0.72, BRIDGE: 0.72}


class Routes:
    """``following[h, n]``: the crossing after ``n`` on the way to hub number ``h``."""

    def __init__(self, streets: Streets, hubs: NDArray[np.int64]) -> None:
        self.streets, self.hubs = streets, hubs
        self.cost = _cost(streets)
        here = np.repeat(np.arange(len(streets.points)), np.diff(streets.starts))
        dist = np.full((len(hubs), len(streets.points)), np.inf)
        dist[np.arange(len(hubs)), hubs] = 0.0
        while True:
            over = dist[:, streets.ends] + self.cost
            best = np.minimum(np.minimum.reduceat(over, streets.starts[:-1], axis=1), dist)
            if (best == dist).all():
                break
            dist = best
        self.following = np.zeros(dist.shape, np.int32)
        hub, edge = np.nonzero(dist[:, streets.ends] + self.cost <= dist[:, here] + 1e-9)
        self.following[hub, here[edge]] = streets.ends[edge]
        self.following[np.arange(len(hubs)), hubs] = hubs
        self.longest = self._longest()

    def chains(self, hub: NDArray[np.int64], start: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """(crossings from each start to its hub, how many of them); after the hub, the hub is repeated."""
        rows = np.empty((len(start), self.longest), np.int32)
        rows[:, 0] = start
        for column in range(1, self.longest):
            rows[:, column] = self.following[hub, rows[:, column - 1]]
        return rows, 1 + np.argmax(rows == self.hubs[hub][:, None], axis=1)

    def way(self, start: int, goal: int) -> list[int]:
        """One way from crossing to crossing (A*)."""
        points, streets = self.streets.points, self.streets
        least = min(EFFORT.values())
        ahead = least * np.hypot(*(points - points[goal]).T)
        known, before = {start: 0.0}, {start: start}
        waiting = [(float(ahead[start]), start)]
        while waiting:
            _, here = heapq.heappop(waiting)
            if here == goal:
                break
            for place in range(streets.starts[here], streets.starts[here + 1]):
                other, cost = int(streets.ends[place]), known[here] + float(self.cost[place])
                if cost < known.get(other, np.inf):
                    known[other], before[other] = cost, here
                    heapq.heappush(waiting, (cost + float(ahead[other]), other))
        found = [goal]
        while found[-1] != start:
            found.append(before[found[-1]])
        return found[::-1]

    def _longest(self) -> int:
        at: NDArray[np.int32] = np.broadcast_to(
            np.arange(self.following.shape[1], dtype=np.int32), self.following.shape
        )
        rows = np.arange(len(self.hubs))[:, None]
        steps = 1
        while (at != self.hubs[:, None]).any():
            at = self.following[rows, at]
            steps += 1
        return steps


def _cost(streets: Streets) -> NDArray[np.float64]:
    """Of every street in both directions, in the order of ``ends``."""
    effort = np.array([EFFORT.get(kind, 1.0) for kind in range(4)])
    both = np.concatenate([streets.edges, streets.edges[:, ::-1]])
    order = np.lexsort((both[:, 1], both[:, 0]))
    kinds = np.concatenate([streets.kinds, streets.kinds])[order]
    found: NDArray[np.float64] = streets.weights * effort[kinds]
    return found
