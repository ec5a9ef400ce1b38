"""People and what they want, drawn from a seed: the parts that workloads are made of."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from tocsin.balancing.model.arrays import Floats, Ints, Longs

#: Degrees between two neighbouring brokers.
SPACING = 0.05
#: How far around its broker a crowd is spread, as a share of the spacing.
SPREAD = 0.15
CORNER = (60.1, 24.8)


def grid(count: int) -> Floats:
    """Broker sites on a grid, in latitude and longitude."""
    across = int(np.ceil(np.sqrt(count)))
    places = np.arange(count)
    rows, columns = np.divmod(places, across)
    return np.stack([CORNER[0] + rows * SPACING, CORNER[1] + 2 * columns * SPACING], axis=1)


def around(rng: Generator, sites: Floats, weights: Floats, count: int) -> Floats:
    """Subscribers around these sites, in proportion to the weights."""
    chosen = rng.choice(len(sites), count, p=weights / weights.sum())
    offset = rng.normal(0.0, SPREAD * SPACING, (count, 2)) * (1.0, 2.0)
    return np.asarray(sites[chosen] + offset, dtype=np.float64)


def falling(count: int, last: float) -> Floats:
    """Weights that fall by the same factor from one to the next, in all of them together to ``last``."""
    return np.asarray(last ** (np.arange(count) / count), dtype=np.float64)


def distinct(rng: Generator, size: Longs, backs: int, popularity: Floats | None = None) -> Ints:
    """For each subscriber ``size`` distinct BE subscriptions; by popularity, or equally likely."""
    if int(size.max(initial=0)) > backs:
        raise ValueError(f"a subscriber cannot have {int(size.max())} of {backs} BE subscriptions")
    owner = np.repeat(np.arange(len(size), dtype=np.int64), size)
    edges = None if popularity is None else np.cumsum(popularity / popularity.sum())

    def draw(count: int) -> Longs:
        if edges is None:
            return rng.integers(0, backs, count)
        return np.minimum(np.searchsorted(edges, rng.random(count), side="right"), backs - 1).astype(np.int64)

    wanted = draw(len(owner))
    while True:
        cells = owner * backs + wanted
        order = np.argsort(cells, kind="stable")
        again = order[1:][cells[order[1:]] == cells[order[:-1]]]
        if not len(again):
            return wanted.astype(np.int32)
        wanted[again] = draw(len(again))


def within(rng: Generator, owner: Longs, count: int, begin: float, end: float) -> Floats:
    """A time for each of these, in the order of time for each owner."""
    times = rng.uniform(begin, end, len(owner))
    return times[np.lexsort((times, owner))] if count else times
