"""Peal's first gear: bring the highest load down to a target with close to the fewest moves.

A broker above the target sheds its heaviest subscribers, the last of them chosen to land just below the target. Each
goes where it adds least among the brokers that stay below the target with it (they hold most of what it wants); among
equals to the nearest, then to the least loaded. What is left above the target after that is a matter of small change:
single moves and exchanges of two subscribers of almost the same weight.
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
#: Most rounds of small change for each broker.
PATIENCE = 12
#: Of how many pairs that look right the exact effect of an exchange is worked out.
PAIRS = 8
#: How many of one broker are looked at for small change; with more there are enough of every weight.
ENOUGH = 1_024

SHED = "peal: its broker is above the target"
CHANGE = "peal: small change"


def repair(view: WhatIf, target: float, *, thrifty: bool = False) -> Iterator[Migration]:
    """Moves in the view until no live broker is above ``target`` (relative load), or nothing helps any more."""
    for b in np.argsort(-view.relative, kind="stable").tolist():
        if view.live[b] and view.relative[b] > target:
            yield from shed(view, b, target, thrifty=thrifty)
    yield from small_change(view, target)


def shed(view: WhatIf, b: int, target: float, *, thrifty: bool = False) -> Iterator[Migration]:
    """The heaviest of one broker, while it is above the target and somebody has room for them.

    ``thrifty``: first those who add nothing elsewhere but what is delivered to them.
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
        # One more is enough: the lightest one that is.
        if weights[i] > excess and weights[i] >= weights[i + 1] >= excess:
            continue
        goal = easiest(view, u, target, b)
        if goal is None:
            goal = place(view, u, view.added(u), target, b)
        if goal is not None:
            yield moved(view, u, goal, SHED)


def easiest(view: WhatIf, u: int, target: float, source: int) -> int | None:
    """The least loaded broker, if u makes it fetch nothing and stays below the target: ``place`` would say the same."""
    if view.distance is not None:
        return None
    relative = np.where(view.accepts, view.relative, np.inf)
    relative[source] = np.inf
    goal = int(relative.argmin())
    added = float(view.u[u])
    fits = float(relative[goal]) + added / float(view.capacity[goal]) <= target
    return goal if fits and view.added_at(u, goal) == added else None


def overheads(view: WhatIf, us: Longs, target: float, source: int) -> Floats:
    """What each would make some broker with room fetch in addition, relative to its own load, in coarse steps."""
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
    """Where u adds least without passing the target."""
    fits = view.accepts & (view.relative + added / view.capacity <= target)
    fits[source] = False
    if not fits.any():
        return None
    least = float(added[fits].min())
    equal = np.flatnonzero(fits & (added <= least * (1 + 1e-9)))
    if view.distance is not None:
        nearest = view.distance[u, equal]
        equal = equal[nearest <= nearest.min()]
    return int(equal[np.argmin(view.relative[equal])])


def moved(view: WhatIf, u: int, target: int, why: str) -> Migration:
    source = int(view.at[u])
    before = float(view.relative[source])
    view.move(u, target)
    return Migration(u, source, target, before - float(view.relative[source]), why=why)


class Crews:
    """Who is at each broker, lightest first; worked out when asked for, and again when somebody has come or gone."""

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


def small_change(view: WhatIf, target: float) -> Iterator[Migration]:
    crews = Crews(view)
    for _ in range(PATIENCE * view.m):
        b = int(np.argmax(np.where(view.live, view.relative, -np.inf)))
        if view.relative[b] <= target or not view.live[b]:
            return
        others = np.flatnonzero(view.live & (view.relative < view.relative[b]))
        others = others[np.argsort(view.relative[others], kind="stable")]
        step = single(view, crews, b, others, target) or exchange(view, crews, b, others, target)
        if step is None:
            return
        for u, goal in step:
            crews.changed(b, goal)
            yield moved(view, u, goal, CHANGE)


def single(view: WhatIf, crews: Crews, b: int, others: Longs, target: float) -> list[tuple[int, int]] | None:
    """The one move that leaves the higher of its two brokers lowest; only if that is lower than now, by something."""
    here = crews[b]
    here = here[view.u[here] > 0]
    others = others[view.accepts[others]]
    if not len(here) or not len(others):
        return None
    goal = int(others[0])
    if len(here) > ENOUGH:
        # The best is near the weight that brings the broker to the target, or both to the same load.
        half = (float(view.relative[b]) - float(view.relative[goal])) / 2
        wish = min(float(view.relative[b]) - target, half) * float(view.capacity[b])
        begin = int(np.searchsorted(view.u[here], wish)) - ENOUGH // 2
        begin = min(max(begin, 0), len(here) - ENOUGH)
        here = here[begin : begin + ENOUGH]
    left = view.relative[b] - view.releases(here) / view.capacity[b]
    come = view.relative[goal] + view.added_to(here, goal) / view.capacity[goal]
    highest = np.maximum(left, come)
    best = int(np.argmin(highest))
    # Half the way to the target at least: an exchange may do better than a move that hardly helps.
    if highest[best] > target and highest[best] > view.relative[b] - (view.relative[b] - target) / 2:
        return None
    return [(int(here[best]), goal)] if highest[best] < view.relative[b] * (1 - ROUNDING) else None


def exchange(view: WhatIf, crews: Crews, b: int, others: Longs, target: float) -> list[tuple[int, int]] | None:
    """Somebody of b against somebody a little lighter of another broker, also where b has as many as it takes."""
    if view.status[b] != Status.OPEN:
        return None
    here = crews[b]
    here = here[:: max(1, len(here) // ENOUGH)]
    top = float(view.relative[b])
    best: tuple[float, int, int, int] | None = None
    for j in others.tolist():
        there = crews[j]
        if view.status[j] != Status.OPEN or not len(there) or not len(here):
            continue
        excess = (top - target) * float(view.capacity[b])
        room = (target - float(view.relative[j])) * float(view.capacity[j])
        wish = excess if room >= excess else max((view.F[b] - view.F[j]) / 2, 0.0)
        for u, v in pairs(view.u[here], view.u[there], wish):
            found = exchanged(view, int(here[u]), int(there[v]), b, j)
            if found < top * (1 - ROUNDING) and (best is None or found < best[0]):
                best = (found, int(here[u]), int(there[v]), j)
        if best is not None and best[0] <= target:
            break
    if best is None:
        return None
    _, u, v, j = best
    return [(u, j), (v, b)]


def pairs(ours: Floats, theirs: Floats, wish: float) -> list[tuple[int, int]]:
    """Places of pairs whose difference is the closest to the wish, and not less if that can be; both lightest first."""
    place_ = np.clip(np.searchsorted(theirs, ours - wish, side="right") - 1, 0, len(theirs) - 1)
    off = ours - theirs[place_] - wish
    off = np.where(off < -ROUNDING, np.inf, off)
    closest = np.argsort(off, kind="stable")[:PAIRS]
    return [(int(i), int(place_[i])) for i in closest if np.isfinite(off[i])]


def exchanged(view: WhatIf, u: int, v: int, b: int, j: int) -> float:
    """The higher relative load of the two brokers after the exchange, exactly."""
    view.move(u, j)
    view.move(v, b)
    highest = float(max(view.relative[b], view.relative[j]))
    view.move(v, j)
    view.move(u, b)
    return highest


def fewest(view: WhatIf, target: float) -> int:
    """The smallest number of moves that could reach the target: each broker above it sheds its heaviest."""
    total = 0
    trial = view.fork()
    for b in np.flatnonzero(view.live & (view.relative > target)).tolist():
        here = trial.subscribers(b)
        for u in here[np.argsort(-trial.u[here], kind="stable")].tolist():
            if trial.relative[b] <= target:
                break
            trial.move(u, -1)
            total += 1
    return total
