"""Peal's regrouping, fine step: subscribers go where their subscriptions are fetched anyway, while brokers stay even.

A subscriber costs a broker what no other subscriber there needs. Taken literally, that hides good migrations: the first
of five that leave saves nothing. So a subscription that few others have counts in part, λ exp(-n / T), and T falls from
sweep to sweep until the exact cost is left. In each sweep a share of the subscribers compares, all at the same time,
the brokers that hold most of their group; those that gain most go first, as far as there is room. The price of a broker
rises while too many subscribers choose it, and falls otherwise.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tocsin.balancing.model.arrays import Flags, Floats, Ints, Longs, summed
from tocsin.balancing.model.load import Status
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies.peal.groups import Groups

Costs: TypeAlias = NDArray[np.float32]

#: Number of others with the same subscription at which it counts 1/e: in the first and the last sweep.
SOFT, HARD = 2.0, 0.25
#: How far above the mean a broker may be filled: in the first and the last sweep.
LOOSE, TIGHT = 0.05, 0.0005
#: The share of subscribers that choose in one sweep; if all did, all would go to the same brokers.
SHARE = 0.4
#: How fast prices follow demand, as a share of what a subscription costs to its subscriber.
HASTE = 0.5
#: How often the fit is checked again, because subscribers that do not fit do not make room either.
TURNS = 8
#: Brokers that a subscriber compares.
WIDTH = 10
#: Total lookups of a subscription at a broker, and the fewest and most sweeps.
WORK, FEWEST, MOST = 1_000_000_000, 16, 60
#: Counts from which on a subscription costs a single subscriber nothing.
CROWD = 64


def refine(view: WhatIf, groups: Groups, *, home: Longs, price: float) -> None:
    """Migrate in the view. ``price``: what leaving ``home`` has to save."""
    open_ = view.status == Status.OPEN
    us = np.flatnonzero((groups.of_subscriber >= 0) & (view.at >= 0) & open_[view.at] & (view.u > 0))
    if not len(us) or view.m < 2:
        return
    count = int(np.clip(WORK // max(1, int(view.rows.size[us].sum() * min(WIDTH, view.m) * SHARE)), FEWEST, MOST))
    sweeps = Sweeps(view, groups, home, price, float(view.lam.mean() / view.u[us].mean()))
    for number in range(count):
        x = number / (count - 1)
        # A hash instead of random numbers: the same input gives the same plan.
        some = us[(us * 2654435761 + number * 40503 * 65537) % 1000003 % 1000 < 1000 * SHARE]
        if len(some):
            sweeps.sweep(some, SOFT * (HARD / SOFT) ** x, LOOSE * (TIGHT / LOOSE) ** x)


class Sweeps:
    """``unit``: what a subscription costs to its subscriber, as a share of its load."""

    def __init__(self, view: WhatIf, groups: Groups, home: Longs, price: float, unit: float) -> None:
        self.view, self.groups, self.home, self.price, self.unit = view, groups, home, price, unit
        self.prices: Floats = np.zeros(view.m)

    def sweep(self, us: Longs, soft: float, loose: float) -> None:
        """Let these subscribers choose; migrate those that gain and find room."""
        view = self.view
        nearest = candidates(view, self.groups)
        fading = np.exp(-np.arange(CROWD) / soft)
        coming, being = costly(view, fading), costly(view, np.concatenate([[0.0], fading[:-1]]))
        best, gain = np.empty(len(us), dtype=np.int64), np.empty(len(us))
        for part, some in view.rows.parts(us):
            best[part], gain[part] = self._choices(some, nearest, coming, being)
        going = np.flatnonzero((best != view.at[us]) & (gain > 0))
        going = going[np.lexsort((us[going], -gain[going], best[going]))]
        us, best, mean = us[going], best[going], view.mean
        fits = fitting(view, view.at[us], best, view.u[us], mean * (1 + loose) * view.capacity - view.F)
        view.migrate_all(us[fits], best[fits])
        self.prices += np.where(view.live, HASTE * self.unit * (view.relative / mean - 1), 0.0)

    def _choices(self, us: Longs, nearest: Longs, coming: Costs, being: Costs) -> tuple[Longs, Floats]:
        """For each of these the broker where it costs least, and how much less than at its present broker.

        ``coming``, ``being``: costs for subscribers that would arrive, and for those already there, without themselves.
        """
        view = self.view
        size, items = view.rows.gather(us)
        first, weight, q = np.cumsum(size) - size, view.u[us], len(view.lam)
        items = items.astype(np.int64)

        def cost(brokers: Longs, each: Costs) -> Floats:
            alone = np.add.reduceat(each.take(np.repeat(brokers * q, size) + items), first)
            stays = np.where(brokers == self.home[us], self.price, 0.0)
            return np.asarray(alone + self.prices[brokers] * weight - stays)

        at = view.at[us].astype(np.int64)
        now = cost(at, being)
        best, least = at.copy(), now.copy()
        accepts = view.accepts
        for brokers in nearest[self.groups.of_subscriber[us]].T:
            there = np.where(accepts[brokers] & (brokers != at), cost(brokers, coming), np.inf)
            better = there < least
            best[better], least[better] = brokers[better], there[better]
        return best, now - least


def fitting(view: WhatIf, at: Ints, best: Longs, weight: Floats, room: Floats) -> Flags:
    """Which of these, sorted by target, fit there, if those that fit leave their brokers."""
    first = np.searchsorted(best, np.arange(view.m))
    fits = np.ones(len(best), dtype=np.bool_)
    for _ in range(TURNS):
        come, left = weight * fits, np.bincount(at[fits], minlength=view.m)
        filled, placed = np.cumsum(come), np.cumsum(fits)
        before = np.concatenate([[0.0], filled])[first][best]
        earlier = np.concatenate([[0], placed])[first][best]
        there = filled - before <= (room + summed(at, come, view.m))[best]
        there &= placed - earlier <= (view.max_subscribers - view.count + left)[best]
        if (there | ~fits).all():
            break
        fits &= there
    return fits


def candidates(view: WhatIf, groups: Groups) -> Longs:
    """Group × rank: the accepting brokers that hold most of the group's subscriptions, most first."""
    width = min(WIDTH, view.m)
    held = np.zeros((groups.count, view.m))
    for j in range(view.m):
        held[:, j] = summed(groups.of_subscription, np.where(view.held[:, j], view.lam, 0.0), groups.count)
    held[:, ~view.accepts] = -1.0
    return np.argsort(-held, axis=1, kind="stable")[:, :width]


def costly(view: WhatIf, fading: Floats) -> Costs:
    """What each subscription costs a subscriber at each broker, given how many there have it."""
    return (view.lam * fading[np.minimum(view.by_broker, CROWD - 1)]).astype(np.float32).ravel()
