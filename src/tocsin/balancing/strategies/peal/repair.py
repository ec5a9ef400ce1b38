"""Peal's repair: brings the highest load down to a target with close to the fewest migrations.

A broker above the target sheds its heaviest subscribers, the last of them chosen to land just below the target. Each
goes where it adds least among the brokers that stay below the target with it; among equals to the least loaded. What
then remains above the target is removed by small adjustments: single migrations and exchanges of two subscribers of
almost the same weight.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tocsin.balancing.model.arrays import Floats, Longs
from tocsin.balancing.model.load import Status
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import WhatIf

#: Loads closer than this are the same.
ROUNDING = 1e-12
#: Most adjustments for each broker.
ROUNDS = 12
#: For how many promising pairs the exact effect of an exchange is computed.
PAIRS = 8
#: How many subscribers of one broker are examined for an adjustment; that is enough to find every weight.
ENOUGH = 1_024

SHED = "peal: its broker is above the target"
CHANGE = "peal: adjustment"


def repair(view: WhatIf, target: float, *, thrifty: bool = False) -> Iterator[Migration]:
    """Migrate in the view until no live broker is above ``target`` (relative load), or nothing helps any more."""
    for b in np.argsort(-view.relative, kind="stable").tolist():
        if view.live[b] and view.relative[b] > target:
            yield from shed(view, b, target, thrifty=thrifty)
    yield from adjust(view, target)


def shed(view: WhatIf, b: int, target: float, *, thrifty: bool = False) -> Iterator[Migration]:
    """Migrate the heaviest of one broker, while it is above the target and another broker has room.

    ``thrifty``: first those that make no other broker fetch more.
    """
    here = view.subscribers(b)
    here = here[np.argsort(-view.u[here], kind="stable")]
    here = here[view.u[here] > 0]
    if thrifty:
        here = here[np.argsort(overheads(view, here, target, b), kind="stable")]
    capacity, weights = float(view.capacity[b]), view.u[here].tolist()
    weights.append(-1.0)
    for i, u in enumerate(here.tolist()):
        excess = (float(view.relative[b]) - target) * capacity
        if excess <= 0:
            return
        # One more is enough: take the lightest that suffices.
        if weights[i] > excess and weights[i] >= weights[i + 1] >= excess:
            continue
        goal = easiest(view, u, target, b)
        if goal is None:
            goal = place(view, u, view.added(u), target, b)
        if goal is not None:
            yield migrated(view, u, goal, SHED)


def easiest(view: WhatIf, u: int, target: float, source: int) -> int | None:
    """The least loaded broker, if u makes it fetch nothing and it stays below the target, as ``place`` would choose."""
    relative = np.where(view.accepts, view.relative, np.inf)
    relative[source] = np.inf
    goal = int(relative.argmin())
    added = float(view.u[u])
    fits = float(relative[goal]) + added / float(view.capacity[goal]) <= target
    return goal if fits and view.added_at(u, goal) == added else None


def overheads(view: WhatIf, us: Longs, target: float, source: int) -> Floats:
    """The least that each makes a broker with room fetch in addition, relative to its own load, in coarse steps."""
    fits = view.accepts & (view.relative < target)
    fits[source] = False
    if not fits.any():
        return np.zeros(len(us))
    out = np.empty(len(us))
    for begin in range(0, len(us), 4096):
        some = us[begin : begin + 4096]
        out[begin : begin + 4096] = view.added_all(some)[:, fits].min(axis=1) / view.u[some] - 1
    return np.floor(out * 20)


def place(view: WhatIf, u: int, added: Floats, target: float, source: int) -> int | None:
    """The broker to which u adds least without exceeding the target."""
    fits = view.accepts & (view.relative + added / view.capacity <= target)
    fits[source] = False
    if not fits.any():
        return None
    least = float(added[fits].min())
    equal = np.flatnonzero(fits & (added <= least * (1 + 1e-9)))
    return int(equal[np.argmin(view.relative[equal])])


def migrated(view: WhatIf, u: int, target: int, reason: str) -> Migration:
    source = int(view.at[u])
    before = float(view.relative[source])
    view.migrate(u, target)
    return Migration(u, source, target, before - float(view.relative[source]), reason=reason)


class Rosters:
    """The subscribers of each broker, lightest first; sorted on demand, and again after a change."""

    def __init__(self, view: WhatIf) -> None:
        self._view, self._of = view, dict[int, Longs]()

    def __getitem__(self, j: int) -> Longs:
        if j not in self._of:
            here = self._view.subscribers(j)
            self._of[j] = here[np.argsort(self._view.u[here], kind="stable")]
        return self._of[j]

    def changed(self, *brokers: int) -> None:
        for j in brokers:
            self._of.pop(j, None)


def adjust(view: WhatIf, target: float) -> Iterator[Migration]:
    rosters = Rosters(view)
    for _ in range(ROUNDS * view.m):
        b = int(np.argmax(np.where(view.live, view.relative, -np.inf)))
        if view.relative[b] <= target or not view.live[b]:
            return
        others = np.flatnonzero(view.live & (view.relative < view.relative[b]))
        others = others[np.argsort(view.relative[others], kind="stable")]
        step = single(view, rosters, b, others, target) or exchange(view, rosters, b, others, target)
        if step is None:
            return
        for u, goal in step:
            rosters.changed(b, goal)
            yield migrated(view, u, goal, CHANGE)


def single(view: WhatIf, rosters: Rosters, b: int, others: Longs, target: float) -> list[tuple[int, int]] | None:
    """The migration that leaves the higher of its two brokers lowest, if that is an improvement."""
    here = rosters[b]
    here = here[view.u[here] > 0]
    others = others[view.accepts[others]]
    if not len(here) or not len(others):
        return None
    goal = int(others[0])
    if len(here) > ENOUGH:
        # The best has about the weight that brings the broker to the target, or both to the same load.
        half = (float(view.relative[b]) - float(view.relative[goal])) / 2
        difference = min(float(view.relative[b]) - target, half) * float(view.capacity[b])
        begin = int(np.searchsorted(view.u[here], difference)) - ENOUGH // 2
        begin = min(max(begin, 0), len(here) - ENOUGH)
        here = here[begin : begin + ENOUGH]
    left = view.relative[b] - view.releases(here) / view.capacity[b]
    come = view.relative[goal] + view.added_to(here, goal) / view.capacity[goal]
    highest = np.maximum(left, come)
    best = int(np.argmin(highest))
    # At least half the way to the target: an exchange may do better than a migration that hardly helps.
    if highest[best] > target and highest[best] > view.relative[b] - (view.relative[b] - target) / 2:
        return None
    return [(int(here[best]), goal)] if highest[best] < view.relative[b] * (1 - ROUNDING) else None


def exchange(view: WhatIf, rosters: Rosters, b: int, others: Longs, target: float) -> list[tuple[int, int]] | None:
    """Exchange a subscriber of b for a slightly lighter one of another broker, even if b has its maximum."""
    if view.status[b] != Status.OPEN:
        return None
    here = rosters[b]
    here = here[:: max(1, len(here) // ENOUGH)]
    top = float(view.relative[b])
    best: tuple[float, int, int, int] | None = None
    for j in others.tolist():
        there = rosters[j]
        if view.status[j] != Status.OPEN or not len(there) or not len(here):
            continue
        excess = (top - target) * float(view.capacity[b])
        room = (target - float(view.relative[j])) * float(view.capacity[j])
        difference = excess if room >= excess else max((view.F[b] - view.F[j]) / 2, 0.0)
        for u, v in pairs(view.u[here], view.u[there], difference):
            found = exchanged(view, int(here[u]), int(there[v]), b, j)
            if found < top * (1 - ROUNDING) and (best is None or found < best[0]):
                best = (found, int(here[u]), int(there[v]), j)
        if best is not None and best[0] <= target:
            break
    if best is None:
        return None
    _, u, v, j = best
    return [(u, j), (v, b)]


def pairs(ours: Floats, theirs: Floats, difference: float) -> list[tuple[int, int]]:
    """Indexes of the pairs whose difference is closest to ``difference`` and not less; both lightest first."""
    place_ = np.clip(np.searchsorted(theirs, ours - difference, side="right") - 1, 0, len(theirs) - 1)
    off = ours - theirs[place_] - difference
    off = np.where(off < -ROUNDING, np.inf, off)
    closest = np.argsort(off, kind="stable")[:PAIRS]
    return [(int(i), int(place_[i])) for i in closest if np.isfinite(off[i])]


def exchanged(view: WhatIf, u: int, v: int, b: int, j: int) -> float:
    """The higher relative load of the two brokers after the exchange, exactly."""
    view.migrate(u, j)
    view.migrate(v, b)
    highest = float(max(view.relative[b], view.relative[j]))
    view.migrate(v, j)
    view.migrate(u, b)
    return highest
