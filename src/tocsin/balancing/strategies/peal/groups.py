"""Which BE subscriptions are wanted together, and hence which subscribers belong together.

Subscriptions that the same people have are merged pair by pair: each looks for the partner it shares most people with,
two who choose each other become one, and this is repeated with what has come out. Two are merged only if they share
more people than chance would give them (modularity), and only up to a size that fits a broker. Each round is a few
sorts, and there are about as many rounds as the number of subscriptions has binary digits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tocsin.balancing.model.arrays import Floats, Longs, summed
from tocsin.balancing.model.what_if import WhatIf

#: People asked for what they want together: this many for each subscription, within limits.
SAMPLE, FEWEST, MOST = 4, 2_000, 20_000
#: Subscriptions looked at of each of them: pairs grow with the square.
WIDTH = 16
#: Pairs beyond which those seen only once are left out.
MANY = 50_000
#: Subscribers × groups looked at in one go.
CELLS = 1 << 20
#: The share of what is asked for below which a sample decides.
CLEARLY = 0.8
#: Rounds after which nothing is left to merge.
ROUNDS = 40


@dataclass(frozen=True)
class Groups:
    """``of_subscription[k]`` and ``of_subscriber[u]`` are numbers below ``count``; -1 for nobody's and nothing's."""

    of_subscription: Longs
    of_subscriber: Longs
    count: int
    cohesion: float  # the share of all that is delivered that goes to people of the subscription's own group


def find_groups(view: WhatIf, largest: float, least: float) -> Groups | None:
    """``largest``: the most that one group may have of all that is delivered, as a share. None: below ``least``."""
    here = np.flatnonzero((view.at >= 0) & (view.rows.size > 0))
    sample = sampled(view, here)
    label = merged(*together(view, sample), weights(view), largest)
    _, label = np.unique(label, return_inverse=True)
    # Where there are no groups a part of the people shows it.
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
    wanted = min(max(SAMPLE * len(view.lam), FEWEST), MOST)
    return here[:: max(1, -(-len(here) // wanted))]


def weights(view: WhatIf) -> Floats:
    """What each subscription contributes to what is delivered."""
    return np.asarray(view.n.sum(axis=1) * view.lam, dtype=np.float64)


def together(view: WhatIf, sample: Longs) -> tuple[Longs, Longs, Floats]:
    """Pairs of subscriptions a < b and how many of the sample have both."""
    size, items = view.rows.gather(sample)
    # Which ones are left out of a long row must not depend on their order in it.
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
        # What was seen together once only is chance, and most of the pairs where there are no groups.
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
        chance = degree[a] * degree[b] / total
        good = (weight > chance) & (mass[a] + mass[b] <= limit)
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
    """The pairs of the merged, each once, none of one with itself."""
    apart = a != b
    low, high = np.minimum(a, b)[apart], np.maximum(a, b)[apart]
    pairs, place = np.unique(low * q + high, return_inverse=True)
    return pairs // q, pairs % q, summed(place, weight[apart], len(pairs))


def belonging(view: WhatIf, us: Longs, label: Longs) -> tuple[Longs, float]:
    """The group of each of these, the one that most of its load belongs to; and how much load that is in all."""
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
