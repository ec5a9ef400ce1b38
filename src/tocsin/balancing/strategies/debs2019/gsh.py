"""GSH, the greedy shuffle (DEBS 2019): places all subscribers again, heaviest first, each at the least loaded broker.

a) criteria: the load relative to capacity.
b) load state estimation: cov > γ and μ > θ.
c) decision: with each evaluation of the coordinator.
d) method: subscribers migrate.
e) load moved: all subscribers that the shuffle places at another broker.
f) target: of each the least loaded broker, when all heavier ones are placed.
g), h) exchange and recipients: brokers report to the coordinator.

What the paper leaves open, and what we do:

- The shuffle starts from empty brokers, so nothing keeps its result below the present maximum. If it is not below, no
  migration is suggested: a plan must never raise the maximum.
- It says nothing about the order of the migrations. The next one always leaves the broker with the most load left, so
  that room is made before it is needed and a plan that is cut short has an effect.
- Brokers that are full, draining or gone keep their subscribers; the other brokers share theirs. A broker's maximum of
  subscribers holds. Loads are relative to capacity.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import ClassVar, NamedTuple

import numpy as np

from tocsin.balancing.catalogue.blueprint import MAIN, StageParts
from tocsin.balancing.catalogue.use import use
from tocsin.balancing.host.actions import ActionKind
from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.model.arrays import Ints, Longs
from tocsin.balancing.model.load import Status
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import LOAD, WhatIf
from tocsin.balancing.strategies.strategy import MIGRATES, StagedStrategy, View, composed

REASON = "GSH: placed again"
#: Below this share of the present maximum a shuffle counts as better; rounding alone does not.
BETTER = 1 - 1e-9


@dataclass
class GSH:
    """All subscribers are placed again, heaviest first, each at the least loaded broker; all in one iteration."""

    model: ClassVar[str] = "subscribers"
    actions: ClassVar[frozenset[ActionKind]] = MIGRATES

    def select_target(self, scope: View, criterion: str, state: LoadState) -> Shuffled | None:
        """The broker of every subscriber."""
        view = scope.model
        shuffled = shuffle(view)
        return shuffled if shuffled is not None and shuffled.maximum < view.loads.maximum * BETTER else None

    def select_load_to_move(self, scope: View, criterion: str, state: LoadState, target: Shuffled) -> Longs:
        """Those that are at another one, by their place in the shuffle."""
        return np.flatnonzero(scope.model.at[target.subscribers] != target.brokers)

    def rebalance(
        self, scope: View, criterion: str, state: LoadState, target: Shuffled, load: Longs
    ) -> Iterator[Migration]:
        view = scope.model
        us, targets = target.subscribers[load], target.brokers[load]
        sources = view.at[us]
        order = fullest_first(view, us, sources)
        view.migrate_all(us, targets)
        columns = (each[order].tolist() for each in (us, sources, targets))
        yield from map(Migration._make, zip(*columns, repeat(0.0), repeat(False), repeat(REASON), strict=False))


class Shuffled(NamedTuple):
    """Subscribers heaviest first, their brokers, and the maximum relative load then."""

    subscribers: Longs
    brokers: Longs
    maximum: float


def shuffle(view: WhatIf) -> Shuffled | None:
    """None if they do not all fit. It depends on the placement only where brokers are not open, and takes long."""
    if "shuffle" not in view.derived:
        view.derived["shuffle"] = _shuffle(view)
    found: Shuffled | None = view.derived["shuffle"]
    return found


def _shuffle(view: WhatIf) -> Shuffled | None:
    open_ = view.status == Status.OPEN
    brokers = np.flatnonzero(open_)
    here = np.flatnonzero((view.at >= 0) & open_[view.at])
    if not len(brokers) or view.max_subscribers[brokers].sum() < len(here):
        return None
    us = here[np.argsort(-view.u[here], kind="stable")]
    lam = view.lam
    lacks = [np.ones(len(lam), dtype=np.bool_) for _ in range(view.m)]
    missing = [len(lam)] * view.m  # how many each broker lacks; 0 needs no further check
    load, room, capacity = [0.0] * view.m, view.max_subscribers.tolist(), view.capacity.tolist()
    heap = [(0.0, j) for j in brokers.tolist()]  # sorted, hence a heap
    targets: list[int] = []
    for _, some in view.rows.parts(us):
        size, items = view.rows.gather(some)
        begin = 0
        for end, weight in zip(np.cumsum(size).tolist(), view.u[some].tolist(), strict=True):
            while room[heap[0][1]] <= 0:
                heapq.heappop(heap)
            j = heap[0][1]
            if missing[j]:
                row, lack = items[begin:end], lacks[j]
                lacking = lack.take(row)
                if np.count_nonzero(lacking):
                    new = row[lacking]
                    lack[new] = False
                    missing[j] -= len(new)
                    weight += float(lam[new].sum())
            load[j] += weight
            room[j] -= 1
            heapq.heapreplace(heap, (load[j] / capacity[j], j))
            targets.append(j)
            begin = end
    staying = np.flatnonzero(view.live & ~open_)
    highest = max([load[j] / capacity[j] for j in brokers.tolist()] + view.relative[staying].tolist())
    return Shuffled(us, np.array(targets, dtype=np.int64), highest)


def fullest_first(view: WhatIf, us: Longs, sources: Ints) -> Longs:
    """The order of these migrations: always one from the broker with most of its original load left, heaviest first.

    Arriving subscribers are not counted: a shuffle sends them to all brokers alike, so the maximum falls all the same,
    and the load left before each migration is a cumulative sum. ``us`` are sorted, heaviest first.
    """
    order = np.argsort(sources, kind="stable")
    weight, at = view.u[us[order]], sources[order]
    gone = np.cumsum(weight) - weight
    before = gone[np.searchsorted(at, np.arange(view.m))[at]]
    left = view.relative[at] - (gone - before) / view.capacity[at]
    return np.asarray(order[np.argsort(-left, kind="stable")])


def gsh(gamma: float = 0.5, theta: float = 0.0) -> StagedStrategy:
    """``gamma`` bounds cov, ``theta`` is the mean load below which imbalance does no harm."""
    return composed(StageParts(MAIN, LOAD, use("cov", alpha=gamma, beta=theta), use("gsh")))
