"""Finds BE subscriptions that the same subscribers have, and hence groups of subscribers.

Subscriptions are merged pair by pair: each chooses the partner with which it shares most subscribers, two that choose
each other become one, and the result is merged again. Two are merged only if they share more subscribers than expected
at random (modularity), and only up to a size that fits a broker. Each round is a few sorts, and the number of rounds is
about the logarithm of the number of subscriptions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tocsin.balancing.model.arrays import Floats, Longs, summed
from tocsin.balancing.model.what_if import WhatIf

#: Size of the sample of subscribers: this many for each subscription, within limits.
SAMPLE, FEWEST, MOST = 4, 2_000, 20_000
#: Subscriptions examined of each of them: pairs grow with the square.
WIDTH = 16
#: Pairs beyond which those seen only once are left out.
MANY = 50_000
#: Subscribers × groups processed at once.
CELLS = 1 << 20
#: Below this share of the required cohesion the sample decides.
CLEARLY = 0.8
#: Rounds after which nothing is left to merge.
ROUNDS = 40


@dataclass(frozen=True)
class Groups:
    """``of_subscription[k]`` and ``of_subscriber[u]`` are numbers below ``count``; -1 for no group."""

    of_subscription: Longs
    of_subscriber: Longs
    count: int
    cohesion: float  # the share of all deliveries that go to subscribers of the subscription's own group


def find_groups(view: WhatIf, largest: float, least: float) -> Groups | None:
    """None if the cohesion is below ``least``. ``largest``: the largest share of all deliveries in one group."""
    here = np.flatnonzero((view.at >= 0) & (view.rows.size > 0))
    sample = sampled(view, here)
    label = merged(*together(view, sample), weights(view), largest)
    _, label = np.unique(label, return_inverse=True)
    # A sample is enough to see that there are no groups.
    if cohesion(view, sample, belonging(view, sample, label)[1]) < least * CLEARLY:
        return None
    own, inside = belonging(view, here, label)
    of_subscriber = np.full(len(view.at), -1, dtype=np.int64)
    of_subscriber[here] = own
    found = cohesion(view, here, inside)
    return Groups(label, of_subscriber, int(label.max(initial=-1)) + 1, found) if found >= least else None


def cohesion(view: WhatIf, us: Longs, inside: float) -> float:
    total = float(view.u[us].sum())
    return inside / total if total else 0.0


def sampled(view: WhatIf, here: Longs) -> Longs:
    size = min(max(SAMPLE * len(view.lam), FEWEST), MOST)
    return here[:: max(1, -(-len(here) // size))]


def weights(view: WhatIf) -> Floats:
    """What each subscription contributes to the deliveries."""
    return np.asarray(view.n.sum(axis=1) * view.lam, dtype=np.float64)


def together(view: WhatIf, sample: Longs) -> tuple[Longs, Longs, Floats]:
    """Pairs of subscriptions a < b and how many of the sample have both."""
    size, items = view.rows.gather(sample)
    # The choice among a long row must not depend on its order.
    rank = np.concatenate([np.arange(n) for n in size.tolist()]) if len(items) else np.empty(0, dtype=np.int64)
    width = np.repeat(size, size)
    keep = (rank * WIDTH // np.maximum(width, 1)) != ((rank - 1) * WIDTH // np.maximum(width, 1))
    keep |= width <= WIDTH
    table = np.full((len(sample), WIDTH), -1, dtype=np.int64)
    owner = np.repeat(np.arange(len(sample)), size)[keep]
    first = np.searchsorted(owner, np.arange(len(sample)))
    table[owner, np.arange(len(owner)) - first[owner]] = items[keep]
    q = len(view.lam)
    keys = []
    for i in range(WIDTH):
        for j in range(i + 1, WIDTH):
            both = table[:, j] >= 0
            a, b = table[both, i], table[both, j]
            keys.append(np.minimum(a, b) * q + np.maximum(a, b))
    pairs, count = np.unique(np.concatenate(keys), return_counts=True)
    if len(pairs) > MANY:
        # Pairs seen only once are random, and most of all pairs where there are no groups.
        pairs, count = pairs[count > 1], count[count > 1]
    return pairs // q, pairs % q, count.astype(np.float64)


def merged(a: Longs, b: Longs, weight: Floats, mass: Floats, largest: float) -> Longs:
    """The group of each subscription, as the number of one of its members."""
    q = len(mass)
    label = np.arange(q)
    limit = largest * float(mass.sum())
    mass = mass.copy()
    degree = summed(a, weight, q) + summed(b, weight, q)
    total = max(float(degree.sum()), 1.0)
    for _ in range(ROUNDS):
        expected = degree[a] * degree[b] / total
        good = (weight > expected) & (mass[a] + mass[b] <= limit)
        if not good.any():
            break
        x, y = np.concatenate([a[good], b[good]]), np.concatenate([b[good], a[good]])
        closeness = np.tile(weight[good] / np.sqrt(degree[a[good]] * degree[b[good]]), 2)
        order = np.lexsort((y, -closeness, x))
        x, y = x[order], y[order]
        first = np.flatnonzero(np.diff(x, prepend=-1))
        choice = np.full(q, -1)
        choice[x[first]] = y[first]
        chosen = np.flatnonzero(choice >= 0)
        mutual = chosen[(choice[choice[chosen]] == chosen) & (chosen < choice[chosen])]
        into = np.arange(q)
        into[choice[mutual]] = mutual
        mass[mutual] += mass[choice[mutual]]
        degree[mutual] += degree[choice[mutual]]
        degree[choice[mutual]] = 0.0
        label = into[label]
        a, b, weight = combined(into[a], into[b], weight, q)
    return label


def combined(a: Longs, b: Longs, weight: Floats, q: int) -> tuple[Longs, Longs, Floats]:
    """The pairs after merging, each once, without pairs of one with itself."""
    apart = a != b
    low, high = np.minimum(a, b)[apart], np.maximum(a, b)[apart]
    pairs, place = np.unique(low * q + high, return_inverse=True)
    return pairs // q, pairs % q, summed(place, weight[apart], len(pairs))


def belonging(view: WhatIf, us: Longs, label: Longs) -> tuple[Longs, float]:
    """The group of each of these, to which most of its load belongs; and the total of that load."""
    out, count, inside = np.empty(len(us), dtype=np.int64), int(label.max(initial=-1)) + 1, 0.0
    step = max(1, CELLS // max(count, 1))
    for begin in range(0, len(us), step):
        some = us[begin : begin + step]
        size, items = view.rows.gather(some)
        cells = np.repeat(np.arange(len(some)) * count, size) + label[items]
        load = summed(cells, view.lam[items], len(some) * count).reshape(len(some), count)
        best = load.argmax(axis=1)
        out[begin : begin + step] = best
        inside += float(load[np.arange(len(some)), best].sum())
    return out, inside
